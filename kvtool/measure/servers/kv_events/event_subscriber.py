"""KV events as they are published: a subscriber over ZeroMQ that asks for what it missed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events.event_batches import MAX_PAYLOAD, MAX_SEQUENCE, EventBatch, read_payload
from kvtool.measure.servers.kv_events.zmtp import Connection, ready

REPLAY_SECONDS = 5.0
"""How long a server may be silent while it is asked for old batches."""
_HANDSHAKE = 1.0
"""Seconds for all publishers together to take our subscription."""
REPLAY_TOTAL = 15.0
"""Seconds for all of them together."""
_MOST_BYTES = MAX_PAYLOAD + 4096
"""Of a message: a batch with its topic and its number."""
_ENDPOINT = re.compile(r"tcp://(?:\[[0-9A-Fa-f:.%]+\]|[^\s\[\]:*/]+):[0-9]{1,5}|ipc://\S+")
_END = (b"\xff" * 8, b"")


@dataclass(frozen=True, slots=True)
class EventSource:
    """Endpoint at which one data-parallel rank publishes, and the one where it answers for what was published before (None: it
    does not)."""

    endpoint: str
    replay: str | None = None
    rank: int = 0

    def __post_init__(self) -> None:
        """Raise KvtoolError for what is no address that can be connected to."""
        for given in (self.endpoint, self.replay):
            if given is not None and not _is_endpoint(given):
                raise KvtoolError(
                    f"{given!r} is not an endpoint of KV events",
                    hint="write tcp://HOST:PORT or ipc://PATH; replace `*` by the host's name",
                )


class _Publisher:
    """One source: its connection, and which batch comes next."""

    def __init__(self, source: EventSource) -> None:
        self.source = source
        self.next: int | None = None
        self.newest = 0.0
        self.asked = source.replay is None
        """Whether it was asked once for all that it has; or there is nobody to ask."""
        self.replay = source.replay
        """Where it is asked; not once more where it did not answer in time."""
        self.connection = Connection(source.endpoint, b"SUB", [b"\x01"], most=_MOST_BYTES)

    def received(self) -> Iterator[EventBatch]:
        """Return the batches that came just now, with those that were missed before, where the server still has that."""
        for parts, too_large in self.connection.received():
            if too_large is None and len(parts) == 3 and len(parts[1]) == 8:
                yield from self.in_order(_batch(parts[1], parts[2], self.source.rank))
            elif too_large is not None and len(parts) == 2 and len(parts[1]) == 8:
                yield from self.in_order(_unread(parts[1], too_large, self.source.rank))
            else:
                said = f"a message of {too_large or f'{len(parts)} parts'} is not a batch of KV events"
                yield EventBatch((), rank=self.source.rank, problems=(said,), lost=True)

    def in_order(self, batch: EventBatch) -> Iterator[EventBatch]:
        """Yield the batch where it is the next one; else what is missing before it, as far as that can be had. None twice."""
        assert batch.seq is not None
        expected = self.next or 0
        if batch.seq < expected:
            if batch.at <= self.newest:
                return  # it came with an answer already
            expected = 0  # the server began anew
        if batch.seq > expected:
            for old in self._replayed(expected):
                if old.seq is not None and expected <= old.seq < batch.seq:
                    yield self._passed(old)
        yield self._passed(batch)

    def before(self) -> Iterator[EventBatch]:
        """Yield all that the server still has, asked once."""
        if not self.asked:
            self.asked = True
            for old in self._replayed(0):
                if old.seq is not None and (self.next is None or old.seq >= self.next):
                    yield self._passed(old)

    def _passed(self, batch: EventBatch) -> EventBatch:
        assert batch.seq is not None
        self.next = batch.seq + 1
        self.newest = max(batch.at, self.newest) if batch.seq else batch.at
        return batch

    def _replayed(self, start: int) -> Iterator[EventBatch]:
        """Yield the server's batches from `start` on, as far as it has them and answers in time."""
        if self.replay is None:
            return
        connection = Connection(self.replay, b"DEALER", [b"", start.to_bytes(8, "big")], most=_MOST_BYTES)
        ends = time.monotonic() + REPLAY_TOTAL
        try:
            while found := ready([connection], min(REPLAY_SECONDS, ends - time.monotonic())):
                for parts, too_large in found[0].received():
                    if too_large is not None or len(parts) != 4 or len(parts[2]) != 8 or parts[2:] == _END:
                        return
                    yield _batch(parts[2], parts[3], self.source.rank)
            self.replay = None
        finally:
            connection.close()


class EventSubscriber:
    """Every batch of some publishers, in order for each of them. A context manager: it closes its connections."""

    def __init__(self, sources: Sequence[EventSource]) -> None:
        """Raise KvtoolError where an endpoint cannot be connected to. That nobody publishes there only shows in the silence."""
        self._publishers: list[_Publisher] = []
        try:
            for source in sources:
                self._publishers.append(_Publisher(source))
            self._subscribe()
        except BaseException:
            self.close()
            raise

    def _subscribe(self) -> None:
        """Wait until those that are there know of us, and not long: what they publish before is lost."""
        until = time.monotonic() + _HANDSHAKE
        waiting = [publisher.connection for publisher in self._publishers]
        while waiting and time.monotonic() < until:
            for connection in ready(waiting, _HANDSHAKE / 10):
                for _ in connection.received():
                    pass  # nothing is sent to who has not subscribed
            waiting = [each for each in waiting if each.socket is not None and not each.subscribed]

    def batches(self, seconds: float) -> Iterator[EventBatch]:
        """Return the batches of the next seconds; at first also those that servers still have."""
        until = time.monotonic() + seconds
        for publisher in self._publishers:
            yield from publisher.before()
        by_connection = {publisher.connection: publisher for publisher in self._publishers}
        while True:
            left = until - time.monotonic()
            for connection in ready(list(by_connection), max(left, 0.0)):
                yield from by_connection[connection].received()
            if left <= 0:  # what had come by then is read, and no more: a publisher may never pause
                return

    def close(self) -> None:
        """End all connections; nothing is waited for."""
        for publisher in self._publishers:
            publisher.connection.close()

    def __enter__(self) -> EventSubscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _is_endpoint(text: str) -> bool:
    if not _ENDPOINT.fullmatch(text):
        return False
    return text.startswith("ipc:") or 0 < int(text.rpartition(":")[2]) < 1 << 16


def _batch(number: bytes, payload: bytes, rank: int) -> EventBatch:
    return read_payload(payload, _sequence(number), rank=rank)


def _unread(number: bytes, size: str, rank: int) -> EventBatch:
    said = f"a message of {size} is too large: {MAX_PAYLOAD:,} bytes are the most"
    return EventBatch((), _sequence(number), rank=rank, problems=(said,), lost=True)


def _sequence(number: bytes) -> int:
    return min(int.from_bytes(number, "big"), MAX_SEQUENCE)
