"""A stub of the providers' APIs on loopback: it keeps each request and answers by a script, with true counts of tokens."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from kvtool.profiler.agents.own_script import StubScript
from kvtool.profiler.agents.private_network import LOOPBACK
from kvtool.profiler.agents.stub_answers import StubTokens, write_answer, write_events
from kvtool.profiler.agents.stub_script import Protocol, answer, read_request
from kvtool.profiler.steps.step_book import common_characters

_MOST_BYTES = 32 << 20
"""Of a body, also after it is unpacked."""
_MOST_REQUESTS = 2_000
_MOST_KEPT = 256 << 20
_KEPT_HEADERS = (
    *("x-claude-code-session-id", "session-id", "session_id", "x-session-id"),
    *("x-stainless-retry-count", "x-retry-count", "x-retry-attempt", "retry-count", "amz-sdk-request"),
)
"""Headers that say which session a request is of and whether it is a retry; no other one is kept."""
_PROMPT = ("tools", "system", "systemInstruction", "instructions", "messages", "input", "contents")
_CHARACTERS = 4
"""Characters that the stub counts as a token."""
_LEAST = 1_024
"""Tokens from which on providers cache a prefix."""
_FIRST_BYTES = 8
"""Of a connection: enough for the method of a request."""
_BEFORE_TOOLS = 2
"""Requests of a turn before a late MCP server answers: the second shows that the agent does not wait for it."""


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request of a model. `run` names the run that sent it, `turn` is its turn (from 0), `at` the time in seconds since 1970."""

    run: str
    turn: int
    protocol: Protocol
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at: float


@dataclass(slots=True)
class StubTraffic:
    """All that came: requests of models, and counts of what is none by its path or its fault."""

    requests: list[KeptRequest] = field(default_factory=list)
    any: int = 0
    """Requests of any kind."""
    unknown: dict[str, int] = field(default_factory=dict)
    """By path, with the form of the first body; what is no HTTP by its first bytes."""
    unreadable: int = 0
    refused: int = 0
    """Requests beyond the limits."""
    bytes: int = 0
    latest: float = 0.0
    """When the last request came or was answered, by the monotonic clock."""


@dataclass(slots=True)
class LateServer:
    """Lets an MCP server answer by making the file `ready` at the second request of a turn; the stub's answer comes some `seconds`
    later, so that the request after it can have the tools."""

    ready: Path
    seconds: float

    def settle(self, requests: int) -> None:
        """Make the file and wait, if it is time."""
        if requests >= _BEFORE_TOOLS and not self.ready.exists():
            self.ready.touch()
            time.sleep(self.seconds)


