"""The receiving side of ZeroMQ's protocol (ZMTP 3.0 without security), in which no peer can make us keep more than we want.

libzmq bounds the size of a frame, but neither the number of parts of a message nor the bytes of the messages that wait. Here what
is too large is read and dropped, and a peer that sends faster than we read waits, as TCP has it.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kvtool.errors import KvtoolError

_GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_LARGEST_COMMAND = 1 << 16  # bytes: a bound for hostile peers, as are the next ones
_MOST_PARTS = 8
_CHUNK = 1 << 16
_AGAIN = 0.1
"""Seconds after which a connection that did not come to be, or broke, is tried again."""
_PATIENCE = 5.0
"""Seconds for a connection to come to be."""


class ReceivedMessage(NamedTuple):
    """The parts of a message; of one that is too large those before the part that was too much, and how large it is so far."""

    parts: tuple[bytes, ...]
    too_large: str | None = None


class ProtocolError(Exception):
    """A peer that does not speak ZMTP."""


class FrameReader:
    """Takes bytes as they come; gives messages, and says what is to be sent for the handshake."""

    def __init__(self, *, most: int) -> None:
        """`most` is for the bytes of a message."""
        self._most = most
        self._data = bytearray()
        self._greeted = self.ready = False
        self._parts: list[bytes] = []
        self._kept = 0
        self._skip = 0
        """Bytes of a frame that are still to be dropped."""
        self._dropping = False
        """Whether the rest of this message is."""

    def take(self, data: bytes) -> Iterator[ReceivedMessage]:
        """Yield the messages that end in these bytes, or turn out too large; ProtocolError."""
        self._data += data
        if not self._greeted:
            if len(self._data) < len(_GREETING):
                return
            if self._data[:1] != b"\xff" or self._data[9:10] != b"\x7f" or self._data[10] < 3:
                raise ProtocolError
            del self._data[: len(_GREETING)]
            self._greeted = True
        while self._step():
            if (message := self._frame()) is not None:
                yield message

    def _step(self) -> bool:
        """Return whether there is a whole frame, or the head of one that is too large; drops what is to be dropped."""
        dropped = min(self._skip, len(self._data))
        del self._data[:dropped]
        self._skip -= dropped
        if self._skip or len(self._data) < 2 or len(self._data) < self._head:
            return False
        return len(self._data) >= self._head + self._size or self._unwanted

    @property
    def _head(self) -> int:
        return 9 if self._data[0] & _LONG else 2

    @property
    def _size(self) -> int:
        return int.from_bytes(self._data[1 : self._head], "big")

    @property
    def _unwanted(self) -> bool:
        if self._data[0] & _COMMAND:
            return self._size > _LARGEST_COMMAND
        return self._dropping or self._kept + self._size > self._most or len(self._parts) >= _MOST_PARTS

    def _frame(self) -> ReceivedMessage | None:
        flags, head, size = self._data[0], self._head, self._size
        if flags & _COMMAND or not self.ready:
            if self._unwanted or not flags & _COMMAND:
                raise ProtocolError
            self.ready |= self._data[head : head + 6] == b"\x05READY"
            del self._data[: head + size]
            return None
        message = None
        if self._unwanted:
            if not self._dropping:
                what = (
                    f"{self._kept + size:,} bytes"
                    if len(self._parts) < _MOST_PARTS
                    else f"more than {_MOST_PARTS} parts"
                )
                message = ReceivedMessage(tuple(self._parts), what)
            self._dropping = True
            self._skip = size
            del self._data[:head]
        else:
            self._parts.append(bytes(self._data[head : head + size]))
            self._kept += size
            del self._data[: head + size]
        if flags & _MORE:
            return message
        found = message if self._dropping else ReceivedMessage(tuple(self._parts))
        self._parts, self._kept, self._dropping = [], 0, False
        return found


class Connection:
    """One peer, which is connected to again and again until it is closed."""

    def __init__(self, endpoint: str, kind: bytes, first: Sequence[bytes], *, most: int) -> None:
        """`kind` is our socket's (SUB, DEALER); `first` are the parts of the message that goes out whenever a peer is ready.

        KvtoolError for an address that cannot be.
        """
        self._kind, self._first, self._most = kind, first, most
        try:
            self._addresses = list(_addresses(endpoint))
            self._begin()
        except (OSError, ValueError) as error:
            raise KvtoolError(f"cannot connect to {endpoint!r}: {_reason(error)}") from None

    def _begin(self) -> None:
        """Start a connection; OSError for a path that cannot be, not where nobody is there."""
        self._reader = FrameReader(most=self._most)
        self._connected = self.subscribed = False
        family, address = self._addresses[0]
        self._addresses.append(self._addresses.pop(0))  # the next one another time
        self._until = time.monotonic() + _PATIENCE
        self.socket: socket.socket | None = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        try:
            self.socket.connect(address)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken()
            if error.errno is None:  # of the address itself, before anybody was asked
                raise

    def _broken(self) -> None:
        self.close()
        self._until = time.monotonic() + _AGAIN

    def close(self) -> None:
        """End the connection."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def prepared(self) -> float:
        """Have a connection under way; seconds until the next try, where there is none."""
        now = time.monotonic()
        if self.socket is not None and not self._connected and now > self._until:
            self._broken()
        if self.socket is None:
            if now < self._until:
                return self._until - now
            self._begin()
        return _PATIENCE

    @property
    def events(self) -> int:
        """Return the events to wait for."""
        return select.POLLIN if self._connected else select.POLLOUT

    def received(self) -> Iterator[ReceivedMessage]:
        """Return the messages in the bytes that are there; a peer that breaks off, or speaks something else, is connected to
        anew."""
        if self.socket is None:
            return
        try:
            if not self._connected:
                if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, "")
                self._connected = True
                self.socket.sendall(_GREETING + _command(b"READY", b"Socket-Type", self._kind))
                return
            data = self.socket.recv(_CHUNK)
            if not data:
                raise ProtocolError
            yield from self._reader.take(data)
            if self._reader.ready and not self.subscribed:
                self.subscribed = True
                self.socket.sendall(_message(self._first))
        except BlockingIOError:
            return
        except (OSError, ProtocolError):
            self._broken()


