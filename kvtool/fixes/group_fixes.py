"""Settings of a vLLM server that win back what the KV cache groups of a model lose; each can be tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.diagnose.codes.run.kv321 import KV321
from kvtool.diagnose.codes.run.kv322 import KV322
from kvtool.diagnose.codes.run.kv323 import KV323
from kvtool.diagnose.codes.run.kv324 import KV324
from kvtool.diagnose.codes.run.kv326 import KV326
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.fixes.fix import Fix

if TYPE_CHECKING:
    from kvtool.accounting.plan import Plan
    from kvtool.accounting.served_cache import ServedCache

_APART = 512
"""Tokens between boundaries that are tried where not all are kept."""
_EXPERIMENTAL = "vLLM calls it experimental for models without attention: compare answers"
_MORE_ROOM = "boundaries that are kept take blocks: prefixes are evicted sooner where the cache is small"
_FULL_WINDOWS = "windows then keep all tokens: more memory for a token, fewer blocks"
_COARSE = "a state in bf16 is coarser than in float32: compare answers"
_MORE_GPUS = "it takes more accelerators for each replica"
_WIDER = "keys and values in bf16 take twice the room of fp8"


def group_fixes(lost: set[str], plan: Plan) -> Iterator[Fix]:
    """What may win back tokens of these fates."""
    served = plan.served
    if served is None or served.plan is None:
        return
    if "caching_off" in lost and served.planned.caching_off is not None and not served.model.attention:
        what = "switch prefix caching on: --enable-prefix-caching"
        yield from _served("caching-on", KV326.code, what, served, _EXPERIMENTAL, enable_prefix_caching=True)
    for entry in (KV322, KV324):
        if lost & {*entry.wins}:
            yield from _retention(entry.code, plan, served)
    if lost & {*KV323.wins, *KV322.wins} and not plan.one_at_a_time and plan.first_alone < 2:
        what = "send two requests of each group first, one after the other, and the rest when they are answered"
        code = KV323.code if lost & {*KV323.wins} else KV322.code
        yield Fix("run:warm-up-pair", code, "P0", None, what, plan=lambda plan: replace(plan, first_alone=2))
    if lost & {*KV321.wins}:
        yield from _shorter_blocks(served)
    if lost & {*KV322.wins} and not served.model.states and not served.options.disable_hybrid_kv_cache_manager:
        what = "keep windows as if they were full attention: --disable-hybrid-kv-cache-manager"
        yield from _served("one-group", KV322.code, what, served, _FULL_WINDOWS, disable_hybrid_kv_cache_manager=True)


def _retention(code: str, plan: Plan, served: ServedCache) -> Iterator[Fix]:
    """All boundaries, and some of them."""
    if plan.engine.prefix_cache_retention_interval is None:
        return
    block = served.planned.plan.scheduler_block_size
    some = block * max(round(_APART / block), 1)
    for interval, name in ((None, "none"), (some, str(some))):
        where = "wherever they can be" if interval is None else f"at multiples of {interval:,} tokens"
        what = f"keep boundaries {where}: --prefix-cache-retention-interval {name}"
        yield Fix(
            f"run:retention-{name}-{code}", code, "P0", None, what, warnings=(_MORE_ROOM,), plan=_interval(interval)
        )


def _interval(interval: int | None) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, engine=replace(plan.engine, prefix_cache_retention_interval=interval))


def _shorter_blocks(served: ServedCache) -> Iterator[Fix]:
    kept = find_kv_dtype(served.options.kv_cache_dtype)
    if kept.quantized:
        what = "keep keys and values in bf16, so that fewer of them fill a state's page: --kv-cache-dtype auto"
        yield from _served("bf16", KV321.code, what, served, _WIDER, kv_cache_dtype=AUTO)
    if served.state_is_wide:
        what = "keep the state of linear attention in bf16: --mamba-ssm-cache-dtype bfloat16"
        yield from _served("bf16-state", KV321.code, what, served, _COARSE, mamba_ssm_cache_dtype="bfloat16")
    for parts in (2, 4, 8):
        ways = parts * served.options.tensor_parallel
        changed = _changed(served, tensor_parallel=ways)
        if changed is not None and changed.block_size < served.block_size:
            what = f"share the model among {ways} accelerators, whose states are smaller: --tensor-parallel {ways}"
            yield from _served(f"tensor-parallel-{ways}", KV321.code, what, served, _MORE_GPUS, tensor_parallel=ways)
            break
    if served.options.prefix_match_unit is None and served.model.states:
        unit = served.base_block
        what = f"let hits end inside of blocks, on multiples of {unit} tokens: --prefix-match-unit {unit}"
        yield from _served("match-unit", KV321.code, what, served, prefix_match_unit=unit)


def _changed(served: ServedCache, **changes: object) -> ServedCache | None:
    """None where the server would not start so."""
    try:
        return served.served_with(**changes)
    except EngineError:
        return None


def _served(key: str, code: str, what: str, served: ServedCache, *warnings: str, **changes: object) -> Iterator[Fix]:
    """The model served otherwise, in the memory that it has; nothing where the server would not start so."""
    changed = _changed(served, **changes)
    if changed is None:
        return

    def planned(plan: Plan) -> Plan:
        blocks = plan.engine.num_blocks
        if blocks is not None:
            blocks = max(blocks * served.bytes_per_block // changed.bytes_per_block, 2)
        engine = replace(
            plan.engine,
            plan=changed.plan,
            block_size=changed.block_size,
            num_blocks=blocks,
            enable_prefix_caching=changed.planned.caching,
        )
        return replace(
            plan, engine=engine, served=changed, kv_cache_dtype=find_kv_dtype(changed.options.kv_cache_dtype).name
        )

    yield Fix(f"run:{key}", code, "P0", None, what, warnings=warnings, plan=planned)
