"""Events that a replica reports to its router."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvtool.engine.fleet.fleet_request import FleetRequest


class Happening(NamedTuple):
    """A request got its first token, or its last one."""

    moment: float
    what: Literal["first token", "finished"]
    request: FleetRequest
    replica: int
