"""KV events as they are published: a subscriber over ZeroMQ that asks for what it missed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import zmq

from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events import MAX_SEQUENCE, EventBatch, read_payload

REPLAY_SECONDS = 5.0
"""How long a server may be silent while it is asked for old batches."""
MOST_REPLAYED = 100_000
"""Batches of one answer; a server keeps 10,000 unless it is told otherwise."""
_LARGEST_FRAME = 512 << 20
"""Bytes; a peer that sends more is disconnected for good, before it has filled the memory. What is merely too large is told."""
_WAITING = 1_000
"""Messages that are kept while nobody reads; what comes then is lost, which shows as a gap."""
_ENDPOINT = re.compile(r"tcp://(?:\[[0-9A-Fa-f:.%]+\]|[^\s\[\]:*/]+):[0-9]{1,5}|ipc://\S+")
_END = (b"\xff" * 8, b"")


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where one data-parallel rank publishes, and where it answers for what was published before (None: it does not)."""

    endpoint: str
    replay: str | None = None
    rank: int = 0

    def __post_init__(self) -> None:
        """KvtoolError for what is no address that can be connected to."""
        for given in (self.endpoint, self.replay):
            if given is not None and not _is_endpoint(given):
                raise KvtoolError(
                    f"{given!r} is no endpoint of KV events",
                    hint="tcp://HOST:PORT with the host's name where the server says `*`, or ipc://PATH",
                )


class _Publisher:
    """One source: its sockets, and which batch comes next."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], source: EventSource) -> None:
        self.source = source
        self.next: int | None = None
        self.newest = 0.0
        self.asked = source.replay is None
        """Whether it was asked once for all that it has; or there is nobody to ask."""
        self._context = context
        self.socket = _socket(context, zmq.SUB)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        _connect(self.socket, source.endpoint)

    def received(self) -> Iterator[EventBatch]:
        """A message that is there; with what was missed before it, where the server still has that."""
        frames = self.socket.recv_multipart(zmq.NOBLOCK)
        if len(frames) != 3 or len(frames[1]) != 8:
            said = f"a message of {len(frames)} parts is no batch of KV events"
            yield EventBatch((), rank=self.source.rank, problems=(said,), lost=True)
            return
        yield from self.in_order(_batch(frames[1], frames[2], self.source.rank))

    def in_order(self, batch: EventBatch) -> Iterator[EventBatch]:
        """The batch where it is the next one; else what is missing before it, as far as that can be had. None twice."""
        assert batch.seq is not None
        expected = self.next or 0
        if batch.seq < expected:
            if batch.at <= self.newest:
                return  # it came with an answer already
            expected = 0  # the server began anew
        if batch.seq > expected and self.source.replay is not None:
            for old in self._replayed(expected):
                if old.seq is not None and expected <= old.seq < batch.seq:
                    yield self._passed(old)
        yield self._passed(batch)

    def before(self) -> Iterator[EventBatch]:
        """All that the server still has, asked once."""
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
        """The server's batches from `start` on, as far as it has them and answers in time."""
        assert self.source.replay is not None
        with _socket(self._context, zmq.DEALER) as socket:
            _connect(socket, self.source.replay)
            socket.send_multipart([b"", start.to_bytes(8, "big")])
            for _ in range(MOST_REPLAYED):
                if not socket.poll(int(1000 * REPLAY_SECONDS)):
                    return
                frames = socket.recv_multipart()
                if len(frames) != 4 or len(frames[2]) != 8 or (frames[2], frames[3]) == _END:
                    return
                yield _batch(frames[2], frames[3], self.source.rank)


class EventSubscriber:
    """Every batch of some publishers, in order for each of them. A context manager: it closes its connections."""

    def __init__(self, sources: Sequence[EventSource]) -> None:
        """KvtoolError where an endpoint cannot be connected to. That nobody publishes there only shows in the silence."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._publishers = [_Publisher(self._context, source) for source in sources]
        except BaseException:
            self.close()
            raise

    def batches(self, seconds: float) -> Iterator[EventBatch]:
        """What is published within so many seconds from now on; first, once, what servers still have from before."""
        until = time.monotonic() + seconds
        for publisher in self._publishers:
            yield from publisher.before()
        poller = zmq.Poller()
        by_socket = {publisher.socket: publisher for publisher in self._publishers}
        for socket in by_socket:
            poller.register(socket, zmq.POLLIN)
        while True:
            left = until - time.monotonic()
            ready = poller.poll(max(int(1000 * left), 0))
            for socket, _ in ready:
                yield from by_socket[socket].received()
            if left <= 0:  # what had come by then is read, and no more: a publisher may never pause
                return

    def close(self) -> None:
        """End all connections; nothing is waited for."""
        self._context.destroy(linger=0)

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
    return read_payload(payload, min(int.from_bytes(number, "big"), MAX_SEQUENCE), rank=rank)


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_FRAME)
    socket.setsockopt(zmq.RCVHWM, _WAITING)
    return socket


def _connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise KvtoolError(f"cannot connect to {endpoint!r}: {zmq.strerror(error.errno or 0)}") from error
