"""Sections in Markdown: what users wrote is shown as code, so that nothing in it is markup."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.report.markdown.text import code, prose
from kvtool.report.views.section import Cell, Section, Table, TableColumn


def section_lines(section: Section, of: str = "") -> list[str]:
    """Return a section as lines: what it is `of` with its title, the lead, settings, tables and notes."""
    lines = [f"\n**{of and f'{of}: '}{prose(section.title)}**"]
    lines += _list([*map(prose, section.lead), *(f"**{label}:** {prose(text)}" for label, text in section.settings)])
    for table in section.on_pages().tables:
        lines += ["", *table_lines(table)]
    missing = [section.missing.text] if section.missing is not None else []
    return lines + _list(map(prose, (*missing, *section.notes)))


def table_lines(table: Table) -> list[str]:
    """Return head, rule and rows of a table, then how many are left out, and its notes."""
    table = table.on_pages()
    columns = table.columns
    rule = "".join("--:|" if column.kind == "number" else "---|" for column in columns)
    return [
        _row(column.head for column in columns),
        f"|{rule}",
        *(_row(map(_cell, row, columns)) for row in table.rows),
        *(["", table.left_out] if table.left_out else []),
        *_list(map(prose, table.notes)),
    ]


def _list(items: Iterable[str]) -> list[str]:
    lines = [f"- {item}" for item in items]
    return ["", *lines] if lines else []


def _cell(cell: Cell, column: TableColumn) -> str:
    text = str(cell)
    is_name = column.kind == "code" or column.cut
    return code(text, cell=True) if is_name and text else prose(text, cell=True)


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
