"""One setting after the other on the same requests: capacity, policy, time to live, block size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.accounting.curves.capacity_curve import CapacityCurve, capacity_curve
from kvtool.accounting.curves.engine_hits import best_hits, engine_hits, final_blocks
from kvtool.accounting.curves.lifetimes import lifetime_curve
from kvtool.accounting.curves.sampled_curve import SampledCurve, sampled_curve
from kvtool.accounting.policies.eviction_policy import prefix_hits
from kvtool.accounting.policies.known_policies import POLICIES
from kvtool.config.command_line import flags
from kvtool.config.options.sweep_options import Sweeping
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.planning_pass import check_arrivals
from kvtool.results.choices import Axis, Policy, Sure
from kvtool.results.documents.what_if import MissingRow, SweepRow, WhatIfDocument
from kvtool.workload.block_trace import BlockTrace, RequestedBlocks

POINTS = 12
FEW_POINTS = 4
_FEW = 6
_TTLS = (30.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
OF_VLLM: tuple[Policy, ...] = ("lru", "opt")
"""Its one policy, and the bound."""
_TIMES = (1, 2, 4, 8, 16, 32)
"""Block sizes that are tried, as multiples of the trace's own."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Options of a sweep; empty: values that suit the trace. `sample` is the part of blocks that curves are counted with."""

    axis: Axis
    whole_prompt_may_hit: bool
    """The rule of trace studies, not of vLLM."""
    engine: EngineConfig | None = None
    """Of the engine that serves, whose own policy is run; None: a list of blocks alone."""
    policies: Sequence[Policy] = ()
    capacities: Sequence[int] = ()
    ttls: Sequence[float] = ()
    block_sizes: Sequence[int] = ()
    sample: float = 1.0

    @classmethod
    def of(cls, axis: Axis, sweeping: Sweeping, *, whole: bool) -> SweepOptions:
        """Read the options; `whole` is `whole_prompt_may_hit`. Raise KvtoolError for values that there are not."""
        return cls(
            axis,
            whole,
            policies=sweeping.found_policies(),
            capacities=sweeping.found_capacities(),
            ttls=sweeping.found_ttls(),
            block_sizes=sweeping.found_block_sizes(),
            sample=sweeping.sample,
        )

    def blocks(self, trace: BlockTrace) -> RequestedBlocks:
        """Return what the requests of a trace look up and touch by the rule."""
        return trace.of_studies() if self.whole_prompt_may_hit else trace.of_engine()


def sweep(trace: BlockTrace, asked: SweepOptions) -> list[SweepRow]:
    """Return the rows of one axis; KvtoolError for what the trace cannot tell."""
    rows = {"capacity": _capacity, "policy": _policy, "ttl": _ttl, "block-size": _block_size}
    return list(rows[asked.axis](trace, asked))


def parts(trace: BlockTrace, asked: SweepOptions) -> list[SweepOptions]:
    """Return the same sweep in parts that need nothing of each other: their rows, one after another, are its rows."""
    if asked.axis == "policy":
        return [
            replace(asked, policies=(policy,), capacities=(capacity,))
            for policy in _policies(asked)
            for capacity in _capacities(trace, asked)
        ]
    if asked.axis == "block-size":
        return [replace(asked, block_sizes=(size,)) for size in _block_sizes(trace, asked)]
    return [asked]  # one pass over the requests gives all rows


def sweep_document(
    opened: Opened, trace: BlockTrace, notes: list[str], asked: SweepOptions, rows: list[SweepRow]
) -> WhatIfDocument:
    """Return the document of one axis."""
    planned = opened.planned
    return plan_document(
        opened,
        trace,
        asked.blocks(trace),
        rows,
        notes,
        bytes_per_block=None if planned.model is None else planned.plan.bytes_per_block,
        sampled=asked.sample if asked.axis == "capacity" else 1.0,
    )


def _capacity(trace: BlockTrace, asked: SweepOptions) -> Iterator[SweepRow]:
    blocks = asked.blocks(trace)
    curve: CapacityCurve | SampledCurve
    curve = capacity_curve(blocks) if asked.sample >= 1 else sampled_curve(blocks, asked.sample)
    for capacity in asked.capacities or spread(trace.distinct):
        if isinstance(curve, CapacityCurve):
            yield _row(asked.axis, blocks, curve.at(capacity), capacity=capacity)
        else:
            rate = curve.rate(capacity)
            error = curve.error(capacity)
            hits = rate * blocks.references
            yield _row(asked.axis, blocks, hits, capacity=capacity, sure="sampled", error=error)


def _policy(trace: BlockTrace, asked: SweepOptions) -> Iterator[SweepRow]:
    blocks = asked.blocks(trace)
    requests = blocks.requests() if asked.whole_prompt_may_hit else []
    for policy in _policies(asked):
        for capacity in _capacities(trace, asked):
            if policy == "opt":
                best = best_hits(trace, blocks, capacity).blocks
                yield _row(asked.axis, blocks, best, policy=policy, capacity=capacity, sure="bound")
            elif asked.engine is not None:
                hits = _in_pool(trace, asked.engine, capacity)
                yield _row(asked.axis, blocks, hits, policy=policy, capacity=capacity)
            else:
                hits = prefix_hits(POLICIES[policy](capacity), requests)
                yield _row(asked.axis, blocks, hits, policy=policy, capacity=capacity)


