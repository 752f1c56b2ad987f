"""Sections on the page: the template escapes them, and each gets an anchor of its workload's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvtool.report.views.order import ReportBlock, sections
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Report


def page_sections(report: Report, blocks: Iterable[ReportBlock], prefix: str) -> Iterator[Section]:
    """Yield the blocks that a report has, with the columns and tables that pages show."""
    for section in sections(blocks, report, "pages"):
        tables = [_table(table) for table in section.tables if table.only != "terminal"]
        yield replace(section, id=f"{prefix}-{section.id}", tables=tables)


def _table(table: Table) -> Table:
    """Leave out the columns that only the terminal shows."""
    kept = [place for place, column in enumerate(table.columns) if column.only != "terminal"]
    if len(kept) == len(table.columns):
        return table
    columns: tuple[TableColumn, ...] = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, rows=[tuple(row[place] for place in kept) for row in table.rows])
