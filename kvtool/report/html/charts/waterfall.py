"""Waterfall of prompt tokens: from all of them, loss by loss, down to the hits."""

from __future__ import annotations

from markupsafe import Markup

from kvtool.accounting.ledger.fates import DECIDED_BY
from kvtool.report.html.charts.drawing import drawing, label, line, rectangle
from kvtool.report.html.fates import fate_class, fate_fill, fate_meaning, legend
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.fates import absent_fates_note, fate_name, fate_shares
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural

_PITCH = 43
_BAR = 14


def waterfall(report: Report, prefix: str) -> Section | None:
    """Return the losses in the order of their size; with the hits they add up to all tokens and to exactly 100.0 %.

    None where all tokens went one way, which the bar above it shows.
    """
    parts = [(fate, count, text) for fate, count, text in fate_shares(report.fates) if count or fate == "hit"]
    if sum(count > 0 for _, count, _ in parts) < 2:
        return None
    total = sum(count for _, count, _ in parts)
    lead = [f"{plural(total, 'prompt token')}, minus the loss of each cause. The rest are hits."]
    if report.absent_fates:
        lead.append(absent_fates_note(report.absent_fates))
    return DrawnSection(
        f"{prefix}-tokens",
        "Token breakdown",
        tuple(lead),
        drawings=[Drawing(_svg(f"{prefix}-waterfall", total, parts))],
        tables=[_table(total, parts)],
    )


def token_strip(report: Report, prefix: str) -> tuple[Drawing | None, list[Key]]:
    """Return all tokens as one bar, and its legend; nothing where there are none."""
    parts = [(fate, count, text) for fate, count, text in fate_shares(report.fates) if count]
    total = sum(count for _, count, _ in parts)
    if not total:
        return None, []
    shapes, before = [], 0
    for fate, count, text in parts:
        tip = f"{fate_name(fate)}: {text}"
        shapes.append(rectangle(before / total, 1, count / total, 26, fate_class(fate), tip=tip, fill=fate_fill(fate)))
        before += count
    told = "; ".join(f"{fate_name(fate)} {text}" for fate, _, text in parts)
    svg = drawing(f"{prefix}-strip", "All prompt tokens", told, 28, shapes)
    return Drawing(svg), legend({fate: text for fate, _, text in parts})


def _svg(identity: str, total: int, parts: list[tuple[str, int, str]]) -> Markup:
    hit, *lost = parts
    rows = _row(0, "all prompt tokens", "", total, "100.0%", (0.0, 1.0), ("whole", None))
    links = []
    left = total
    for place, (fate, count, text) in enumerate([*lost, hit], 1):
        stop, left = left, (left - count if fate != "hit" else left)
        begin = left if fate != "hit" else 0
        span = begin / total, (stop - begin) / total
        name = fate_name(fate)
        rows += _row(place, name, DECIDED_BY.get(fate, ""), count, text, span, (fate_class(fate), fate_fill(fate)))
        links.append(line(stop / total, (place - 1) * _PITCH + 18 + _BAR, stop / total, place * _PITCH + 18, "link"))
    told = [f"{fate_name(fate)} {count:,} ({text})" for fate, count, text in [*lost, hit]]
    description = f"{plural(total, 'prompt token')}: {', '.join(told)}."
    return drawing(identity, "Token breakdown", description, (len(parts) + 1) * _PITCH, [*links, *rows])


def _row(
    place: int, name: str, note: str, count: int, text: str, span: tuple[float, float], look: tuple[str, str | None]
) -> list[Markup]:
    y = place * _PITCH
    class_, fill = look
    shapes = [
        rectangle(0, y + 18, 1, _BAR, "track"),
        rectangle(span[0], y + 18, span[1], _BAR, f"least {class_}", tip=f"{name}: {count:,} ({text})", fill=fill),
        label(0, y + 12, name.partition(" (")[0], "strong halo"),
        label(1, y + 12, f"{count:,}", "halo", shift=-66),
        label(1, y + 12, text, "strong halo"),
    ]
    if note:
        shapes.append(label(0.5, y + 12, note, "quiet wide", anchor="middle"))
    return shapes


def _table(total: int, parts: list[tuple[str, int, str]]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (fate_name(fate), f"{count:,}", text, fate_meaning(fate)) for fate, count, text in parts
    ]
    rows.append(("sum", f"{total:,}", "100.0%", ""))
    columns = (
        TableColumn("Breakdown"),
        TableColumn("Tokens", "number"),
        TableColumn("Share", "number"),
        TableColumn("Meaning", "prose"),
    )
    return Table("Prompt tokens", columns, rows, folded=True)
