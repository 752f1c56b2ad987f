"""The terminal view of `kvtool watch`: the counters of a server, no wider than the console."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head, put_next, rate_style
from kvtool.results.documents.watched import ObservedTimes, ServerCounts, WatchDocument, WatchedEvents
from kvtool.text.terminal.console import ascii_only, bar, draws_bars, fold, pack, put, sanitize, say, shorten
from kvtool.text.terminal.numbers import duration, percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 24
_CAUSES = 3
_NAME = 40
"""Characters of a session's name."""
_NONE = "-"


def print_watched(console: Console, seen: WatchDocument, *, window: float) -> None:
    """Print the server, rates of the window, sums, times, and the rate of the server's log."""
    plain = ascii_only(console)
    _print_head(console, seen)
    put(console)
    _print_rate(console, seen, plain)
    columns = [
        Column("", "<"),
        Column(f"last {window:g} s", keep=2),
        Column("since attach", keep=3),
        Column("since its start", keep=1),
    ]
    rows = [row for row in _rows((seen.window, seen.since_attach, seen.since_start)) if set(row[1:]) != {_NONE}]
    if not seen.since_attach.seconds:  # one look has no window
        columns, rows = [columns[0], columns[3]], [[row[0], row[3]] for row in rows]
    if rows:
        put_table(console, columns, rows)
        put(console)
    for line in pack(_now(seen), console.width, separator=" | " if plain else " · ", indent=4):
        put(console, f"  {line}" if len(line) + 2 <= console.width else line)
    for text in _events(seen.events, plain):
        say(console, text, hang=2)
    for text in _causes(seen):
        say(console, text, hang=2)
    for note in _notes(seen):
        say(console, note, hang=2, style="dim")
    if seen.causes:
        put(console)
        put_next(console, "see the causes with what to change", ["why", seen.source])


def watched_line(seen: WatchDocument, *, window: float) -> str:
    """Return the same in one line, for logs and screen readers."""
    clock = time.strftime("%H:%M:%S", time.localtime(seen.at))
    if seen.state in ("no answer", "several servers"):
        return f"{clock}  {seen.state}: {seen.message}"
    parts = [
        f"hit rate {_rate(seen.window)} in {window:g} s, {_rate(seen.since_attach)} since attach",
        f"prompt {_per_second(seen.window, seen.window.prompt_tokens)}",
        f"computed {_per_second(seen.window, seen.window.computed_tokens)}",
        *_now(seen),
    ]
    if seen.window.ttft is not None:
        parts.append(f"TTFT {duration(seen.window.ttft.p50_s)} / {duration(seen.window.ttft.p99_s)} (p50 / p99)")
    if seen.state == "restarted":
        parts.append(seen.message)
    parts += _causes(seen)[:1]
    return f"{clock}  {'; '.join(parts)}"


def _print_head(console: Console, seen: WatchDocument) -> None:
    models = ", ".join(seen.models[:3])
    more = f" and {len(seen.models) - 3} more" if len(seen.models) > 3 else ""
    head = [
        f"kvtool watch {seen.source}",
        seen.server,
        *([f"{models}{more}"] if models else []),
        *([plural(seen.engines, "engine")] if seen.engines > 1 else []),
        *([f"{seen.since_attach.seconds:,.0f} s attached"] if seen.since_attach.seconds else []),
    ]
    put_head(console, head)
    if seen.message:
        style = "bold red" if seen.state in ("no answer", "several servers") else "yellow"
        for line in fold(f"  {seen.state}: {seen.message}", console.width, indent=4):
            put(console, line, style)


def _print_rate(console: Console, seen: WatchDocument, plain: bool) -> None:
    if not draws_bars(console):
        return
    rates = (("now", seen.window.hit_rate), ("since attach", seen.since_attach.hit_rate))
    for label, rate in rates:
        if rate is not None:
            drawn = bar(rate, _BAR, plain, track=True)
            put(console, f"  {label:<14}{drawn}  {percent(rate)} of the tokens looked up", rate_style(rate))
    if any(rate is not None for _, rate in rates):
        put(console)


