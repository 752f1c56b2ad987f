"""KV events of a server: reuse there beside predicted reuse, and the sessions that eviction cost most."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.report.views.facts import log_name, request_name
from kvtool.report.views.section import Section
from kvtool.results.event_reads import EventReads
from kvtool.results.report import Report
from kvtool.text.terminal.console import shorten
from kvtool.text.terminal.numbers import duration, plural

_NAMED = 3
_LONGEST = 40


def view(report: Report) -> Section | None:
    """Return whether they agree, what was evicted, who lost by it, and why something is not known."""
    events = report.kv_events
    if events is None:
        return None
    return Section(
        "kv-events",
        "KV events of the server",
        settings=list(_lines(events, log_name(report))),
        notes=tuple(events.notes),
    )


def _lines(events: EventReads, log: str) -> Iterator[tuple[str, str]]:
    if events.requests_known:
        of = plural(events.requests_known, "request")
        agreed = f"{events.requests_agree:,} of {of} as predicted"
        unknown = f"; {events.requests_unknown:,} unknown" if events.requests_unknown else ""
        yield (
            "KV events",
            f"{agreed}: {events.reused_tokens:,} tokens reused, {events.predicted_tokens:,} predicted{unknown}",
        )
    else:
        yield "KV events", "no request is comparable"
    if events.differ:
        shown = (
            f"{_name(request_name(one.id, log))} {one.predicted_tokens:,}, {one.reused_tokens:,}"
            for one in events.differ[:_NAMED]
        )
        left = events.requests_known - events.requests_agree - _NAMED
        yield "Differ", f"{'; '.join(shown)}{f'; {left:,} more' if left > 0 else ''} (predicted, reused)"
    age = ""
    if events.age_p50_s is not None and events.age_p90_s is not None:
        age = f" after {duration(events.age_p50_s)} (p50), {duration(events.age_p90_s)} (p90)"
    again = ""
    if events.stored_again_blocks:
        again = f"; {events.stored_again_blocks:,} stored again ({events.lost_tokens:,} tokens lost)"
    yield "Evicted", f"{events.evicted_blocks:,} of {plural(events.stored_blocks, 'block')}{age}{again}"
    losers = [(one.session, one.lost_tokens) for one in events.sessions if one.session is not None]
    if losers:
        shown = (f"{_name(session)} {tokens:,}" for session, tokens in losers[:_NAMED])
        yield "Lost most", f"{'; '.join(shown)} tokens"


def _name(text: str) -> str:
    return shorten(text, _LONGEST)
