"""KV events that are listened to beside something else, and their sums. Needs pyzmq and msgspec, of the extra `live`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kvtool.measure.servers.event_subscriber import EventSource, EventSubscriber
from kvtool.measure.servers.event_sums import EventCounter, EventSums

if TYPE_CHECKING:
    from types import TracebackType


class Heard:
    """One publisher's events, since the block began."""

    def __init__(self, endpoint: str) -> None:
        """KvtoolError for what is no endpoint."""
        self._subscriber = EventSubscriber([EventSource(endpoint)])
        self._counter = EventCounter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscriber.close()

    def listen(self, seconds: float) -> None:
        """For so long."""
        for batch in self._subscriber.batches(seconds):
            self._counter.add(batch)

    def sums(self) -> EventSums:
        """Of all that was heard."""
        return self._counter.sums()
