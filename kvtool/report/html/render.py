"""Sections on the page: the template escapes them, and each gets an anchor of its workload's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvtool.report.views.report_blocks import ReportBlock, sections
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.report import Report


def page_sections(report: Report, blocks: Iterable[ReportBlock], prefix: str) -> Iterator[Section]:
    """Yield the blocks that a report has, each with the prefix in its anchor."""
    for section in sections(blocks, report, "pages"):
        yield page_section(replace(section, id=f"{prefix}-{section.id}"))


def page_section(section: Section) -> Section:
    """Return a section with the tables and columns that pages show."""
    return replace(section, tables=[_table(table) for table in section.tables if table.only != "terminal"])


def _table(table: Table) -> Table:
    """Leave out the columns that only the terminal shows."""
    kept = [place for place, column in enumerate(table.columns) if column.only != "terminal"]
    if len(kept) == len(table.columns):
        return table
    columns: tuple[TableColumn, ...] = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, rows=[tuple(row[place] for place in kept) for row in table.rows])
