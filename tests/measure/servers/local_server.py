"""HTTP servers on this machine, while a block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@contextmanager
def running(server: ThreadingHTTPServer, closing: Event) -> Iterator[int]:
    """Serve until the block ends; its port. `closing` is set then, which lets go of handlers that hang."""
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler], closing: Event) -> Iterator[str]:
    """The URL of a server whose requests go to `handler`."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler), closing) as port:
        yield f"http://127.0.0.1:{port}"
