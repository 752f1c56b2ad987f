"""Requests that wait to be admitted."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from kvtool.engine.request import Request


class WaitingQueue:
    """First come first served, or by (priority, arrival, id as text), as vLLM breaks ties."""

    def __init__(self, policy: str) -> None:
        self._by_priority = policy == "priority"
        self._queue: deque[Request] = deque()
        self._heap: list[tuple[int, float, str, int, Request]] = []

    def __len__(self) -> int:
        return len(self._heap) if self._by_priority else len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter([entry[-1] for entry in sorted(self._heap)] if self._by_priority else self._queue)

    def add(self, request: Request, *, front: bool = False) -> None:
        if self._by_priority:
            heapq.heappush(self._heap, (request.priority, request.arrival, request.id, request.order, request))
        elif front:
            self._queue.appendleft(request)
        else:
            self._queue.append(request)

    def peek(self) -> Request:
        return self._heap[0][-1] if self._by_priority else self._queue[0]

    def pop(self) -> Request:
        return heapq.heappop(self._heap)[-1] if self._by_priority else self._queue.popleft()

    def remove(self, request: Request) -> None:
        if self._by_priority:
            self._heap = [entry for entry in self._heap if entry[-1] is not request]
            heapq.heapify(self._heap)
        else:
            self._queue.remove(request)
