"""Hits by block size, and what is left over in the last shared block."""

from __future__ import annotations

from kvtool.report.html.charts.drawing import drawing, line, rectangle
from kvtool.report.html.page_parts import Drawing, DrawnSection
from kvtool.report.views.boundaries import edit_sentence
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Boundary, Report
from kvtool.text.terminal.numbers import percent, plural

_LEAD = (
    "Hit rate of an unlimited cache by block size. The bars count requests by the shared tokens in their last, partial block: "
    "none on the left, all but one on the right."
)
_MOST_GROUPS = 20


def boundaries_section(report: Report, prefix: str) -> Section | None:
    """Return what blocks of other sizes would hit with an unlimited cache; None where that is not known or always the same."""
    identity, title = f"{prefix}-boundaries", "Hits by block size"
    if all(len({one.hit_tokens for one in each.sizes}) < 2 and each.edit is None for each in report.boundaries):
        return None
    shown = report.boundaries[:_MOST_GROUPS]
    sizes = list(dict.fromkeys(one.block_size for boundary in shown for one in boundary.sizes))
    rows = [_boundary(boundary, sizes) for boundary in shown]
    columns = (
        TableColumn("Group"),
        *(TableColumn(f"{one:,}{'*' if one == report.kv_cache.block_size else ''}", "number") for one in sizes),
        TableColumn("Nothing shared", "number"),
        TableColumn("Smallest edit to gain a block", "prose"),
    )
    return DrawnSection(
        identity,
        title,
        (_LEAD,),
        drawings=[
            _left_over(f"{identity}-{number}", boundary)
            for number, boundary in enumerate(shown[:6])
            if len({one.tokens for one in boundary.left_over}) > 1
        ],
        layout="multiples",
        tables=[
            Table(
                title,
                columns,
                rows,
                more=len(report.boundaries) - len(shown),
                notes=("* block size in use. Nothing shared: requests with almost no text of an earlier request.",),
            )
        ],
    )


def _boundary(boundary: Boundary, sizes: list[int]) -> tuple[Cell, ...]:
    hits = {one.block_size: one.hit_tokens for one in boundary.sizes}
    tokens = max(boundary.prompt_tokens, 1)
    return (
        boundary.group,
        *(percent(hits[one] / tokens) if one in hits else "" for one in sizes),
        f"{boundary.nothing_shared_requests:,}",
        edit_sentence(boundary),
    )


def _left_over(identity: str, boundary: Boundary) -> Drawing:
    """Draw how many requests have how many shared tokens left over in a block that is not full."""
    size = boundary.block_size
    bins = [0] * min(size, 32)
    for one in boundary.left_over:
        bins[min(one.tokens * len(bins) // size, len(bins) - 1)] += one.requests
    most, height = max(bins) or 1, 56
    shapes = [line(0, height, 1, height, "grid")]
    for place, count in enumerate(bins):
        if count:
            tall, first = count / most * (height - 4), -(-place * size // len(bins))
            tip = f"{plural(first, 'token')} or more: {plural(count, 'request')}"
            shapes.append(
                rectangle((place + 0.1) / len(bins), height - tall, 0.8 / len(bins), tall, "bar least", tip=tip)
            )
    told = ", ".join(
        f"{plural(one.tokens, 'token')} in {plural(one.requests, 'request')}" for one in boundary.left_over[:20]
    )
    svg = drawing(
        identity, f"Tokens left over in the last shared block of {boundary.group}", told or "none", height + 2, shapes
    )
    return Drawing(svg, boundary.group)
