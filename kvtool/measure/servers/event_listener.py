"""Listens to a server's KV events while something else is done."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import msgspec

from kvtool.errors import KvtoolError
from kvtool.measure.servers.event_subscriber import EventSource, EventSubscriber
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.kv_events import EventBatch
from kvtool.measure.servers.said_values import said_at, said_text

_PATH = "/kv_event_sources"
_MOST_SAID = 1 << 20
_PAUSE = 0.2
"""Seconds without a message after which nothing more is on its way."""
_LONGEST = 10.0
"""Seconds that such a pause is waited for at most."""


def event_sources(connection: ServerConnection, given: str | None) -> list[EventSource]:
    """Where a server publishes: as it is given, else as the server says, on its own host; none where it says nothing."""
    if given is not None:
        return [EventSource(given)]
    try:
        said = connection.json(_PATH, limit=_MOST_SAID)
    except ServerError:
        return []
    found: list[EventSource] = []
    for rank in said if isinstance(said, dict) else ():
        about = said_at(said, rank)
        endpoint = _here(said_text(about, "endpoint"), connection.address.host)
        if endpoint is None or not str(rank).isdecimal():
            continue
        try:
            found.append(
                EventSource(endpoint, _here(said_text(about, "replay_endpoint"), connection.address.host), int(rank))
            )
        except KvtoolError:
            continue  # an address that cannot be: as if the server had said nothing
    return found


def _here(endpoint: str | None, host: str) -> str | None:
    """An endpoint on the server's own host; None for one on another."""
    if endpoint is None:
        return None
    named = f"[{host}]" if ":" in host else host
    mine = endpoint.replace("://*:", f"://{named}:", 1)
    return mine if mine.startswith((f"tcp://{named}:", "ipc://")) else None


class EventListener:
    """Takes every batch from the moment on at which it is entered; `before` are those that the server still had from earlier."""

    def __init__(self, sources: Iterable[EventSource]) -> None:
        """KvtoolError where an endpoint cannot be connected to."""
        self._subscriber = EventSubscriber(list(sources))
        self._batches: list[EventBatch] = []
        self._start = 0
        self._last = time.monotonic()
        self._stop, self._heard = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        while not self._stop.is_set():
            for batch in self._subscriber.batches(_PAUSE / 4):
                self._batches.append(batch)
                self._last = time.monotonic()
            self._heard.set()

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
        """What was published before the listener was entered, as far as the server still had it."""
        return self._batches[: self._start]

    def since(self) -> list[EventBatch]:
        """What was published since then; waits for what is on its way."""
        self._settle()
        return self._batches[self._start :]


def event_lines(batches: Iterable[EventBatch]) -> bytes:
    """Batches as a recording keeps them, a line each."""
    lines = []
    for batch in batches:
        payload = msgspec.msgpack.encode([batch.at, batch.events, batch.rank])
        line = {"at": batch.at, "topic": "", "seq": batch.seq or 0, "payload_b64": base64.b64encode(payload).decode()}
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    return "".join(lines).encode()
