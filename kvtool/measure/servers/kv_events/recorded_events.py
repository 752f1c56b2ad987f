"""KV events that are listened to beside something else, and their sums. Needs msgspec, of the extra `live`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection
from kvtool.measure.servers.kv_events.event_listener import NamedSources, event_sources
from kvtool.measure.servers.kv_events.event_subscriber import EventSource, EventSubscriber
from kvtool.measure.servers.kv_events.event_sums import EventCounter, EventSums
from kvtool.measure.servers.server_address import is_url, server_address

if TYPE_CHECKING:
    from types import TracebackType


ASKED = "server"
"""In the place of an endpoint: the server says where it publishes."""


def publishers(source: str, given: str) -> NamedSources:
    """Those at an endpoint, or those that the server at `source` names, one for each data-parallel rank, with what they still have.

    KvtoolError for what is no endpoint, and where a server names none.
    """
    if given != ASKED:
        return NamedSources((EventSource(given),))
    if not is_url(source):
        raise KvtoolError(f"`{source}` is no server that could say where it publishes", hint="give the endpoint")
    with ServerConnection(server_address(source)) as connection:
        found = event_sources(connection, None)
    if not found.sources:
        raise KvtoolError(
            found.notes[0] if found.notes else "the server publishes no KV events, or does not say where",
            hint="start vLLM with --kv-events-config, or give the endpoint: --kv-events tcp://HOST:PORT",
        )
    return found


class Heard:
    """The events of some publishers, since the block began; before it, as far as they still have those and are asked."""

    def __init__(self, named: NamedSources) -> None:
        """KvtoolError where an endpoint cannot be connected to."""
        self._subscriber = EventSubscriber(named.sources)
        self._notes = named.notes
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
        sums = self._counter.sums()
        return replace(sums, notes=(*self._notes, *sums.notes))
