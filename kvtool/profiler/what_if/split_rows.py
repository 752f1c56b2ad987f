"""Prefill and decode apart: as many replicas in all, cut in every way, beside a fleet that is not cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from kvtool.engine.fleet.decode_replica import DecodeReplica
from kvtool.engine.fleet.fleet_figures import FleetFigures, known_quantile
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.routers.asked_router import AskedRouter
from kvtool.engine.fleet.shared_link import SharedLink
from kvtool.engine.fleet.split import SplitRun, serve_split
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.fleet_rows import FleetPlan
from kvtool.profiler.what_if.named_router import made_router
from kvtool.results.documents.what_if import SweepRow


@dataclass(frozen=True, slots=True)
class AskedSplit:
    """`replicas` in all, and the link between the pools: bytes per second, and seconds before the first byte."""

    replicas: int
    bandwidth: float
    latency: float = 0.0


def split_rows(
    plan: FleetPlan, asked: AskedSplit, token_bytes: float, router: AskedRouter, seed: int
) -> Iterator[SweepRow]:
    """The mixed fleet, then 1 + n-1 replicas for prefill and decode, 2 + n-2, ... KvtoolError where there is nothing to cut."""
    replicas = asked.replicas
    if replicas < 2:
        raise KvtoolError(
            f"a fleet of {replicas} cannot be split into prefill and decode", hint="--replicas 2, or more"
        )
    mixed = plan.serve_by(router, replicas, seed)
    yield plan.row("pd", mixed).model_copy(update={"computed_tokens": int(mixed.computed_tokens.sum())})
    for prefill in range(1, replicas):
        split = served_apart(plan, asked, prefill, token_bytes, router, seed)
        update = split_fields(split, asked, prefill) | {"computed_tokens": int(split.run.computed_tokens.sum())}
        yield plan.row("pd", split.run).model_copy(update=update)


def served_apart(
    plan: FleetPlan, asked: AskedSplit, prefill: int, token_bytes: float, router: AskedRouter, seed: int
) -> SplitRun:
    """The requests of a plan with so many replicas for prefill, and the rest for decode; KvtoolError for a bound."""

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
    """What ways to cut a fleet are sorted by: requests within the objectives, else TTFT, what has a longer TPOT than the mixed
    fleet behind.
    """
    ttft, tpot = (inf if each is None else each for each in (split.ttft_p99, split.tpot_p99))
    if split.goodput is not None:
        return -split.goodput, ttft, tpot
    return float(tpot > (mixed.tpot_p99 or inf)), ttft, tpot


def split_fields(split: SplitRun, asked: AskedSplit, prefill: int) -> dict[str, object]:
    """What a row says of the pools and the link between them."""
    return {
        "replicas": asked.replicas,
        "prefill_replicas": prefill,
        "decode_replicas": asked.replicas - prefill,
        "bandwidth": None if asked.bandwidth == inf else asked.bandwidth,
        "transfer_p50": known_quantile(split.transfer_seconds, 0.5),
        "transfer_p99": known_quantile(split.transfer_seconds, 0.99),
        "transfer_bytes": int(split.transfer_bytes.sum()),
    }
