"""The data that a router may know of a replica when a request arrives, and the router's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kvtool.engine.fleet.fleet_request import FleetRequest

RouterView = Literal["events", "routed"]
"""The view of a router: caches as replicas report them, or only its own requests."""


class ReplicaView(Protocol):
    """One replica at an arrival, before it gets the request."""

    number: int
    block_size: int
    num_blocks: int | None
    """Usable blocks of its cache; None: unlimited."""

    @property
    def waiting(self) -> int:
        """Requests that were sent to it and have not begun."""
        ...

    @property
    def running(self) -> int: ...

    @property
    def pending_tokens(self) -> int:
        """Prompt tokens that are still to be computed for the requests that it has."""
        ...

    @property
    def used_blocks(self) -> int:
        """Blocks of running requests."""
        ...

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that it computed so far."""
        ...

    @property
    def last_arrival(self) -> float | None:
        """Arrival of its latest request."""
        ...

    def matched(self, request: FleetRequest) -> int:
        """Return the leading blocks of the request that it caches, as far as the router knows; at most `request.asked`."""
        ...

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        """Return the blocks after those in its host memory and on its disk."""
        ...

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        """Return the latency model's time of that prompt alone."""
        ...

    def queue_seconds(self) -> float:
        """Return the latency model's time of the pending prompt tokens."""
        ...


class FleetRouter(Protocol):
    """Choose a replica for each request, in order of arrival."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the number of the replica."""
        ...

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """Record that a request sent to `replica` got its first token after `ttft` seconds."""
        ...

    def finished(self, request: FleetRequest, replica: int, now: float) -> None: ...
