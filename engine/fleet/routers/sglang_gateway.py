"""SGLang's gateway, policy `cache_aware`: by match while load is even, by load where it is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.blind_routers import in_flight
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter, least_at, prompt_blocks

PoorMatch = Literal["least-loaded", "smallest-tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangSettings:
    """Settings and defaults of `sglang_router.launch_server` and of the gateway's own command line; `LIBRARY` has the library's."""

    share: float = 0.3
    """`cache_threshold`: a match of no more than this share of the prompt is poor."""
    apart: int = 64
    """`balance_abs_threshold`: load is uneven if the most loaded has more than so many requests more than the least loaded,"""
    times: float = 1.5
    """`balance_rel_threshold`: and more than so many times as many."""
    poor: PoorMatch = "least-loaded"
    """Target of a poor match: the least loaded since December 2025, before that the replica with the fewest prompts sent."""

    def router(self, seed: int) -> FleetRouter:
        """Return the router; no choice is random."""
        return SglangRouter(self)


LIBRARY = SglangSettings(share=0.5, apart=32, times=1.1)


class SglangRouter(RuleRouter):
    """Equal matches go to the first replica, equal loads, too."""

    def __init__(self, settings: SglangSettings) -> None:
        super().__init__("match", "poor match", "uneven load")
        self._settings = settings
        self._trees: dict[int, set[int]] = defaultdict(set)
        """Blocks of all prompts sent to each replica."""

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Choose by load if it is uneven, by match if that is good enough, else by `poor`."""
        settings = self._settings
        loads = [in_flight(replica) for replica in replicas]
        most, least = max(loads), min(loads)
        if most - least > settings.apart and most > settings.times * least:
            way, at = "uneven load", least_at(loads)
        else:
            matches = [replica.matched(request) for replica in replicas]
            at = least_at([-match for match in matches])
            if matches[at] > settings.share * prompt_blocks(request, replicas[at].block_size):
                way = "match"
            else:
                way = "poor match"
                at = least_at(loads) if settings.poor == "least-loaded" else self._smallest_tree(replicas)
        self.ways[way] += 1
        chosen = replicas[at].number
        if settings.poor == "smallest-tree":
            self._trees[chosen].update(request.blocks[: prompt_blocks(request, replicas[at].block_size)])
        return chosen

    def _smallest_tree(self, replicas: Sequence[ReplicaView]) -> int:
        return least_at([len(self._trees[replica.number]) for replica in replicas])


_RULE = (
    "if load is uneven (max - min > apart, and max > times x min): the least loaded; else the best match if it exceeds share "
    "of the prompt. Otherwise poor decides"
)
_SOURCES = (
    "sgl-project/sglang sgl-model-gateway/src/policies/cache_aware.rs, mod.rs",
    "sgl-project/sglang#14650 (a poor match goes to the least loaded)",
)
_LEFT_OUT = "counts matches in blocks of tokens, not characters; its tree never evicts here"
SGLANG = RouterKind(
    "sglang",
    _RULE,
    "sgl-model-gateway 0.3.2, defaults of its launcher",
    (*_SOURCES, "sgl-model-gateway/bindings/python/src/sglang_router/router_args.py"),
    "routed",
    SglangSettings(),
    own_way="match",
    left_out=_LEFT_OUT,
)
SGLANG_LIBRARY = RouterKind(
    "sglang-library",
    _RULE,
    "sgl-model-gateway 0.3.2, defaults of its library",
    _SOURCES,
    "routed",
    LIBRARY,
    own_way="match",
    usual=False,
    left_out=_LEFT_OUT,
)
