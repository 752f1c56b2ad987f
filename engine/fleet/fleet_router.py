"""Protocols of a router and of the replicas that it sees when a request arrives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kvtool.engine.fleet.fleet_request import FleetRequest

RouterView = Literal["events", "routed"]
"""Whether routers hear what replicas store and evict, or know only what they sent them."""

REFUSED = -1
"""What a router answers that turns a request away."""


class ReplicaView(Protocol):
    """One replica at an arrival, before the request is given to it."""

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
        """Blocks that running requests hold."""
        ...

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that it computed so far."""
        ...

    @property
    def last_arrival(self) -> float | None:
        """When it got its latest request."""
        ...

    def matched(self, request: FleetRequest) -> int:
        """Leading blocks of the request that it holds, as far as the router knows; at most `request.asked`."""
        ...

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        """Blocks after those that its host memory and its disk hold."""
        ...

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        """What the latency model says of that prompt alone."""
        ...

    def queue_seconds(self) -> float:
        """What the latency model says of the prompt tokens that are pending."""
        ...


class FleetRouter(Protocol):
    """Chooses a replica for each request, in order of arrival."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return the number of the replica, or REFUSED."""
        ...

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """A request that was sent to `replica` got its first token after `ttft` seconds."""
        ...

    def finished(self, request: FleetRequest, replica: int, now: float) -> None: ...
