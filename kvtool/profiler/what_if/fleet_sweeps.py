"""Sweeps of what a fleet is built of: tiers below the GPU, and replicas for prefill and decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np

from kvtool.accounting.plan import Plan
from kvtool.config.command_line import flag
from kvtool.config.options.tier_options import Splitting, Tiering, amounts, single_amount
from kvtool.engine.fleet.decode_replica import DecodeReplica
from kvtool.engine.fleet.fleet_figures import FleetFigures, Slo, known_quantile
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_router import RouterView
from kvtool.engine.fleet.routers.named_router import NamedRouter
from kvtool.engine.fleet.shared_link import SharedLink
from kvtool.engine.fleet.split import SplitRun, serve_split
from kvtool.engine.fleet.tier_rules import DISK_BANDWIDTH, HOST_BANDWIDTH, TIER_RULES
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.fleet_rows import FleetPlan, made_router, named_router
from kvtool.profiler.what_if.tier_rows import TierOptions, counted_tier_rows, one_at_a_time, tier_rows
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.bounded_number import finite_number
from kvtool.text.quantities import parse_bandwidth, parse_capacity, parse_duration
from kvtool.text.terminal.numbers import duration, per_second, size
from kvtool.workload.block_trace import BlockTrace

T = TypeVar("T")

DEFAULT_ROUTER = "least-loaded"
DEFAULT_SPLIT = 4
"""Replicas of the fleet that is split where nobody says how many."""

_MOST_TIMES = 1_000_000
"""The GPU's cache, as a multiple of which a tier may be given."""


@dataclass(frozen=True, slots=True)
class FleetSweep:
    """The requests, what serves them, and what is asked of both axes. `notes` is what there is to say of the rows."""

    opened: Opened
    trace: BlockTrace
    notes: list[str]
    slo: Slo | None = None
    speedup: float = 1.0
    replicas: int | None = None
    routing: str | None = None
    view: RouterView | None = None
    """None: what each router's program knows."""

    def tiers(self, asked: Tiering) -> list[SweepRow]:
        """Return rows of `--sweep tier`; KvtoolError for what cannot be told."""
        plan, block_bytes = self._plan, self.opened.planned.block_bytes_for(f"{flag('sweep')} tier")
        tiers = _asked_tiers(asked, plan, block_bytes)
        rules = tiers.rules
        disk = "any bandwidth" if tiers.disk_bandwidth == inf else per_second(tiers.disk_bandwidth)
        below = f"; disk at {disk}" if any(tiers.disk_blocks) else ""
        self.notes.append(f"tiers as {rules.source}; not followed: {rules.left_out}{below}")
        if np.isnan(self.trace.arrivals).any():
            self.notes.append(
                "some requests have no arrival time: kvtool counts hits one request at a time, without the cost of loads"
            )
            counted = FleetPlan.of(one_at_a_time(self.trace), self.opened.planned)
            return counted_tier_rows(counted, tiers, block_bytes)
        router, replicas = self._router(), self.replicas or 1
        self.notes.append(self._clock(plan, router, replicas))
        return tier_rows(self._fleet(), tiers, block_bytes, router, replicas, plan.seed)

    def split(self, asked: Splitting, counts: Sequence[int] = ()) -> list[SweepRow]:
        """Return rows of `--sweep pd`, of a fleet of each of these sizes; KvtoolError for what cannot be told."""
        plan = self._plan
        self.opened.planned.check_known(f"{flag('sweep')} pd")
        token_bytes = plan.token_bytes
        assert token_bytes is not None, "no plan of a provider comes here"
        bandwidth = single_amount(
            flag("link_bandwidth"), asked.link_bandwidth, parse_bandwidth, plan.latency.accelerator.link
        )
        if not bandwidth:
            what = "moves nothing" if asked.link_bandwidth else "is not known"
            raise KvtoolError(
                f"the link between prefill and decode replicas {what}", hint="--link-bandwidth 50GB/s, or unlimited"
            )
        latency = single_amount(flag("link_latency"), asked.link_latency, parse_duration, 0.0)
        fleet, router = self._fleet(), self._router()
        fleets = [SplitOptions(count, bandwidth, latency) for count in counts or (DEFAULT_SPLIT,)]
        link = "unlimited" if bandwidth == inf else per_second(bandwidth)
        self.notes.append(self._clock(plan, router, max(each.replicas for each in fleets)))
        self.notes.append(
            f"{size(token_bytes)} of KV cache per token; one link between the pools: {link}"
            + (f" after {duration(latency)}" if latency else "")
        )
        return [row for each in fleets for row in split_rows(fleet, each, token_bytes, router, plan.seed)]

    @property
    def _plan(self) -> Plan:
        return self.opened.planned.plan

    def _fleet(self) -> FleetPlan:
        return FleetPlan.of(self.trace, self.opened.planned, slo=self.slo, speedup=self.speedup)

    def _router(self) -> NamedRouter:
        return named_router(self.routing or DEFAULT_ROUTER, self.view)

    @staticmethod
    def _clock(plan: Plan, router: NamedRouter, replicas: int) -> str:
        blocks = plan.engine.num_blocks
        fleet = f"{replicas} replicas with {router.name}" if replicas > 1 else "one replica"
        cache = "an unlimited cache" if blocks is None else f"{blocks - 1:,} blocks"
        each = " each" if replicas > 1 else ""
        return f"times are predicted: {plan.predicted_on}; {fleet}, {cache}{each}"


