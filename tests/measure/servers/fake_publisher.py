"""A publisher of KV events as vLLM's is: PUB for what happens, ROUTER for what has happened."""

from __future__ import annotations

import threading
from pathlib import Path

import zmq

from kvtool.measure.servers.kv_events.event_subscriber import EventSource

LONG = 60.0
"""Seconds; no test waits that long, as each ends with what it waits for."""


class FakePublisher:
    """Publishes on request; answers for old batches in a thread of its own."""

    def __init__(self, folder: Path, *, answers: bool = True) -> None:
        self.source = EventSource(f"ipc://{folder}/events", f"ipc://{folder}/replay" if answers else None)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.pub = self.context.socket(zmq.XPUB)  # says when somebody has subscribed
        self.pub.bind(self.source.endpoint)
        self.kept: list[tuple[int, bytes]] = []
        self.asked: list[int] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._answer) if answers else None
        if self.thread is not None:
            self.thread.start()

    def wait_for_subscriber(self) -> None:
        assert self.pub.poll(int(1000 * LONG))
        self.pub.recv()

    def keep(self, number: int, data: bytes) -> None:
        self.kept.append((number, data))

    def publish(self, number: int, data: bytes, *, keep: bool = True) -> None:
        self.pub.send_multipart([b"kv", number.to_bytes(8, "big"), data])
        if keep:
            self.keep(number, data)

    def _answer(self) -> None:
        assert self.source.replay is not None
        with self.context.socket(zmq.ROUTER) as router:
            router.bind(self.source.replay)
            while not self.stop.is_set():
                if not router.poll(10):
                    continue
                peer, empty, start = router.recv_multipart()
                self.asked.append(int.from_bytes(start, "big"))
                for number, data in list(self.kept):
                    if number >= self.asked[-1]:
                        router.send_multipart([peer, empty, b"kv", number.to_bytes(8, "big"), data])
                router.send_multipart([peer, empty, b"", b"\xff" * 8, b""])

    def close(self) -> None:
        self.stop.set()
        if self.thread is not None:
            self.thread.join()
        self.context.destroy(linger=0)
