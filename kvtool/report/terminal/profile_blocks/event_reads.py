"""The terminal's lines about a server's KV events: reuse there beside what is predicted, and whom eviction cost what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvtool.report.terminal.profile_blocks.answer_lines import LABEL
from kvtool.results.event_reads import EventReads
from kvtool.text.terminal.console import put_field, sanitize, say
from kvtool.text.terminal.numbers import duration, plural

if TYPE_CHECKING:
    from rich.console import Console

_NAMED = 3
_LONGEST = 40


def print_event_reads(console: Console, told: EventReads, plain: bool) -> None:
    """Whether they agree, what was evicted, who lost by it, and why something is not known."""
    for label, text in _lines(told, plain):
        put_field(console, label, text, size=LABEL, hang=LABEL + 2)
    for note in told.notes:
        say(console, sanitize(note, ascii_only=plain), style="dim")


def _lines(told: EventReads, plain: bool) -> Iterator[tuple[str, str]]:
    def name(text: str) -> str:
        shown = sanitize(text, ascii_only=plain)
        return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."

    if told.requests_known:
        of = plural(told.requests_known, "request")
        agreed = f"{told.requests_agree:,} of {of} reused what is predicted"
        unknown = f"; {told.requests_unknown:,} not known" if told.requests_unknown else ""
        yield "KV events", f"{agreed}: {told.reused_tokens:,} tokens, predicted {told.predicted_tokens:,}{unknown}"
    else:
        yield "KV events", "no request can be compared"
    if told.differ:
        shown = (f"{name(one.id)} {one.predicted_tokens:,}, {one.reused_tokens:,}" for one in told.differ[:_NAMED])
        left = told.requests_known - told.requests_agree - _NAMED
        yield "Differ", f"{'; '.join(shown)}{f'; {left:,} more' if left > 0 else ''} (predicted, reused)"
    age = ""
    if told.age_p50_s is not None and told.age_p90_s is not None:
        age = f" at an age of {duration(told.age_p50_s)}, {duration(told.age_p90_s)} (p50, p90)"
    again = ""
    if told.stored_again_blocks:
        again = f"; {told.stored_again_blocks:,} stored again, {told.lost_tokens:,} tokens that could have hit"
    yield "Evicted", f"{told.evicted_blocks:,} of {plural(told.stored_blocks, 'block')}{age}{again}"
    losers = [(one.session, one.lost_tokens) for one in told.sessions if one.session is not None]
    if losers:
        shown = (f"{name(session)} {tokens:,}" for session, tokens in losers[:_NAMED])
        yield "Lost most", f"{'; '.join(shown)} tokens"
