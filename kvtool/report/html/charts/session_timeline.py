"""Requests of the sessions that missed most, over time: what each read, what it missed and why."""

from __future__ import annotations

from markupsafe import Markup

from kvtool.report.html.charts.drawing import axis, drawing, rectangle
from kvtool.report.html.fates import fate_class, fate_fill, swatch
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.section import Section
from kvtool.results.misses import MISS_CAUSES, MissCause, SessionTimeline, TimelineRequest
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import duration, percent, plural

_HEIGHT = 90.0
_WIDEST, _NARROWEST = 0.02, 0.003
"""Shares of the width that a request takes."""
_READ, _NEW = "hit", "unique"
PAINTS: dict[MissCause, str] = {
    "first_use": "first_use",
    "prompt_changed": "blocked",
    "tools_changed": "cosmetic",
    "system_changed": "seam",
    "history_edited": "displaced",
    "compaction": "partial_block",
    "resumed": "long_block",
    "wire_form": "drafts",
    "expired": "expired",
    "evicted": "evicted",
    "setting_changed": "setting_changed",
    "model_changed": "window",
    "key_changed": "isolated",
    "host_changed": "scattered",
    "host_uncached": "caching_off",
    "below_minimum": "below_minimum",
    "partial_block": "slot_lost",
    "lookback": "no_state",
    "marks_limit": "last_token",
    "not_marked": "unmarked",
    "replicas": "host_list_full",
    "answer_not_kept": "answer_not_kept",
    "reasoning_dropped": "in_flight",
    "provider": "taken_over",
    "unknown": "unknown",
}
"""The fate whose paint each cause has: none has that of another."""


def session_timeline_section(report: Report, prefix: str) -> Section | None:
    """Return a drawing for each session; None where no session with times missed anything."""
    timelines = [] if report.misses is None else report.misses.timelines
    if not timelines:
        return None
    causes = dict.fromkeys(each.cause for one in timelines for each in one.requests if each.cause is not None)
    keys = [Key(swatch(fate_fill(_READ), fate_class(_READ)), "read from the cache")]
    keys += [Key(swatch(fate_fill(PAINTS[each]), fate_class(PAINTS[each])), MISS_CAUSES[each]) for each in causes]
    keys.append(Key(swatch(fate_fill(_NEW), fate_class(_NEW)), "new text"))
    return DrawnSection(
        f"{prefix}-sessions",
        "Requests of the costliest sessions over time",
        ("Each bar is a request, as high as its prompt. Point at one to see its figures.",),
        drawings=[_drawing(f"{prefix}-session-{number}", one) for number, one in enumerate(timelines)],
        layout="single",
        keys=keys,
    )


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return duration(seconds)


def _drawing(identity: str, timeline: SessionTimeline) -> Drawing:
    requests = timeline.requests
    first, most = requests[0].time, max(each.prompt for each in requests)
    span = max(max(each.time for each in requests) - first, 1e-9)
    width = max(min(0.8 / len(requests), _WIDEST), _NARROWEST)
    shapes: list[Markup] = [axis(_HEIGHT, [(0.0, "0 s"), (1.0, _span(span))])]
    for each in requests:
        shapes += _bars(each, max(each.time - first, 0.0) / span * (1 - width), width, first, max(most, 1))
    read, prompt = sum(each.read for each in requests), sum(each.prompt for each in requests)
    told = f"{plural(len(requests), 'request')} in {_span(span)}; {timeline.missed:,} tokens missed"
    figures = [f"{percent(min(read / max(prompt, 1), 1.0))} read", f"{timeline.missed:,} tokens missed"]
    if timeline.left_out:
        figures.append(f"{plural(timeline.left_out, 'later request')} not drawn")
    svg = drawing(identity, f"Requests of session {timeline.session} over time", told, _HEIGHT + 20, shapes)
    return Drawing(svg, timeline.session, tuple(figures), wide=True)


def _bars(request: TimelineRequest, x: float, width: float, first: float, most: int) -> list[Markup]:
    """Return the parts of a request's bar from the bottom: read, missed, new."""
    missed = min(request.missed, request.prompt - request.read)
    why = "" if request.cause is None else f", {missed:,} missed: {MISS_CAUSES[request.cause]}"
    tip = f"{request.request}, after {_span(max(request.time - first, 0.0))}: {request.read:,} of {request.prompt:,} read{why}"
    paint = _NEW if request.cause is None else PAINTS[request.cause]
    parts = ((_READ, request.read), (paint, missed), (_NEW, request.prompt - request.read - missed))
    shapes, bottom = [], _HEIGHT
    for fate, tokens in parts:
        if tokens > 0:
            height = (_HEIGHT - 1) * tokens / most
            bottom -= height
            shapes.append(rectangle(x, bottom, width, height, fate_class(fate), tip=tip, fill=fate_fill(fate)))
    return shapes
