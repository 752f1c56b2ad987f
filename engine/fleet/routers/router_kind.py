"""Description of a router: its rule in words, its project, and its constructor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, RouterView

Ties = Literal["random", "first"]
"""Who of equals gets a request."""


class RouterSettings(Protocol):
    """A frozen dataclass with a router's parameters, which makes the router."""

    def router(self, seed: int) -> FleetRouter:
        """Return a router that has seen no request; `seed` is that of everything random in it."""
        ...


@dataclass(frozen=True, slots=True)
class RouterKind:
    """A router that can be asked for by name."""

    name: str
    rule: str
    """Who gets a request, in a sentence."""
    version: str
    """Of the program whose rule it is; empty: no program's own."""
    sources: tuple[str, ...]
    """Where the rule was read."""
    view: RouterView
    """What that program's routers know of caches where nothing else is said."""
    settings: RouterSettings | None
    """Its parameters as they are by default; None: no router, but a bound."""
    index_blocks: int | None = None
    """With the view "routed", blocks of each replica that are remembered; None: all."""
    left_out: str = ""
    """What of that program's rule is not followed."""
    needs_sessions: bool = False
    """Whether it is for requests of sessions, or of tenants."""
    own_way: str = ""
    """Of its ways, the one that it is for."""
    usual: bool = True
    """Whether it is tried where nobody names routers."""


class RuleRouter:
    """A router by a rule that counts which of its ways decided, and hears nothing of what becomes of requests."""

    def __init__(self, *ways: str) -> None:
        self.ways = dict.fromkeys(ways, 0)
        """Requests by the way in which they were decided; empty for rules that have one way only."""

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """Nothing is learnt from it."""

    def finished(self, request: FleetRequest, replica: int, now: float) -> None:
        """Nothing is learnt from it."""


def prompt_blocks(request: FleetRequest, block_size: int) -> int:
    """Blocks of a prompt, a partial last one included."""
    return max(-(-request.prompt_tokens // block_size), 1)


def least_at(costs: Sequence[float], draw: Random | None = None) -> int:
    """Return the place of the least; of equals the first, or any where `draw` is given."""
    least = min(costs)
    if draw is None:
        return costs.index(least)
    equal = [at for at, cost in enumerate(costs) if cost == least]
    return equal[0] if len(equal) == 1 else draw.choice(equal)
