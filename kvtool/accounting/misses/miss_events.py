"""Keep every miss as an event, in a small part of the room that it has in a report."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from kvtool.accounting.misses.hypothesis_trials import Explained
from kvtool.accounting.misses.miss_parts import MissPart
from kvtool.accounting.misses.reported_request import ReportedRequest
from kvtool.results.misses import Hypothesis, MissCause, MissEvent, hypothesis_in_words
from kvtool.results.money import known_amount_text

_PACKED = 1_000
"""Events that are packed together."""


@dataclass(slots=True)
class MissEvents:
    """Misses in their order, each with its number from 1 on."""

    count: int = 0
    _packed: list[bytes] = field(default_factory=list)
    _latest: list[MissEvent] = field(default_factory=list)

    def add(self, request: ReportedRequest, part: MissPart, cost: Decimal | None, prefix: str | None) -> None:
        """Enter the next miss. `prefix` is a hash of the tokens that the request shares with an earlier one."""
        found = part.found
        self.count += 1
        event = MissEvent(
            request=request.job.request.id,
            session=request.job.turn.session,
            time=request.now,
            gap=part.gap,
            cause=found.cause,
            certainty=found.certainty,
            tokens=part.tokens,
            written=request.usage.all_written,
            cost=known_amount_text(cost),
            detail=found.detail,
            place=found.place,
            model=request.call.model,
            provider_id=request.call.request_id,
            prefix=prefix if found.cause == "provider" else None,
            longer_life=request.longer_life(part.gap) if found.cause == "expired" and found.place is None else None,
        )
        self._latest.append(event)
        if len(self._latest) == _PACKED:
            self._packed.append(zlib.compress(json.dumps([vars(each) for each in self._latest]).encode()))
            self._latest.clear()

    def results(
        self, hypothesis: Hypothesis | None, explained: Explained, blocks: Mapping[str | None, str]
    ) -> list[MissEvent]:
        """Return the events in their order, those that a rerun explains with its cause, or the `blocks` of their model."""
        return [
            event
            if number not in explained
            else _with_cause(event, explained[number][1], hypothesis, blocks.get(event.model, ""))
            for number, event in enumerate(self._all(), 1)
        ]

    def _all(self) -> Iterator[MissEvent]:
        for packed in self._packed:
            yield from (MissEvent.model_construct(**each) for each in json.loads(zlib.decompress(packed)))
        yield from self._latest


def _with_cause(event: MissEvent, cause: MissCause, hypothesis: Hypothesis | None, blocks: str) -> MissEvent:
    """Return a miss with what a rerun, or the blocks of all reads, show of it."""
    if hypothesis is None:
        return event.model_copy(update={"cause": cause, "certainty": "consistent", "detail": blocks, "prefix": None})
    if cause == event.cause:
        return event.model_copy(update={"certainty": "simulated"})
    words = f"a rerun {hypothesis_in_words(hypothesis)} gives this read"
    return event.model_copy(update={"cause": cause, "certainty": "simulated", "detail": words})
