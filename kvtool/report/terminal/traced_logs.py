"""What `kvtool trace` prints: what was written, what was kept, and what is not in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvtool.results.documents.traced_logs import TraceDocument
from kvtool.text.terminal.console import ascii_only, put, sanitize, say
from kvtool.text.terminal.numbers import plural

if TYPE_CHECKING:
    from rich.console import Console

_MOST_NOTES = 12


def print_traced(console: Console, document: TraceDocument) -> None:
    """The sums first, then what is to be said of logs, and what to do next."""
    plain = ascii_only(console)

    def line(text: str, style: str | None = None) -> None:
        say(console, sanitize(text, ascii_only=plain), indent=2, style=style)

    if (replay := document.replay) is not None:
        line(f"{plural(replay.requests, 'request')} -> {replay.path}", "bold")
        line(f"{replay.format}: {replay.distinct_blocks:,} different blocks of {replay.block_size} tokens")
        for note in replay.notes:
            line(note, "dim")
    else:
        made = [each for each in document.traces if not each.kept]
        kept = len(document.traces) - len(made)
        requests = sum(each.requests for each in document.traces)
        told = f"{plural(requests, 'request')} of {plural(len(document.traces), 'log')} -> {document.output}"
        line(told + (f" ({kept:,} as they were)" if kept else ""), "bold")
        notes = Counter(note for each in made for note in each.notes)
        for note, times in notes.most_common(_MOST_NOTES):
            line(note if times == 1 else f"{note} ({plural(times, 'log')})", "dim")
    for each in document.failed:
        line(f"left out: {each.log}: {each.message}")
    if document.replay is None:
        put(console)
        for name in [document.output] if document.alike else [each.trace for each in document.traces[:_MOST_NOTES]]:
            line(f"kvtool what-if {name}")
