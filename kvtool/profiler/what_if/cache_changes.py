"""Changes of one server's cache: its size, its blocks, who leaves it, and what else the memory of the accelerators could hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kvtool.accounting.plan import Plan
from kvtool.accounting.policies.known_policies import POLICIES
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.planned_change import Flags, PlannedChange, fitting, holding_all, with_blocks
from kvtool.results.documents.what_if import MissingRow
from kvtool.text.terminal.numbers import size
from kvtool.workload.block_trace import BlockTrace

_FP8 = "fp8_e4m3"
_BLOCK_SIZES = (16, 32, 64, 128, 256, 512)
_MOST_BLOCKS = 10_000_000
NO_MODEL = "The log names no single known model. Set --model NAME or config.json"
UNLIMITED = "unlimited cache", "use an unlimited cache"
"""The name of the row without a limit, and what to do."""
NO_CAPACITY = "The cache size is unknown. Set --gpu-memory 80GiB or --capacity"
POLICY_NAMES = {
    "lru": "LRU",
    "fifo": "FIFO",
    "lfu": "LFU",
    "opt": "OPT",
}

Replanned = Callable[..., Plan]
"""The plan with other options of the engine; KvtoolError or EngineError where it cannot be."""
NO_CLOCK: Flags = dict.fromkeys(("replicas", "routing", "router_view", "slo", "speedup"))
"""Sweeps without a clock do not take its options."""


@dataclass(slots=True)
class CacheChanges:
    """Finds the changes; `missing` has those that cannot be had, with why."""

    today: PlannedChange
    fine: BlockTrace
    """The same requests in blocks of which those of today are multiples."""
    replanned: Replanned
    memory_said: bool
    """Whether today's capacity is what the model leaves of a memory that was said."""
    missing: list[MissingRow] = field(default_factory=list)

    def found(self) -> Iterator[PlannedChange]:
        """Yield all of them, each to be counted."""
        yield from self._caching()
        yield from self._capacities()
        yield from self._block_sizes()
        yield from self._policies()
        yield from self._dtype()
        yield from self._parallel()

    def _lack(self, change: str, why: str) -> None:
        self.missing.append(MissingRow(change=change, why=why))

    def _caching(self) -> Iterator[PlannedChange]:
        plan = self.today.plan
        if plan.engine.enable_prefix_caching:
            return
        on = replace(plan, engine=replace(plan.engine, enable_prefix_caching=True))
        yield replace(
            self.today,
            kind="prefix-caching",
            name="prefix caching on",
            does="turn prefix caching on",
            plan=on,
            flags={"enable_prefix_caching": True},
        )

    def _capacities(self) -> Iterator[PlannedChange]:
        today, blocks = self.today, self.today.capacity
        if blocks is None:
            self._lack("cache x 2", NO_CAPACITY)
            return
        everything = holding_all(today.trace)
        enough = blocks >= everything
        if enough:
            self._lack(
                "a larger cache",
                f"Today's {blocks:,} blocks are enough for all prompts and answers ({everything:,} blocks)",
            )
        for larger, name, does in () if enough else larger_caches(today.plan, blocks):
            yield replace(
                today,
                kind="capacity",
                name=name,
                does=does,
                plan=with_blocks(today.plan, larger),
                flags=capacity_flags(larger),
                more_hardware=True,
            )
        yield replace(
            today,
            kind="capacity",
            name=UNLIMITED[0],
            does=UNLIMITED[1],
            plan=with_blocks(today.plan, None),
            flags=capacity_flags(everything) if everything <= _MOST_BLOCKS else None,
            sure="bound",
            more_hardware=True,
        )

    def _block_sizes(self) -> Iterator[PlannedChange]:
        today = self.today
        own = today.trace.block_size
        if today.plan.traced:
            self._lack("block size", f"A trace of block ids has fixed blocks of {own} tokens")
            return
        best: PlannedChange | None = None
        for size_ in _BLOCK_SIZES:
            if size_ == own or size_ % self.fine.block_size:
                continue
            room = None if today.capacity is None else max(today.capacity * own // size_, 1)
            tried = replace(
                today,
                kind="block-size",
                name=f"blocks of {size_}",
                does=f"cut the cache into blocks of {size_} tokens instead of {own}, in the same memory",
                trace=self.fine.coarser(size_ // self.fine.block_size),
                plan=with_blocks(today.plan, room, size_),
                flags={"block_size": size_, **(capacity_flags(room) if room is not None else {})},
            )
            if _all_fit(tried) and tried.hits.computed < (best or today).hits.computed:
                best = tried
        if best is not None:
            yield best

    def _policies(self) -> Iterator[PlannedChange]:
        today = self.today
        if today.capacity is None:
            return
        swept: Flags = {"sweep": "policy", "rules": today.plan.rules}
        replicas = today.replicas or 1
        together = today.capacity * replicas
        others: Flags = {**capacity_flags(None), **NO_CLOCK}
        if not today.plan.by_trace_study:
            self._lack("policy", "vLLM has only LRU. For other servers, --rules block-lru compares six")
        else:
            tried = [replace(today, kind="policy", policy=name) for name in POLICIES if name != today.policy]
            best = min(tried, key=lambda each: each.hits.computed)
            if best.hits.computed < today.hits.computed:
                yield replace(
                    best,
                    name=f"policy {POLICY_NAMES[best.policy]}",
                    does=f"evict by {POLICY_NAMES[best.policy]}, the best of {len(POLICIES)} policies",
                    flags={**swept, "policies": best.policy, **others, "capacities": today.capacity},
                )
        yield replace(
            today,
            kind="policy",
            policy="opt",
            name="policy OPT",
            does="knows the future: no policy hits more in "
            + (
                "a cache of this size"
                if replicas == 1
                else f"one cache of {together:,} blocks, as large as those of all {replicas}"
            ),
            plan=with_blocks(today.plan, together),
            flags={**swept, "policies": "opt", **others, "capacities": together},
            sure="bound",
        )

    def _dtype(self) -> Iterator[PlannedChange]:
        today, plan = self.today, self.today.plan
        name = "KV cache in fp8"
        if today.capacity is None:
            self._lack(name, NO_CAPACITY)
            return
        if find_kv_dtype(plan.kv_cache_dtype).quantized:
            return
        try:
            changed = self.replanned(kv_cache_dtype=_FP8)
        except (KvtoolError, EngineError) as error:
            self._lack(name, error.message)
            return
        flags: Flags = {"kv_cache_dtype": _FP8}
        if self.memory_said:
            blocks = (changed.engine.num_blocks or 1) - 1
        else:
            blocks = plan.blocks_in_type(_FP8)
            flags = {**flags, **capacity_flags(blocks)}
        yield replace(
            today,
            kind="kv-cache-dtype",
            name=name,
            does=f"store the KV cache in fp8: {blocks:,} blocks instead of {today.capacity:,}; "
            "kvtool profile --audit checks the outputs",
            plan=with_blocks(changed, blocks),
            flags=flags,
        )

    def _parallel(self) -> Iterator[PlannedChange]:
        today = self.today
        ways = 2 * today.accelerators
        name = f"tensor parallel {ways}"
        if not self.memory_said:
            self._lack(name, "Needs --gpu-memory")
            return
        try:
            changed = self.replanned(tensor_parallel=ways)
        except (KvtoolError, EngineError) as error:
            self._lack(name, error.message)
            return
        blocks = (changed.engine.num_blocks or 1) - 1
        yield replace(
            today,
            kind="tensor-parallel",
            name=name,
            does=f"share each model among {ways} accelerators, twice as many in all: {blocks:,} blocks instead of "
            f"{today.capacity:,}",
            plan=changed,
            flags={"tensor_parallel": ways},
            more_hardware=True,
        )


def _all_fit(change: PlannedChange) -> bool:
    """Return whether the longest request still has room where blocks are of another size."""
    return bool(fitting(change.trace, change.plan).all())


def larger_caches(plan: Plan, blocks: int) -> Iterator[tuple[int, str, str]]:
    """Yield larger sizes in blocks, each with its name and with what to do."""
    block = plan.bytes_per_block
    for times in (2, 4):
        more = "" if block is None else f", {size((times - 1) * blocks * block)} more"
        yield times * blocks, f"cache x {times}", f"raise the cache from {blocks:,} to {times * blocks:,} blocks{more}"


def capacity_flags(blocks: int | None) -> Flags:
    """Return the capacity said in blocks, and in no other way; None: not at all."""
    return {**dict.fromkeys(("gpu_memory", "gpu_memory_utilization", "num_gpu_blocks")), "capacity": blocks}
