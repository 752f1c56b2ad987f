"""Sections on the page: the template escapes them, and each gets an anchor of its workload's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvtool.report.views.report_blocks import ReportBlock, sections
from kvtool.report.views.section import Section
from kvtool.results.report import Report


def page_sections(report: Report, blocks: Iterable[ReportBlock], prefix: str) -> Iterator[Section]:
    """Yield the blocks that a report has, each with the prefix in its anchor."""
    for section in sections(blocks, report, "pages"):
        yield replace(section.on_pages(), id=f"{prefix}-{section.id}")
