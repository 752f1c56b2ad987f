"""The smallest fleet that meets an objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.prediction.latency import LatencyModel, PrefillTimes

MOST_REPLICAS = 64
"""Default of the largest fleet that is tried; bounds the time of the search."""


@dataclass(frozen=True, slots=True)
class FleetSearch:
    """The fleets that were tried. `replicas` is None if none of them meets the objective."""

    replicas: int | None
    shares: dict[int, float]
    """Share of requests within the objective by number of replicas; for an abandoned run, an upper bound."""
    most: int
    """The largest fleet that may be tried; 0: none was, as no fleet can meet the objective."""
    attainable: float = 1.0
    """The share that meets it where each request runs alone and hits all that came before."""

    @property
    def best(self) -> float:
        """Return the share of the largest fleet that was tried."""
        return self.shares[max(self.shares)] if self.shares else 0.0

    def gpus(self, each: int) -> int | None:
        """Accelerators of the fleet, with so many of each replica; None: none that was tried meets the objective."""
        return None if self.replicas is None else self.replicas * each


def smallest_fleet(
    share_of: Callable[[int], float], share: float, *, most: int = MOST_REPLICAS, attainable: float = 1.0
) -> FleetSearch:
    """Try 1, 2, 4, … replicas until `share` is met, then all counts between the last two of these, from below.

    With routers that follow prefixes a larger fleet may do worse than a smaller one, so the last interval is not halved.
    """
    shares: dict[int, float] = {}

    def meets(replicas: int) -> bool:
        shares[replicas] = share_of(replicas)
        return shares[replicas] >= share

    short, count = 0, 1
    while not meets(count):
        if count >= most:
            return FleetSearch(None, shares, most, attainable)
        short, count = count, min(2 * count, most)
    found = next((between for between in range(short + 1, count) if meets(between)), count)
    return FleetSearch(found, shares, most, attainable)


def attainable(
    requests: Sequence[FleetRequest], latency: LatencyModel, slo: Slo, block_size: int, max_num_batched_tokens: int
) -> float:
    """Return the share that meets the objective if each request runs alone and hits all earlier blocks: an upper bound of all
    fleets."""
    times = PrefillTimes(latency, max_num_batched_tokens)
    seen: set[int] = set()
    met = 0
    for request in requests:
        prompt, gaps = request.prompt_tokens, request.output_tokens - 1
        hit = _leading(request.blocks[: request.asked], seen) * block_size
        seen.update(request.blocks)
        if times.seconds(prompt, hit) <= slo.ttft:
            met += not gaps or latency.decode_run(1, prompt, [prompt]).seconds(gaps) <= slo.tpot * gaps
    return met / len(requests) if requests else 0.0


def _leading(blocks: list[int], seen: set[int]) -> int:
    return next((place for place, block in enumerate(blocks) if block not in seen), len(blocks))
