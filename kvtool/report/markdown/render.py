"""Sections in Markdown: what users wrote is shown as code, so that nothing in it is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvtool.report.markdown.text import code, prose
from kvtool.report.views.section import Cell, Section, Table


def section_lines(section: Section, of: str = "") -> list[str]:
    """Return a section as lines: what it is `of` with its title, the lead, tables and notes."""
    lines = [f"\n**{of and f'{of}: '}{prose(section.title)}**"]
    lines += _list(section.lead)
    for table in section.tables:
        if table.only != "terminal":
            lines += ["", *table_lines(table)]
    return lines + _list((section.missing.text, *section.notes) if section.missing is not None else section.notes)


def table_lines(table: Table) -> list[str]:
    """Return head, rule and rows of a table, then how many are left out, and its notes."""
    places = [place for place, column in enumerate(table.columns) if column.only != "terminal"]
    columns = [table.columns[place] for place in places]
    rule = "".join("--:|" if column.kind == "number" else "---|" for column in columns)
    return [
        _row(column.head for column in columns),
        f"|{rule}",
        *(_row(_cell(row[place], table.columns[place].kind) for place in places) for row in table.rows),
        *_list((table.left_out, *table.notes) if table.more else table.notes),
    ]


def _list(sentences: Sequence[str]) -> list[str]:
    return ["", *(f"- {prose(sentence)}" for sentence in sentences)] if sentences else []


def _cell(cell: Cell, kind: str) -> str:
    """Return the escaped cell; one of `code` may be a name that users wrote."""
    return code(str(cell), cell=True) if kind == "code" and str(cell) else prose(str(cell), cell=True)


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
