"""A server that answers as a recorded one did, over HTTP and as a stream; a test says what goes wrong, and when."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event, Lock
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.measure.servers.local_server import answering
from tests.profiler.made_sessions import SECRET, MadeSession

KEY = "sk-never-to-be-seen"
"""What tests put into the environment."""
MODELS = json.dumps({"data": [{"id": "m", "root": "nowhere", "parent": None, "max_model_len": 8192}]})
Fault = Callable[["FakeHandler", int], bool]
"""Does what goes wrong with a request of this number, from 0; False: it is answered as recorded."""


PAGES = ("/v1/chat/completions", "/v1/completions", "/v1/responses")


def text_of(body: dict[str, Any]) -> str:
    """The prompt of a request, of whatever API."""
    said = body.get("messages") or body.get("input") or body["prompt"]
    found = said if isinstance(said, str) else said[-1]["content"]
    assert isinstance(found, str)
    return found


@dataclass
class FakeVllm:
    """What it was asked: paths with bodies, and headers."""

    url: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    scrapes: int = 0
    """How often /metrics was asked for."""
    open_: int = 0
    """Requests that are being answered."""

    @property
    def prompts(self) -> list[str]:
        """The prompts that were sent, in order."""
        return [text_of(body) for path, body in self.asked if path in PAGES]


class FakeHandler(BaseHTTPRequestHandler):
    """One connection."""

    closing: Event

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """A whole answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self) -> None:
        """The head of an answer that ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, value: object) -> None:
        """One event of a stream."""
        data = value if isinstance(value, str) else json.dumps(value)
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


def stream(handler: FakeHandler, row: dict[str, Any]) -> None:
    """The answer of a row as vLLM streams it."""
    handler.begin_stream()
    choice = row["response"]["choices"][0]
    usage = row["response"]["usage"]
    if handler.path == "/v1/responses":
        handler.event({"type": "response.created", "response": {"id": "r", "usage": None}})
        for _ in choice["token_ids"]:
            handler.event({"type": "response.output_text.delta", "delta": "x "})
        told = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
        whole = {"id": "r", "usage": {**told, "input_tokens_details": usage["prompt_tokens_details"]}}
        handler.event({"type": "response.completed", "response": whole})
        return
    if handler.path == "/v1/completions":
        for token in choice["token_ids"]:
            handler.event({"choices": [{"index": 0, "text": "x ", "token_ids": [token]}]})
        handler.event({"choices": [{"index": 0, "text": "", "finish_reason": choice["finish_reason"]}]})
        handler.event({"choices": [], "usage": usage})
        handler.event("[DONE]")
        return
    handler.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    for token in choice["token_ids"]:
        handler.event({"choices": [{"index": 0, "delta": {"content": "x "}, "token_ids": [token]}]})
    handler.event({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    handler.event({"choices": [], "usage": row["response"]["usage"]})
    handler.event("[DONE]")


@contextmanager
def fake_vllm(
    session: MadeSession,
    fault: Fault = lambda _handler, _number: False,
    pages: dict[str, str] | None = None,
    metrics: Callable[[int, str], tuple[int, str]] = lambda _number, text: (200, text),
) -> Iterator[FakeVllm]:
    """It runs until the block ends; counters grow with the answers. `pages` are those that it has instead of vLLM's own.

    `metrics` makes the status and the text of the answer of that number out of what /metrics says.
    """
    told = FakeVllm()
    rows = {text_of(row["body"]): row for row in session.rows}
    closing, lock = Event(), Lock()
    counted = [0, 0]

    class Handler(FakeHandler):
        def do_GET(self) -> None:
            own = {
                "/metrics": session.metrics(*counted, session.created[bool(counted[0])]),
                "/v1/models": MODELS,
                "/version": '{"version": "0.32.0"}',
            }
            page = (own if pages is None else pages).get(self.path)
            status = 200 if page is not None else 404
            if page is not None and self.path == "/metrics":
                with lock:
                    number, told.scrapes = told.scrapes, told.scrapes + 1
                status, page = metrics(number, page)
            try:
                self.send(status, (page or "{}").encode())
            except OSError:  # who asked has read enough
                self.close_connection = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
            with lock:
                number = sum(path in PAGES for path, _ in told.asked)
                told.asked.append((self.path, body))
                told.headers.append({key.lower(): value for key, value in self.headers.items()})
                told.open_ += 1
            try:
                if self.path not in PAGES:
                    self.send(404, b"{}")
                    return
                if fault(self, number):
                    return
                row = rows[text_of(body)]
                usage = row["response"]["usage"]
                with lock:
                    counted[0] += usage["prompt_tokens"]
                    counted[1] += usage["prompt_tokens_details"]["cached_tokens"]
                stream(self, row)
            except OSError:  # who asked is gone
                self.close_connection = True
            finally:
                with lock:
                    told.open_ -= 1

    Handler.closing = closing
    with answering(Handler, closing) as told.url:
        yield told


def sent(
    capsys: pytest.CaptureFixture[str], url: str, workload: str, *more: str
) -> tuple[int, dict[str, Any] | None, str]:
    """The exit code, the document, and standard error; neither key nor prompt is in what was written."""
    code = run(["replay", workload, "--server", url, "--yes", "--json", "-q", *more])
    out, err = capsys.readouterr()
    for text in (out, err):
        assert KEY not in text
        assert SECRET not in text
        assert "Traceback" not in text
    return code, json.loads(out) if out else None, err


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it became true in time."""
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    return what()