def ready(connections: Sequence[Connection], seconds: float) -> list[Connection]:
    """Return the peers of which something can be read now, or within so many seconds."""
    until = time.monotonic() + seconds
    while True:
        wait = min((each.prepared() for each in connections), default=seconds)
        by_number = {each.socket.fileno(): each for each in connections if each.socket is not None}
        poller = select.poll()
        for number, each in by_number.items():
            poller.register(number, each.events)
        left = until - time.monotonic()
        found = poller.poll(max(int(1000 * min(left, wait)), 0))
        if found or left <= 0:
            return [by_number[number] for number, _ in found]


def _addresses(endpoint: str) -> Iterator[tuple[int, str | tuple[Any, ...]]]:
    """Return the addresses of `tcp://HOST:PORT` or `ipc://PATH`, where `@` begins a name that is in no file system."""
    scheme, _, rest = endpoint.partition("://")
    if scheme == "ipc":
        yield socket.AF_UNIX, f"\0{rest[1:]}" if rest.startswith("@") else rest
        return
    host, _, port = rest.rpartition(":")
    for family, _, _, _, address in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        yield family, address


def _command(name: bytes, key: bytes, value: bytes) -> bytes:
    body = bytes([len(name)]) + name + bytes([len(key)]) + key + len(value).to_bytes(4, "big") + value
    return bytes([_COMMAND, len(body)]) + body


def _message(parts: Sequence[bytes]) -> bytes:
    """Return a message of short parts."""
    last = len(parts) - 1
    return b"".join(bytes([_MORE * (at < last), len(part)]) + part for at, part in enumerate(parts))


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
