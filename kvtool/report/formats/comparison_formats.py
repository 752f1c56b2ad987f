"""A comparison as a file: JSON, Markdown for a pull request, text, or a picture of the terminal view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvtool.report.formats.svg import svg_of
from kvtool.report.formats.text_format import text_of
from kvtool.report.markdown.render import table_lines
from kvtool.report.markdown.text import code, prose
from kvtool.report.terminal.comparison import print_comparison
from kvtool.report.views.comparison import (
    cause_text,
    fates_table,
    groups_table,
    moved_causes,
    only_in_one,
    sentence,
    totals_table,
    warnings,
)
from kvtool.report.write_options import WriteOptions
from kvtool.results.comparison import CauseMove, Comparison, WorkloadMove
from kvtool.results.document_base import dump

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 30


def _shown(comparison: Comparison) -> Callable[[Console], None]:
    return lambda console: print_comparison(console, comparison, show_text="none", read_files=False)


def _markdown(comparison: Comparison, _options: WriteOptions) -> str:
    """Return headings, tables and lists; names and paths cannot become markup, mentions or links."""
    lines = [f"### kvtool: {prose(sentence(comparison))}", ""]
    lines += [f"- {prose(text)}" for text in only_in_one(comparison)]
    for workload in comparison.workloads:
        lines += _workload(workload, several=len(comparison.workloads) > 1)
    return "\n".join([*lines, *_causes(comparison.findings)]).rstrip("\n") + "\n"


FORMATTERS: Mapping[str, Callable[[Comparison, WriteOptions], str]] = {
    "json": lambda comparison, _: dump(comparison),
    "markdown": _markdown,
    "text": lambda comparison, options: text_of(_shown(comparison), options.width),
    "svg": lambda comparison, options: svg_of(_shown(comparison), "kvtool compare", options.width),
}
"""Writers by the names of formats."""


def _workload(workload: WorkloadMove, *, several: bool) -> list[str]:
    lines = [f"#### {code(workload.name)}", ""] if several else []
    cautions = warnings(workload)
    lines += [f"> **{prose(text)}**" for text in cautions] + ([""] if cautions else [])
    lines += [*table_lines(totals_table(workload.total)), ""]
    if len(workload.groups) > 1:
        lines += [*table_lines(groups_table(workload.groups, _MOST_ROWS)), ""]
    fates = fates_table(workload.total)
    lines += [f"<details><summary>{fates.caption}</summary>", "", *table_lines(fates), "", "</details>", ""]
    return lines + _causes(workload.causes)


def _causes(moves: Sequence[CauseMove]) -> list[str]:
    shown, rest = moved_causes(moves, _MOST_ROWS)
    lines = [*(f"{move.change}: {cause_text(move)}" for move in shown), *rest]
    return [*(f"- {prose(line)}" for line in lines), ""] if lines else []