def _rows(told: tuple[ServerCounts, ServerCounts, ServerCounts]) -> list[list[str]]:
    window, *sums = told

    def tokens(label: str, get: Callable[[ServerCounts], int | None]) -> list[str]:
        return [label, _per_second(window, get(window)), *(_count(get(each)) for each in sums)]

    def times(label: str, get: Callable[[ServerCounts], ObservedTimes | None]) -> list[str]:
        return [f"{label} p50, p99", *(_both(get(each)) for each in told)]

    rows = [
        ["hit rate", *(_rate(each) for each in told)],
        tokens("prompt tokens", lambda each: each.prompt_tokens),
        tokens("  cached", lambda each: each.cached_tokens),
        tokens("  computed", lambda each: each.computed_tokens),
    ]
    if any(each.external_tokens for each in told):
        rows.append(tokens("  external", lambda each: each.external_tokens))
    rows += [
        tokens("generated", lambda each: each.generated_tokens),
        ["requests", *(_count(each.requests) for each in told)],
        ["preemptions", *(_count(each.preemptions) for each in told)],
        times("TTFT", lambda each: each.ttft),
        times("queue", lambda each: each.queue),
        times("prefill", lambda each: each.prefill),
    ]
    return rows


def _now(seen: WatchDocument) -> list[str]:
    now = seen.now
    return [
        *([f"KV cache {percent(now.kv_cache_usage)} in use"] if now.kv_cache_usage is not None else []),
        *([f"{now.running:g} running"] if now.running is not None else []),
        *([f"{now.waiting:g} waiting"] if now.waiting is not None else []),
        *([f"hit rate reported {percent(now.hit_rate)}"] if now.hit_rate is not None else []),
    ]


def _events(events: WatchedEvents | None, plain: bool) -> list[str]:
    if events is None:
        return []
    age = ""
    if events.age_p50_s is not None and events.age_p90_s is not None:
        age = f" after {duration(events.age_p50_s)} (p50), {duration(events.age_p90_s)} (p90)"
    told = [
        (
            f"KV events: {events.stored_blocks:,} blocks stored, {events.evicted_blocks:,} evicted{age};"
            f" {events.stored_again_blocks:,} stored again ({events.lost_tokens:,} tokens lost)"
        )
    ]
    if named := [each for each in events.sessions if each.session is not None]:
        rows = (
            f"{shorten(sanitize(each.session or '', ascii_only=plain), _NAME, ascii_only=plain)} {each.lost_tokens:,}"
            for each in named
        )
        told.append(f"largest losses by session: {', '.join(rows)}")
    if events.gaps:
        told.append(f"missed events {plural(events.gaps, 'time')}: the counts are too low")
    if events.problems:
        told.append(f"{plural(events.problems, 'event')} could not be read")
    return [*told, *events.notes]


def _causes(seen: WatchDocument) -> list[str]:
    """Return what takes most of the tokens of the window, the costliest with what to change."""
    looked_up = seen.window.queried_tokens or seen.since_start.queried_tokens or 0
    found = [each for each in seen.causes if each.basis != "possible"][:_CAUSES] or seen.causes[:1]
    said = []
    for each in found:
        most = "" if each.basis == "counted" else "at most "
        share = f"{most}{percent(min(each.tokens / looked_up, 1.0))}" if each.tokens and looked_up else each.why
        said.append(f"{'possibly ' if each.basis == 'possible' else ''}lost to {each.cause}: {share}")
    if found:
        said[0] = f"{said[0].rstrip('.')}. {found[0].change}"
    return said


def _notes(seen: WatchDocument) -> list[str]:
    notes = []
    if seen.log is not None:
        if seen.log.hit_rate is not None:
            notes.append(own_log_line(seen.server, seen.log.hit_rate, seen.log.requests))
        elif seen.log.unseen_requests:
            before = plural(seen.log.unseen_requests, "request")
            notes.append(
                f"The rate in the log of the server is unknown: it covers {before} from before kvtool attached."
            )
    if seen.restarts:
        notes.append(f"The server restarted {plural(seen.restarts, 'time')}. Sums cover all runs.")
    if not seen.measured:
        notes.append(
            f"Metric names of {seen.server} come from its documentation. They are not tested against a server."
        )
    return notes


def own_log_line(server: str, rate: float, requests: int) -> str:
    """Say which rate a server's own log would print, of its last requests."""
    return f"{server}'s own log line would say about {percent(rate)} (at most the last {requests:,} requests, all clients)."


def _rate(counted: ServerCounts) -> str:
    return _NONE if counted.hit_rate is None else percent(counted.hit_rate)


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _per_second(counted: ServerCounts, value: int | None) -> str:
    if value is None or not counted.seconds:
        return _NONE
    rate = value / counted.seconds
    return f"{rate:,.0f}/s" if rate >= 10 or not rate else f"{rate:.1f}/s"


def _both(times: ObservedTimes | None) -> str:
    return _NONE if times is None else f"{duration(times.p50_s)}, {duration(times.p99_s)}"