def one_of(name: str, asked: Sequence[T]) -> T | None:
    """Return the only value of an option; None where it has none. Raises KvtoolError for several."""
    if len(asked) > 1:
        raise KvtoolError(
            f"{flag(name)} takes one value in this sweep, not {len(asked)}",
            hint="use --sweep replicas or routing for several",
        )
    return asked[0] if asked else None


def _asked_tiers(asked: Tiering, plan: Plan, block_bytes: int) -> TierOptions:
    gpu = plan.engine.num_blocks

    def blocks(text: str) -> int:
        return _blocks(text, plan, block_bytes, None if gpu is None else gpu - 1)

    def sizes(name: str, text: str | None) -> list[int]:
        return [int(number) for number in amounts(flag(name), text, blocks)]

    return TierOptions(
        host_blocks=sizes("host_memory", asked.host_memory),
        disk_blocks=sizes("disk_memory", asked.disk_memory),
        host_bandwidths=amounts(flag("host_bandwidth"), asked.host_bandwidth, parse_bandwidth) or [HOST_BANDWIDTH],
        disk_bandwidth=single_amount(flag("disk_bandwidth"), asked.disk_bandwidth, parse_bandwidth, DISK_BANDWIDTH),
        latency=single_amount(flag("tier_latency"), asked.tier_latency, parse_duration, 0.0),
        takes=asked.tier_loads or "always",
        rules=TIER_RULES[asked.tier_rules or "vllm"],
    )


def _blocks(text: str, plan: Plan, block_bytes: int, gpu: int | None) -> int:
    """Return blocks of a tier: bytes, tokens, blocks, or a multiple of the GPU's."""
    word = text.strip().lower()
    if word == "0":
        return 0
    if word.endswith("x"):
        times = finite_number(word.removesuffix("x"), least=0, most=_MOST_TIMES, in_text=True)
        if times is None:
            raise ValueError(f"`{text.strip()[:40]}` is not a multiple of the GPU's cache; write it like `2x`")
        return int(times * (gpu or 0))
    capacity = parse_capacity(word)
    match capacity.unit:
        case "blocks":
            return capacity.number
        case "tokens":
            return capacity.number // plan.engine.block_size
        case "bytes":
            return capacity.number // block_bytes


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """`replicas` in all, and the link between the pools: bytes per second, and seconds before the first byte."""

    replicas: int
    bandwidth: float
    latency: float = 0.0


def split_rows(
    plan: FleetPlan, asked: SplitOptions, token_bytes: float, router: NamedRouter, seed: int
) -> Iterator[SweepRow]:
    """Yield the mixed fleet, then 1 + n-1 replicas for prefill and decode, 2 + n-2, ... KvtoolError where there is nothing to
    cut.
    """
    replicas = asked.replicas
    if replicas < 2:
        raise KvtoolError(
            f"a fleet of {replicas} cannot be split into prefill and decode", hint="--replicas 2, or more"
        )
    mixed = plan.serve_by(router, replicas, seed)
    yield plan.row("pd", mixed).model_copy(update={"computed_tokens": int(mixed.computed_tokens.sum())})
    for prefill in range(1, replicas):
        split = serve_by_two_pools(plan, asked, prefill, token_bytes, router, seed)
        update = split_fields(split, asked, prefill) | {"computed_tokens": int(split.run.computed_tokens.sum())}
        yield plan.row("pd", split.run).model_copy(update=update)


def serve_by_two_pools(
    plan: FleetPlan, asked: SplitOptions, prefill: int, token_bytes: float, router: NamedRouter, seed: int
) -> SplitRun:
    """Return the requests of a plan with so many replicas for prefill, and the rest for decode; KvtoolError for a bound."""

    def decode(number: int, ledger: FleetLedger) -> DecodeReplica:
        return DecodeReplica(number, plan.config, plan.latency, ledger)

    link = SharedLink(asked.bandwidth, asked.latency)
    return serve_split(
        plan.requests,
        plan.replica,
        decode,
        (prefill, asked.replicas - prefill),
        made_router(router, seed),
        link,
        token_bytes,
        view=router.kind.view,
        index_blocks=router.kind.index_blocks,
    )


def split_order(split: FleetFigures, mixed: FleetFigures) -> tuple[float, float, float]:
    """Return what ways to cut a fleet are sorted by: requests within the objectives, else TTFT, what has a longer TPOT than the
    mixed fleet after.
    """
    ttft, tpot = (inf if each is None else each for each in (split.ttft_p99, split.tpot_p99))
    if split.goodput is not None:
        return -split.goodput, ttft, tpot
    return float(tpot > (mixed.tpot_p99 or inf)), ttft, tpot


def split_fields(split: SplitRun, asked: SplitOptions, prefill: int) -> dict[str, object]:
    """Return what a row says of the pools and the link between them."""
    return {
        "replicas": asked.replicas,
        "prefill_replicas": prefill,
        "decode_replicas": asked.replicas - prefill,
        "bandwidth": None if asked.bandwidth == inf else asked.bandwidth,
        "transfer_p50": known_quantile(split.transfer_seconds, 0.5),
        "transfer_p99": known_quantile(split.transfer_seconds, 0.99),
        "transfer_bytes": int(split.transfer_bytes.sum()),
    }