class StubServer:
    """Serves from a thread while it is used as a context, on the given port that listens, else on a port of loopback.

    `run` names the run that now sends, and `turn` is its turn; `folder` is where its files are, `final` the shell command that ends
    its session, `latency` the seconds until an answer, `late` an MCP server that waits for requests, and `script` what is answered.
    `on_request` gets each request that is kept.
    """

    def __init__(
        self, listening: socket.socket | None = None, on_request: Callable[[KeptRequest], None] | None = None
    ) -> None:
        self.traffic = StubTraffic()
        self._on_request = on_request
        self.run, self.turn, self.folder = "", 0, "."
        self.final: str | None = None
        self.latency = 0.0
        self.late: LateServer | None = None
        self.script = StubScript()
        self._lock = threading.Lock()
        self._seen: list[str] = []
        handler = type("Handler", (_Handler,), {"stub": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler, bind_and_activate=listening is None)
        if listening is not None:
            self._server.socket.close()
            self._server.socket = listening
            self._server.server_address = listening.getsockname()
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> StubServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def came(self) -> None:
        """Count one more request of any kind."""
        with self._lock:
            self.traffic.any += 1
            self.traffic.latest = time.monotonic()

    def note(self, *, unknown: str | None = None, unreadable: bool = False, refused: bool = False) -> None:
        """Count what is no request of a model."""
        with self._lock:
            self.traffic.unreadable += unreadable
            self.traffic.refused += refused
            if unknown is not None and (unknown in self.traffic.unknown or len(self.traffic.unknown) < _MOST_REQUESTS):
                self.traffic.unknown[unknown] = self.traffic.unknown.get(unknown, 0) + 1

    def count_turn(self) -> int:
        """Count the requests with tools of the turn that now sends."""
        with self._lock:
            of_turn = (each for each in self.traffic.requests if (each.run, each.turn) == (self.run, self.turn))
            return sum(bool(each.body.get("tools")) for each in of_turn)

    def keep(self, request: KeptRequest, size: int) -> tuple[int, StubTokens] | None:
        """Keep a request; return its number and its tokens, None where it is beyond the limits."""
        text = _prompt_text(request.body)
        with self._lock:
            traffic = self.traffic
            if len(traffic.requests) >= _MOST_REQUESTS or traffic.bytes + size > _MOST_KEPT:
                traffic.refused += 1
                return None
            traffic.requests.append(request)
            if self._on_request is not None:
                self._on_request(request)
            traffic.bytes += size
            shared = max((common_characters(text, each) for each in self._seen), default=0)
            self._seen.append(text)
            cached = shared // _CHARACTERS
            counted = StubTokens(max(len(text) // _CHARACTERS, 1, self.script.fill), cached if cached >= _LEAST else 0)
            return len(traffic.requests), counted


class _Handler(BaseHTTPRequestHandler):
    stub: StubServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base calls it
        """Write nothing."""

    def handle(self) -> None:
        """Serve a connection; one that does not begin as HTTP does is noted and closed."""
        with contextlib.suppress(OSError):  # the agent was ended
            first = self.connection.recv(_FIRST_BYTES, socket.MSG_PEEK)
            if not first or first.isalpha() or first.split(b" ")[0].isalpha():
                super().handle()
            else:
                self.stub.came()
                self.stub.note(unknown=f"something else than HTTP ({_form_of(first)})")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request of a version or method that no API has."""
        self.stub.came()
        self.stub.note(unknown=f"a {self.command} request" if self.command else "another version of HTTP")
        super().send_error(code, message, explain)

    def do_HEAD(self) -> None:
        self._send({})

    def do_GET(self) -> None:
        self.stub.came()
        if urlsplit(self.path).path.endswith("/models"):
            names = [{"id": name, "object": "model", "type": "model", "display_name": name} for name in _MODELS]
            self._send({"object": "list", "data": names, "has_more": False})
        else:
            self._send({})

    def do_POST(self) -> None:
        self.stub.came()
        path = urlsplit(self.path).path
        data = self._body()
        if data is None:
            self.stub.note(refused=True)
            self._send({"error": {"message": "the body is too long"}}, 413)
            return
        protocol = _protocol_of(path)
        try:
            body = json.loads(_unpacked(data, self.headers.get("content-encoding", "")))
        except (ValueError, OSError, EOFError, zlib.error, RecursionError):
            body = None
        if path.endswith(("/count_tokens", ":countTokens")) and isinstance(body, dict):
            tokens = max(len(_prompt_text(body)) // _CHARACTERS, 1)
            self._send({"totalTokens": tokens} if path.endswith(":countTokens") else {"input_tokens": tokens})
        elif protocol is None:
            self.stub.note(unknown=f"{path} ({_form_of(data)})")
            self._send({"error": {"message": "kvtool's stub does not know this path"}}, 404)
        elif not isinstance(body, dict):
            self.stub.note(unreadable=True)
            self._send({"error": {"message": "the body is no JSON object"}}, 400)
        else:
            try:
                self._answer(protocol, path, body, len(data))
            except RecursionError:  # JSON within JSON, beyond what any API takes
                self.stub.note(unreadable=True)
                self._send({"error": {"message": "the body is nested too deeply"}}, 400)

    def _answer(self, protocol: Protocol, path: str, body: dict[str, Any], size: int) -> None:
        headers = {name: value for name in _KEPT_HEADERS if (value := self.headers.get(name)) is not None}
        stub = self.stub
        kept = stub.keep(KeptRequest(stub.run, stub.turn, protocol, path, headers, body, time.time()), size)
        if kept is None:
            self._send({"error": {"message": "too many requests for one probe"}}, 429)
            return
        number, counted = kept
        if stub.latency:
            time.sleep(stub.latency)
        if stub.late is not None:
            stub.late.settle(stub.count_turn())
        model = body.get("model")
        reply = answer(
            read_request(protocol, body), stub.folder, stub.final, calls=stub.script.calls, own=stub.script.replies
        )
        made = write_answer(protocol, model if isinstance(model, str) else "stub", reply, counted, number)
        if body.get("stream") is True or path.endswith(":streamGenerateContent"):
            self._stream(protocol, made)
        else:
            self._send(made)

    def _body(self) -> bytes | None:
        """Return the body as it was sent; None for one that is too long or has no length."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = self.headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > _MOST_BYTES:
                self.close_connection = True
                return None
            return self.rfile.read(int(length))
        data = bytearray()
        while True:
            line = self.rfile.readline(64).split(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                size = -1
            if size < 0 or len(data) + size > _MOST_BYTES:
                self.close_connection = True
                return None
            data += self.rfile.read(size)
            self.rfile.readline(64)
            if not size:
                return bytes(data)

    def _send(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.stub.traffic.latest = time.monotonic()

    def _stream(self, protocol: Protocol, made: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, event in write_events(protocol, made):
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode())
        self.close_connection = True
        self.stub.traffic.latest = time.monotonic()


_MODELS = ("claude-sonnet-4-6", "gpt-5.5", "gemini-2.5-pro")


def _protocol_of(path: str) -> Protocol | None:
    if path.endswith("/messages"):
        return "messages"
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/responses"):
        return "responses"
    return "gemini" if path.endswith((":generateContent", ":streamGenerateContent")) else None


def _form_of(data: bytes) -> str:
    """Return what a body or a connection begins with, without its text."""
    forms = {b"{": "a JSON object", b"[": "a JSON list", b"": "no body"}
    head = data.lstrip()[:_FIRST_BYTES]
    is_text = head.isascii() and head.decode("ascii", "replace").isprintable()
    return forms.get(head[:1]) or ("text" if is_text else f"bytes {head[:4].hex(' ')}")


def _unpacked(data: bytes, encoding: str) -> bytes:
    """Return a body without its compression; ValueError for one that is not known, or longer than allowed."""
    match encoding.strip().lower():
        case "" | "identity":
            return data
        case "gzip":
            found = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data, _MOST_BYTES + 1)
        case "zstd":
            import zstandard

            try:
                found = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read(_MOST_BYTES + 1)
            except zstandard.ZstdError as error:
                raise ValueError(encoding) from error
        case _:
            raise ValueError(encoding)
    if len(found) > _MOST_BYTES:
        raise ValueError("too long")
    return found


def _prompt_text(body: Mapping[str, Any]) -> str:
    """Return the prompt of a body as a text that begins like that of a body which it goes on with."""
    pieces: list[str] = []
    for name in _PROMPT:
        value = body.get(name) or []
        pieces += [json.dumps(_without_marks(each)) for each in (value if isinstance(value, list) else [value])]
    return "\n".join(pieces)


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(each) for name, each in value.items() if name not in ("cache_control", "id")}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value
