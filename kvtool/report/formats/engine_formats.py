"""The table of all engines as a file: JSON, Markdown, HTML, text, or a picture of the terminal view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kvtool.report.formats.svg import svg_of
from kvtool.report.formats.text_format import text_of
from kvtool.report.markdown.render import section_lines
from kvtool.report.markdown.text import code, prose
from kvtool.report.terminal.plan_views.engine_table import print_engine_table
from kvtool.report.views.page_commands import shown_command
from kvtool.report.views.plans.engines import PARTIAL, answer, facts, sections, todo
from kvtool.report.write_options import WriteOptions
from kvtool.results.documents.engine_table import EngineTable

_MOST_GROUPS = 100
_MOST_ON_A_PAGE = 500


def _html(table: EngineTable, _options: WriteOptions) -> str:
    """Return a page that loads nothing and quotes no prompt."""
    from kvtool.report.html.headline import AnswerLine
    from kvtool.report.html.sections_page import sections_page

    return sections_page(
        [replace(section, lead=()) for section in sections(table, _MOST_ON_A_PAGE)],
        title=table.input,
        head_title=f"{table.input} in every engine",
        brand="engines compared",
        facts=facts(table),
        notes=table.notes,
        caution=PARTIAL if table.partial else "",
        answer=[
            *(AnswerLine("" if number else "Answer", text) for number, text in enumerate(answer(table))),
            *([AnswerLine("Next", todo(table), shown_command(table.next))] if table.next else []),
        ],
    )


def _markdown(table: EngineTable, _options: WriteOptions) -> str:
    """Return tables and lists; names cannot become markup, mentions or links."""
    lines = [f"### kvtool: {code(table.input)} in every engine", ""]
    lines += [prose("; ".join([*facts(table), *table.notes]))]
    lines += [f"\n**PARTIAL** {PARTIAL}"] if table.partial else []
    for section in sections(table, _MOST_GROUPS):
        lines += section_lines(section)
    if table.next:
        lines += ["", f"Next: {todo(table)}: {code(shown_command(table.next))}"]
    return "\n".join(lines) + "\n"


FORMATTERS: Mapping[str, Callable[[EngineTable, WriteOptions], str]] = {
    "json": lambda table, _: table.to_json(),
    "markdown": _markdown,
    "html": _html,
    "text": lambda table, options: text_of(lambda console: print_engine_table(console, table), options.width),
    "svg": lambda table, options: svg_of(
        lambda console: print_engine_table(console, table), "kvtool compare-engines", options.width
    ),
}
"""Writers by the names of formats."""
