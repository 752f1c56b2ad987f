"""A server that sends any bytes: no library's idea of HTTP stands in the way of what a test makes it answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

METRICS = (
    'vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1.0\n'
    'vllm:prefix_cache_hits_total{engine="0",model_name="m"} 0.0\n'
    'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100",enable_prefix_caching="True"} 1.0\n'
)
MODELS = '{"data":[{"id":"m","owned_by":"vllm","max_model_len":16384}]}'
PAGES = {"/metrics": METRICS, "/version": '{"version":"0.32.0"}', "/v1/models": MODELS}


@dataclass(frozen=True)
class RuleRequest:
    """One request: its path without a query, the key that came with it, how often the path was asked for before."""

    path: str
    key: bytes
    number: int


Answer = Callable[[RuleRequest], Iterable[bytes] | None]
"""The bytes that are sent, None for the usual page; the connection is closed behind them."""


def whole(body: bytes, head: bytes = b"") -> list[bytes]:
    """An answer as it should be; `head` are lines of headers."""
    return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(body), head), body]


@contextmanager
def raw_server(answer: Answer) -> Iterator[str]:
    """Its URL, while the block lasts."""
    counts: dict[str, int] = {}
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as reader:
            first = reader.readline().split()
            key, size = b"", 0
            while line := reader.readline().strip():
                name, _, value = line.partition(b":")
                key = value.strip() if name.lower() == b"authorization" else key
                size = int(value) if name.lower() == b"content-length" else size
            reader.read(size)
            path = first[1].decode().partition("?")[0]
            asked = RuleRequest(path, key, counts.get(path, 0))
            counts[path] = asked.number + 1
            parts = answer(asked)
            if parts is None and path in PAGES:
                parts = whole(PAGES[path].encode(), b"Connection: close\r\n")
            for part in [b"HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n"] if parts is None else parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
