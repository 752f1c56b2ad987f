"""Listens to a server's KV events while something else is done."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.kv_events.event_batches import ClearedBlocks, EventBatch, StoredBlocks
from kvtool.measure.servers.kv_events.event_subscriber import EventSource, EventSubscriber
from kvtool.measure.servers.kv_events.event_sums import MOST_RANKS, EventCounter, EventSums
from kvtool.measure.servers.server_address import ServerAddress, is_url, server_address
from kvtool.measure.servers.server_values import text_at, value_at
from kvtool.text.bounded_number import whole_number

if TYPE_CHECKING:
    from types import TracebackType


_PATH = "/kv_event_sources"
_MOST_SAID = 1 << 20  # bytes of the page that names sources: a bound for hostile servers
_PAUSE = 0.2
"""Seconds without a message after which nothing more is on its way."""
_LONGEST = 10.0
"""Seconds that such a pause is waited for at most."""
MOST_KEPT = 4_000_000
"""Hashes and tokens of all batches together."""
_TOO_MUCH = f"the server published more than {MOST_KEPT:,} hashes and tokens; later ones are dropped"
ASKED = "server"
"""In the place of an endpoint: the server says where it publishes."""


@dataclass(frozen=True, slots=True)
class NamedSources:
    """Endpoints at which a server publishes; `notes` say where it is not listened to, and why."""

    sources: tuple[EventSource, ...]
    notes: tuple[str, ...] = ()


def event_sources(connection: ServerConnection, given: str | None) -> NamedSources:
    """Return the endpoints of a server: as they are given, else as the server says, on its own host; none where it says nothing.

    An `ipc://` path is of this machine: a server on another one may not name it.
    """
    if given is not None:
        return NamedSources((EventSource(given),))
    try:
        said = connection.json(_PATH, limit=_MOST_SAID)
    except ServerError:
        return NamedSources(())
    found: list[EventSource] = []
    notes: list[str] = []
    for name in said if isinstance(said, dict) else ():
        about = value_at(said, name)
        if (rank := whole_number(name, in_text=True)) is None or text_at(about, "endpoint") is None:
            continue
        endpoint, replay = (_here(text_at(about, key), connection.address) for key in ("endpoint", "replay_endpoint"))
        if len(found) == MOST_RANKS:
            notes.append(f"the server names more than {MOST_RANKS} publishers of KV events; kvtool ignores the others")
            break
        try:
            if endpoint is not None:
                found.append(EventSource(endpoint, replay, rank))
                continue
        except KvtoolError:
            pass  # an address that cannot be
        if not notes:
            notes.append(
                f"the server names a KV event endpoint of rank {rank} that is not on its own host; kvtool does not connect"
            )
    return NamedSources(tuple(found), tuple(notes))


def _here(endpoint: str | None, address: ServerAddress) -> str | None:
    """Return an endpoint on the server's own host; None for one on another."""
    if endpoint is None:
        return None
    named = f"[{address.host}]" if ":" in address.host else address.host
    mine = endpoint.replace("://*:", f"://{named}:", 1)
    return mine if mine.startswith(f"tcp://{named}:") or (mine.startswith("ipc://") and address.is_local) else None


class EventListener:
    """Takes every batch from the moment on at which it is entered; `before` are those that the server still had from earlier."""

    def __init__(self, sources: Iterable[EventSource]) -> None:
        """Raise KvtoolError where an endpoint cannot be connected to."""
        self._subscriber = EventSubscriber(list(sources))
        self._batches: list[EventBatch] = []
        self._room, self._full = MOST_KEPT, False
        self._start = 0
        self._last = time.monotonic()
        self._stop, self._heard = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        while not self._stop.is_set():
            for batch in self._subscriber.batches(_PAUSE / 4):
                self._keep(batch)
                self._last = time.monotonic()
            self._heard.set()

    def _keep(self, batch: EventBatch) -> None:
        """Keep batches up to MOST_KEPT; the first that is too much is kept as one that was lost."""
        self._room -= _values_in(batch)
        if self._room > 0:
            self._batches.append(batch)
        elif not self._full:
            self._full = True
            self._batches.append(replace(batch, events=(), problems=(_TOO_MUCH,), lost=True))

    def __enter__(self) -> Self:
        self._thread.start()
        self._heard.wait(_LONGEST)
        self._settle()
        self._start = len(self._batches)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_LONGEST)
        self._subscriber.close()

    def _settle(self) -> None:
        """Wait until nothing comes any more."""
        until = time.monotonic() + _LONGEST
        self._last = time.monotonic()
        while time.monotonic() < min(until, self._last + _PAUSE):
            time.sleep(_PAUSE / 4)

    @property
    def before(self) -> list[EventBatch]:
        """Return the batches published before the listener was entered, as far as the server still had it."""
        return self._batches[: self._start]

    def since(self) -> list[EventBatch]:
        """Return the batches published since then; waits for what is on its way."""
        self._settle()
        return self._batches[self._start :]


def _values_in(batch: EventBatch) -> int:
    """Count hashes and tokens of a batch, and what its objects take beside them."""
    stored = (event for event in batch.events if isinstance(event, StoredBlocks))
    tokens = sum(len(event.token_ids or ()) for event in stored)
    hashes = sum(len(event.block_hashes) for event in batch.events if not isinstance(event, ClearedBlocks))
    return 20 + 20 * (len(batch.events) + len(batch.problems)) + hashes + tokens


def event_lines(batches: Iterable[EventBatch]) -> bytes:
    """Yield batches as a recording keeps them, a line each."""
    lines = []
    for batch in batches:
        payload = msgspec.msgpack.encode([batch.at, batch.events, batch.rank])
        line = {"at": batch.at, "topic": "", "seq": batch.seq or 0, "payload_b64": base64.b64encode(payload).decode()}
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    return "".join(lines).encode()


def publishers(source: str, given: str) -> NamedSources:
    """Return the publishers at an endpoint, or those that the server at `source` names, one for each data-parallel rank, with what
    they still have.

    KvtoolError for what is no endpoint, and where a server names none.
    """
    if given != ASKED:
        return NamedSources((EventSource(given),))
    if not is_url(source):
        raise KvtoolError(f"`{source}` is not a server that can list its publishers", hint="pass the endpoint")
    with ServerConnection(server_address(source)) as connection:
        found = event_sources(connection, None)
    if not found.sources:
        raise KvtoolError(
            found.notes[0] if found.notes else "the server publishes no KV events, or does not list its publishers",
            hint="start vLLM with --kv-events-config, or pass the endpoint: --kv-events tcp://HOST:PORT",
        )
    return found


def lists_publishers(source: str) -> bool:
    """Return whether the server at a URL names publishers of KV events."""
    try:
        publishers(source, ASKED)
    except KvtoolError:
        return False
    return True


class Heard:
    """The events of some publishers, since the block began; before it, as far as they still have those and are asked."""

    def __init__(self, named: NamedSources, also: Callable[[EventBatch], None] = lambda _: None) -> None:
        """Raise KvtoolError where an endpoint cannot be connected to. `also` gets every batch, too."""
        self._subscriber = EventSubscriber(named.sources)
        self._also = also
        self._notes = named.notes
        self._counter = EventCounter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscriber.close()

    def listen(self, seconds: float) -> None:
        """Listen for so long."""
        for batch in self._subscriber.batches(seconds):
            self._counter.add(batch)
            self._also(batch)

    def sums(self) -> EventSums:
        """Return the sums of all events that were received."""
        sums = self._counter.sums()
        return replace(sums, notes=(*self._notes, *sums.notes))
