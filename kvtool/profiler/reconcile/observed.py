"""A run beside a server as it was seen: what was sent and answered, what the server published, counted and says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kvtool.accounting.log_clock import moment_of
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.kv_events.event_batches import read_event_file
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between
from kvtool.measure.servers.metrics.counters import scrape_of
from kvtool.measure.servers.metrics.exposition import read_exposition
from kvtool.measure.servers.server_facts import ServerFacts, recorded_facts
from kvtool.measure.servers.session_recording import EVENTS, METRICS_AFTER, METRICS_BEFORE, Recording, most_at_once
from kvtool.profiler.reconcile.event_trace import EventTrace

_TEXTLESS = (
    "recorded without text: which prompts share which blocks of {} tokens is known, and what they hit; which tokens the server "
    "read is not, nor how a prompt is rendered, and KV events are compared by content"
)
_OWN_COUNTS = {"timings": "llama.cpp", "meta_info": "SGLang", "prompt_eval_count": "Ollama"}
"""What only the answers of one kind of server have."""


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """`trace` and `counted` are None where nobody listened or asked."""

    exchanges: Sequence[Exchange]
    facts: ServerFacts
    trace: EventTrace | None = None
    counted: Counted | None = None
    partial: bool = False
    stopped: str | None = None
    """Why not all of a workload was sent."""
    notes: tuple[str, ...] = ()
    date: datetime | None = None
    """The server's clock while it ran, for templates that ask what day it is."""
    textless: int | None = None
    """Tokens of a block, where it was recorded without text; else None."""

    @classmethod
    def recorded(cls, folder: str) -> ObservedRun:
        """Read the files of a recording; raise KvtoolError for what cannot be read."""
        recording = Recording.read(folder)
        events = recording.file(EVENTS)
        before, after = recording.file(METRICS_BEFORE), recording.file(METRICS_AFTER)
        counted = None
        if before is not None and after is not None:
            scrapes = [scrape_of(read_exposition(path), shown=path) for path in (before, after)]
            counted = counted_between(*scrapes)
        return cls(
            recording.exchanges,
            recorded_facts(Path(folder)),
            None if events is None else EventTrace.of(read_event_file(events)),
            counted,
            date=moment_of(recording.began, 0.0),
            notes=() if recording.textless is None else (_TEXTLESS.format(recording.textless),),
            textless=recording.textless,
        )

    @property
    def other_server(self) -> str | None:
        """Return the kind of a server whose cache does not follow vLLM's rules, as it says itself or its
        answers show; else None.
        """
        if self.facts.server is not None:
            return self.facts.other_server
        answers = (each.response for each in self.exchanges if each.response is not None)
        return next(
            (name for answer in answers for key, name in _OWN_COUNTS.items() if answer.get(key) is not None), None
        )

    @property
    def answered(self) -> list[Exchange]:
        """Return the requests with an answer, in the order of sending."""
        return [each for each in self.exchanges if each.answered]

    @property
    def failed(self) -> list[Exchange]:
        """Return the requests without an answer or a refusal: nobody knows what they did to the cache."""
        return [each for each in self.exchanges if not each.answered and not each.refused]

    @property
    def refused(self) -> int:
        """Return how many the server refused."""
        return sum(1 for each in self.exchanges if each.refused)

    @property
    def at_once(self) -> int:
        """Return how many requests were under way at the same time at most."""
        return most_at_once(list(self.exchanges))
