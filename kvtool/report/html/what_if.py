"""The page of `kvtool what-if`: answer, tiles, and a section for each axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kvtool.report.html.charts.fleet_lines import replicas_section, tier_section
from kvtool.report.html.charts.router_scatter import routing_section
from kvtool.report.html.charts.scales import short_count
from kvtool.report.html.charts.split_map import split_section
from kvtool.report.html.charts.sweep_lines import block_size_section, capacity_section, policy_section, ttl_section
from kvtool.report.html.headline import AnswerLine, HeadlineTile
from kvtool.report.html.sections_page import sections_page
from kvtool.report.views.plans.what_if import answer, changes, enough_row, heading, legend
from kvtool.report.views.plans.what_if_rows import row_commands
from kvtool.report.views.section import Section
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.results.next_step import command_of
from kvtool.text.terminal.numbers import percent, plural

_TABLE = "table"


def what_if_page(document: WhatIfDocument) -> str:
    """Return the whole page, which quotes no prompt."""
    return sections_page(
        _sections(document),
        title=document.input,
        head_title=f"What if: {document.input}",
        brand="what-if",
        facts=heading(document),
        notes=document.notes,
        answer=list(_answer(document)),
        tiles=list(_tiles(document)),
        note="" if document.answer else legend(document),
        footer="Each row changes one thing for the same requests.",
    )


def _sections(document: WhatIfDocument) -> list[Section]:
    """Return a section for each axis; changes are one of their own."""
    by_axis: dict[str, list[SweepRow]] = {}
    for row in document.rows:
        by_axis.setdefault(row.axis or _TABLE, []).append(row)
    return [replace(_SECTIONS[axis](document, rows), commands=row_commands(rows)) for axis, rows in by_axis.items()]


def _answer(document: WhatIfDocument) -> Iterator[AnswerLine]:
    """Yield what to change first, or how much can be hit; the command apart."""
    if not document.answer:
        yield AnswerLine("", answer(document))
    for text in document.answer:
        if (step := command_of(text)) is not None:
            yield AnswerLine("Next", *step)
            continue
        label, colon, rest = text.partition(": ")
        yield AnswerLine(label if colon else "", rest if colon else text)


def _tiles(document: WhatIfDocument) -> Iterator[HeadlineTile]:
    """Yield how much can be hit, and the capacity that takes."""
    yield HeadlineTile(
        "Maximum as written",
        percent(document.reachable_hit_rate),
        f"unlimited cache: {document.reachable_blocks:,} of {plural(document.references, 'block')}",
        True,
    )
    if document.capacity:
        held = short_count(document.capacity * document.block_size)
        yield HeadlineTile("Today", f"{document.capacity:,}", f"blocks, {held} tokens")
    enough = enough_row(document) if document.rows and document.rows[0].axis == "capacity" else None
    if enough is not None and enough.capacity:
        held = short_count(enough.capacity * document.block_size)
        yield HeadlineTile("Enough", f"{enough.capacity:,}", f"blocks reach 95% of the maximum: {held} tokens")
    held = short_count(document.distinct_blocks * document.block_size)
    yield HeadlineTile("Different blocks", f"{document.distinct_blocks:,}", f"{held} tokens in all prompts")


_SECTIONS: Mapping[str, Callable[[WhatIfDocument, Sequence[SweepRow]], Section]] = {
    "capacity": capacity_section,
    "policy": policy_section,
    "ttl": ttl_section,
    "block-size": block_size_section,
    "routing": routing_section,
    "replicas": replicas_section,
    "tier": tier_section,
    "pd": split_section,
    _TABLE: changes,
}
"""Sections by the axis of their rows."""
