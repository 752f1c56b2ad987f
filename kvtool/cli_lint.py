"""The commands that tell without measuring: `lint` and `explain`."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from kvtool.cli_options import (
    BadLine,
    BlockSize,
    Capacity,
    ChatTemplateFile,
    Color,
    Groups,
    Json,
    LogFormat,
    Offline,
    Quiet,
    Requests,
    Seed,
    ShowText,
    TokenizerName,
    Width,
)
from kvtool.errors import KvtoolError
from kvtool.streams import is_terminal_stdin

ErrorOn = Literal["error", "warning", "info"]


def lint(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT", help="workload.yaml, logs, .txt/.md/.j2 templates, .py files, or -.", show_default=False
        ),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="CODES", help="Only these: KV101,KV104 or KV1; repeatable.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODES", help="Not these; repeatable.")
    ] = None,
    error_on: Annotated[ErrorOn, typer.Option(help="Exit 1 from this severity on.")] = "error",
    fix: Annotated[bool, typer.Option("--fix", help="Edit the files: what neither moves nor changes content.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="With --fix or --diff: move and change text, too.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print what --fix would do; exit 1 where that is something.")
    ] = False,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="FILE", help="With --fix: a patch that takes it back.")
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe", metavar="SPEC", help="RUN a prompt builder, 'python build.py' or module:function, many times."
        ),
    ] = None,
    probe_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="For each run of the probe.")] = 30.0,
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    block_size: BlockSize = None,
    capacity: Capacity = None,
    on_bad_line: BadLine = "error",
    log_format: LogFormat = None,
    requests: Requests = None,
    group: Groups = None,
    seed: Seed = None,
    show_text: Annotated[ShowText, typer.Option(help="Whether the report may quote prompts.")] = "snippet",
    json: Json = False,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    width: Width = None,
) -> int:
    """What costs prefix-cache hits, and where: findings only.

    Workloads, logs and prompts (two or more .txt/.md files) are run through the engine. Of one template or a Python file, where no
    traffic tells what varies, it reports what a name or a call says: nothing in it is executed or imported.

    Only --probe executes code: it runs a prompt builder with one circumstance changed at a time (clock, hash seed, locale, folder,
    user…) and names each that reaches the prompt. INPUT may then be left out.
    """
    if not inputs and probe is None:
        raise KvtoolError("missing argument 'INPUT...'", hint="kvtool lint --help")
    inputs = inputs or []
    if is_terminal_stdin(inputs):
        print("kvtool lint -: reading standard input needs a pipe; see kvtool lint --help", file=sys.stderr)
        return 2
    from kvtool.commands.lint import LintArguments, run_lint

    return run_lint(
        LintArguments(
            inputs=inputs,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            error_on=error_on,
            fix=fix,
            unsafe_fixes=unsafe_fixes,
            diff=diff,
            undo=undo,
            probe=probe,
            probe_timeout=probe_timeout,
            tokenizer=tokenizer,
            chat_template=chat_template,
            block_size=block_size,
            capacity=capacity,
            on_bad_line=on_bad_line,
            log_format=log_format,
            requests=requests,
            groups=tuple(group or ()),
            seed=seed,
            show_text=show_text,
            json=json,
            offline=offline,
            quiet=quiet,
            color=color,
            width=width,
            command_line=context.obj or (),
        )
    )


def explain(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="Such as KV101; left out: all codes.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="All codes, with their names.")] = False,
    json: Json = False,
    color: Color = "auto",
    width: Width = None,
) -> int:
    """What a code means, why it costs, an example before and after, the fix, and when to ignore it."""
    from kvtool.commands.explain import run_explain

    return run_explain(code, list_all=list_all, json=json, color=color, width=width)
