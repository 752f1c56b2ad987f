"""The commands on results that were saved: `report` and `compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.options import Boundaries, Color, Json, Output, Plain, Quiet, ShowTextOption, Width
from kvtool.text.terminal.streams import check_piped

_RESULT = "A file that kvtool profile, check or lint wrote as JSON, or -."


def report(
    result: Annotated[str, typer.Argument(metavar="RESULT", help=_RESULT)],
    boundaries: Boundaries = False,
    show_text: ShowTextOption = None,
    output: Output = None,
    json: Json = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Show a saved result again, in the terminal or in any format: kvtool report result.json -o html=report.html.

    It judges nothing: the exit code is 0 whatever the verdict was.
    """
    check_piped("report", [result])
    from kvtool.cli.run_results import ReportArguments, run_report

    return run_report(
        ReportArguments(
            result=result,
            boundaries=boundaries,
            show_text=show_text,
            outputs=tuple(output or ()),
            json=json,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
        )
    )


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_RESULT)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same, later.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 where a hit rate fell.")] = False,
    show_text: ShowTextOption = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="[FMT=]PATH",
            help="Also write PATH, in the format of its extension (json, md, svg, txt) or FMT; repeatable.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """What moved between two saved results: hit rates by group, times, where the tokens went, and causes with their lines.

    Workloads go together by name, causes by code, file and variable: a line that moved is the same cause. Whatever makes the two
    not comparable (another tokenizer, block size or capacity) is said first.
    """
    check_piped("compare", [old, new])
    from kvtool.cli.run_results import CompareArguments, run_compare

    return run_compare(
        CompareArguments(
            old=old,
            new=new,
            exit_code=exit_code,
            show_text=show_text,
            outputs=tuple(output or ()),
            json=json,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
        )
    )
