"""A server on this machine that answers with what a test says, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from tests.measure.servers.local_server import answering

Page = tuple[int, dict[str, str], bytes]
Answer = Callable[[str, int], Page | None]
"""Of a path, and how often it was asked before; None hangs until the server is closed."""


@dataclass
class MetricsServer:
    """Its address, the paths it was asked for, the headers of each request, and the bodies of those that had one."""

    url: str
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    posted: list[bytes] = field(default_factory=list)


@contextmanager
def serving(answer: Answer) -> Iterator[MetricsServer]:
    """A server that answers so, until the block ends."""
    closing = Event()
    told = MetricsServer("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            before = told.asked.count(self.path)
            told.asked.append(self.path)
            told.headers.append({key.lower(): value for key, value in self.headers.items()})
            page = answer(self.path, before)
            if page is None:
                closing.wait(60)
                return
            status, headers, body = page
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:  # who asked has read enough
                self.close_connection = True

        def do_POST(self) -> None:
            told.posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with answering(Handler, closing) as told.url:
        yield told


def ok(body: str | bytes) -> Page:
    """An answer with that body."""
    return 200, {}, body.encode() if isinstance(body, str) else body


def pages(found: dict[str, str | bytes]) -> Answer:
    """Answers for these paths (a query counts for nothing), and 404 for others."""
    return lambda path, _: ok(found[key]) if (key := path.split("?")[0]) in found else (404, {}, b"{}")


def always(page: Page | None) -> Answer:
    """The same answer for every path."""
    return lambda _path, _before: page
