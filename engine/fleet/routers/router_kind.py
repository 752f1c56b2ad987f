"""The description of a router: its rule in a sentence, its program, and its factory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, RouterView

Ties = Literal["random", "first"]
"""Tie break: the replica that gets a request, of equals."""


class RouterSettings(Protocol):
    """A frozen dataclass with a router's parameters, which makes the router."""

    def router(self, seed: int) -> FleetRouter:
        """Return a router that has seen no request; `seed` is that of everything random in it."""
        ...


@dataclass(frozen=True, slots=True)
class RouterKind:
    """A router with a name."""

    name: str
    rule: str
    """A sentence: the replica that gets a request."""
    version: str
    """Version of the program with this rule; empty for rules of no program."""
    sources: tuple[str, ...]
    """Sources of the rule."""
    view: RouterView
    """Default view of caches of that program's routers."""
    settings: RouterSettings | None
    """Its parameters with their defaults; None for a bound, which is no router."""
    index_blocks: int | None = None
    """Remembered blocks of each replica with the view "routed"; None: all."""
    left_out: str = ""
    """Parts of that program's rule that are not modelled."""
    needs_sessions: bool = False
    """True if it needs sessions or tenants."""
    own_way: str = ""
    """Its characteristic way of choosing."""
    usual: bool = True
    """True if it is tried by default."""


class RuleRouter:
    """A router by a rule that counts its ways of choosing and ignores the outcome of requests."""

    def __init__(self, *ways: str) -> None:
        self.ways = dict.fromkeys(ways, 0)
        """Requests by the way in which they were decided; empty for rules that have one way only."""

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None:
        """Ignore the first token."""

    def finished(self, request: FleetRequest, replica: int, now: float) -> None:
        """Ignore the end."""


def prompt_blocks(request: FleetRequest, block_size: int) -> int:
    """Return blocks of a prompt, a partial last one included."""
    return max(-(-request.prompt_tokens // block_size), 1)


def least_at(costs: Sequence[float], draw: Random | None = None) -> int:
    """Return the place of the least; of equals the first, or any where `draw` is given."""
    least = min(costs)
    if draw is None:
        return costs.index(least)
    equal = [at for at, cost in enumerate(costs) if cost == least]
    return equal[0] if len(equal) == 1 else draw.choice(equal)
