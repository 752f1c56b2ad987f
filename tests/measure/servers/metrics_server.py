"""A server on this machine that answers GET with what a test says, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

Page = tuple[int, dict[str, str], bytes]
Answer = Callable[[str, int], Page | None]
"""Of a path, and how often it was asked before; None hangs until the server is closed."""


@dataclass
class MetricsServer:
    """Its address, the paths it was asked for, and the headers of each request."""

    url: str
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


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

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def ok(body: str | bytes) -> Page:
    """An answer with that body."""
    return 200, {}, body.encode() if isinstance(body, str) else body


def pages(found: dict[str, str | bytes]) -> Answer:
    """Answers for these paths (a query counts for nothing), and 404 for others."""
    return lambda path, _: ok(found[key]) if (key := path.split("?")[0]) in found else (404, {}, b"{}")


def always(page: Page | None) -> Answer:
    """The same answer for every path."""
    return lambda _path, _before: page
