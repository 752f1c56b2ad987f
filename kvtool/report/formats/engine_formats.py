"""The table of all engines as a file: JSON, Markdown, HTML, text, or a picture of the terminal view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import StringIO
from typing import TYPE_CHECKING

from kvtool.report.formats.svg import svg_of
from kvtool.report.markdown.text import code, prose
from kvtool.report.terminal.plan_views.engine_table import print_engine_table
from kvtool.report.words.engine_words import STATUS, answer, evidence, heading, limits, loss_of, losses, row_name
from kvtool.report.write_options import WriteOptions
from kvtool.results.documents.engine_table import EngineTable
from kvtool.text.terminal.console import make_console
from kvtool.text.terminal.numbers import percent

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 100


def _json(table: EngineTable, _options: WriteOptions) -> str:
    return table.to_json()


def _text(table: EngineTable, options: WriteOptions) -> str:
    file = StringIO()
    print_engine_table(make_console(file=file, color="never", width=options.width), table)
    return file.getvalue()


def _svg(table: EngineTable, options: WriteOptions) -> str:
    def show(console: Console) -> None:
        print_engine_table(console, table)

    return svg_of(show, "kvtool compare-engines", options.width)


def _html(table: EngineTable, _options: WriteOptions) -> str:
    from kvtool.report.html.engine_table import engine_page

    return engine_page(table)


def _markdown(table: EngineTable, _options: WriteOptions) -> str:
    """Tables and lists; names cannot become markup, mentions or links."""
    lines = [f"### kvtool: {code(table.input)} under every engine's rules", ""]
    lines += [prose("; ".join([*heading(table), *table.notes])), ""]
    lines += ["| # | engine | cached | hit | less, because of | lost again | rules |", "|--:|---|--:|--:|---|---|---|"]
    for number, row in enumerate(table.rows, 1):
        cells = (
            str(number),
            code(row_name(row), cell=True),
            f"{row.cached_tokens:,}",
            percent(row.hit_rate),
            prose(loss_of(row)),
            prose(losses(row)),
            STATUS[row.status],
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {prose(sentence)}" for sentence in answer(table)), ""]
    if len(table.groups) > 1:
        numbers = range(1, len(table.rows) + 1)
        lines += [
            f"| group | {' | '.join(map(str, numbers))} | largest difference |",
            f"|---|{'--:|' * len(table.rows)}---|",
        ]
        for group in table.groups[:_MOST_GROUPS]:
            rates = [
                percent(tokens / group.prompt_tokens if group.prompt_tokens else 0.0) for tokens in group.cached_tokens
            ]
            lines.append(f"| {code(group.name, cell=True)} | {' | '.join(rates)} | {prose(group.cause or '')} |")
        if len(table.groups) > _MOST_GROUPS:
            lines += ["", f"{len(table.groups) - _MOST_GROUPS:,} more groups are in the JSON."]
        lines.append("")
    lines += [f"- {prose(engine)}: {prose(told)}" for engine, told in evidence(table)]
    lines += ["", "Not in these rules:", ""]
    lines += [f"- {prose(engine)}: {prose(told)}" for engine, told in limits(table)]
    if table.next:
        lines += ["", f"Next: {code(' '.join(['kvtool', *table.next]))}"]
    return "\n".join(lines) + "\n"


FORMATTERS: Mapping[str, Callable[[EngineTable, WriteOptions], str]] = {
    "json": _json,
    "markdown": _markdown,
    "html": _html,
    "text": _text,
    "svg": _svg,
}
"""What a table can be written as, by the names of the formats."""