def _in_pool(trace: BlockTrace, engine: EngineConfig, capacity: int) -> int:
    """Count blocks that vLLM's own pool of this size hits. KvtoolError where it would never run a request."""
    least = int(final_blocks(trace, engine).max(initial=1))
    if capacity < least:
        raise KvtoolError(
            f"{capacity:,} blocks are too few for the longest request, which needs {least:,}",
            hint=" ".join(flags(capacities=f"{least},{4 * least}")),
        )
    return engine_hits(trace, replace(engine, num_blocks=capacity + 1)).blocks  # vLLM's null block is one of them


def _policies(asked: SweepOptions) -> Sequence[Policy]:
    known = OF_VLLM if asked.engine is not None else (*POLICIES, "opt")
    for name in asked.policies:
        if name not in known:
            raise KvtoolError(
                "vLLM has only LRU"
                if asked.engine is not None
                else f"{name} is a policy of SGLang, not of --rules block-lru",
                hint="compare six policies with --rules block-lru" if name in POLICIES else "use --rules sglang",
            )
    return asked.policies or known


def _capacities(trace: BlockTrace, asked: SweepOptions) -> Sequence[int]:
    if asked.capacities or asked.engine is None:
        return asked.capacities or spread(trace.distinct, FEW_POINTS)
    least = int(final_blocks(trace, asked.engine).max(initial=1))
    return sorted({max(capacity, least) for capacity in spread(trace.distinct, FEW_POINTS)})


def _block_sizes(trace: BlockTrace, asked: SweepOptions) -> Sequence[int]:
    return asked.block_sizes or [times * trace.block_size for times in _TIMES]


def _ttl(trace: BlockTrace, asked: SweepOptions) -> Iterator[SweepRow]:
    check_arrivals(trace, "a time to live")
    blocks = asked.blocks(trace)
    curve = lifetime_curve(blocks, trace.arrivals)
    for ttl in asked.ttls or _TTLS:
        yield _row(asked.axis, blocks, curve.at(ttl), ttl_seconds=ttl)


def _block_size(trace: BlockTrace, asked: SweepOptions) -> Iterator[SweepRow]:
    for size in _block_sizes(trace, asked):
        if size % trace.block_size:
            raise KvtoolError(
                f"blocks of {size} tokens do not fit blocks of {trace.block_size}",
                hint=f"multiples of {trace.block_size}" + ("" if trace.traced else ", or a smaller --block-size"),
            )
        coarse = trace.coarser(size // trace.block_size)
        blocks = asked.blocks(coarse)
        curve = capacity_curve(blocks)
        for capacity in asked.capacities or (None,):
            tokens = None if capacity is None else capacity * trace.block_size // size
            hits = curve.unlimited if tokens is None else curve.at(tokens)
            share = min(hits * size / max(int(coarse.prompt_tokens.sum()), 1), 1.0)
            yield _row(asked.axis, blocks, hits, block_size=size, capacity=tokens, rate=share)


def _row(
    axis: Axis,
    blocks: RequestedBlocks,
    hits: float,
    *,
    sure: Sure = "exact",
    policy: Policy | None = None,
    capacity: int | None = None,
    block_size: int | None = None,
    ttl_seconds: float | None = None,
    error: float | None = None,
    rate: float | None = None,
) -> SweepRow:
    """Return a row; `rate` is given where it is not that of the blocks."""
    references = blocks.references
    share = min(hits / references, 1.0) if references else 0.0
    return SweepRow(
        axis=axis,
        policy=policy,
        capacity=capacity,
        block_size=block_size,
        ttl_seconds=ttl_seconds,
        hit_blocks=round(hits, 1),
        references=references,
        hit_rate=share if rate is None else rate,
        error=error,
        sure=sure,
    )


def spread(distinct: int, points: int = POINTS) -> list[int]:
    """Return capacities up to one that holds all, each twice the one before (four times, where there are few points)."""
    times = 2 if points > _FEW else 4
    return sorted({max(distinct // times**step, 1) for step in range(points)})


def plan_document(
    opened: Opened,
    trace: BlockTrace,
    blocks: RequestedBlocks,
    rows: list[SweepRow],
    notes: list[str],
    *,
    bytes_per_block: int | None,
    sampled: float = 1.0,
    answer: Sequence[str] = (),
    missing: Sequence[MissingRow] = (),
) -> WhatIfDocument:
    """Return the plan of the table, or of one axis; `blocks` are those that the trace's requests look up."""
    plan, references, reachable = opened.planned.plan, blocks.references, blocks.reachable
    return WhatIfDocument(
        schema="kvtool.what-if/1",
        input=opened.name,
        rules=plan.rules,
        block_size=trace.block_size,
        requests=len(trace),
        references=references,
        distinct_blocks=trace.distinct,
        reachable_blocks=reachable,
        reachable_hit_rate=reachable / references if references else 0.0,
        capacity=None if plan.engine.num_blocks is None else plan.engine.num_blocks - 1,
        bytes_per_block=bytes_per_block,
        sampled=sampled,
        notes=notes,
        answer=list(answer),
        rows=rows,
        missing=list(missing),
    )
