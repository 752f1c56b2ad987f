"""Changes of how a workload is run, for losses that no text explains: all P0, as no token of any prompt changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.mark_plan import MarkPlace, MarkPlan, PlacedMark
from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.codes.run.kv301 import KV301
from kvtool.diagnose.codes.run.kv303 import KV303
from kvtool.diagnose.codes.run.kv304 import KV304
from kvtool.diagnose.codes.run.kv305 import KV305
from kvtool.diagnose.codes.run.kv321 import KV321
from kvtool.diagnose.codes.run.kv322 import KV322
from kvtool.diagnose.codes.run.kv323 import KV323
from kvtool.diagnose.codes.run.kv324 import KV324
from kvtool.diagnose.codes.run.kv326 import KV326
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.run_findings import code_of
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.fixes.fix import Fix
from kvtool.text.terminal.numbers import size

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider
    from kvtool.accounting.plan import Plan
    from kvtool.accounting.served_cache import ServedCache
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.results.choices import Routing

_APART = 512
"""Tokens between boundaries that are tried where not all are kept."""
_EXPERIMENTAL = "vLLM calls it experimental for models without attention: compare answers"
_MORE_ROOM = "kept boundaries take blocks: a small cache then evicts prefixes sooner"
_FULL_WINDOWS = "windows then keep all tokens: more memory per token, fewer blocks"
_COARSE = "a bf16 state is less precise than float32: compare answers"
_MORE_GPUS = "each replica needs more GPUs"
_WIDER = "a bf16 KV cache takes twice the memory of fp8"
_FP8 = "fp8_e4m3"
_TIERS = (300.0, 3600.0, 24 * 3600.0)
"""Times to live that servers and providers offer, in seconds."""
_DOUBLE = "double-capacity"
DOUBLE_CAPACITY = f"run:{_DOUBLE}"
"""The key of the fix of the cache's size."""
_LOSSY = "an fp8 KV cache changes the logits slightly: compare with `kvtool profile --kv-cache-dtype fp8 --audit`"


def run_fixes(groups: Iterable[GroupTotals], plan: Plan, *, keyed: bool = True) -> list[Fix]:
    """Return what may win back the tokens that groups lost to the run; each is for the whole workload, and can be tried.

    `keyed`: whether requests name sessions or tenants by which they could be routed.
    """
    groups = list(groups)
    lost = {
        fate
        for group in groups
        for fate, tokens in group.fates.items()
        if tokens >= THRESHOLDS.warning_share * group.prompt_tokens and tokens
    }
    fixes: list[Fix] = []
    choice = None if plan.cache is None else plan.cache.engine
    together = not plan.one_at_a_time if choice is None else choice.together > 1
    if lost & {*KV303.wins} and together and not plan.first_alone:
        what = "send one request of each group first, and the others after its answer"
        fixes.append(_fix("one-first", KV303.code, what, lambda plan: replace(plan, first_alone=1)))
    if choice is not None:
        return [*fixes, *_settings(choice, groups)]
    if lost & {*KV301.wins}:
        fixes += _capacity(plan)
    if plan.cache is not None:
        fixes += _rules(plan.cache, lost, keyed=keyed)
    if plan.served is not None:
        fixes += group_fixes(lost, plan)
    return fixes


def _fix(key: str, code: str, what: str, change: Callable[[Plan], Plan], *warnings: str) -> Fix:
    return Fix(f"run:{key}", code, "P0", None, what, warnings=warnings, plan=change)


def _with_blocks(plan: Plan, blocks: int) -> Plan:
    return replace(plan, engine=replace(plan.engine, num_blocks=blocks + 1))  # vLLM's null block is one of them


def _capacity(plan: Plan) -> Iterator[Fix]:
    if plan.engine.num_blocks is None:
        return
    blocks = plan.engine.num_blocks - 1
    memory = "" if plan.bytes_per_block is None else f" ({size(2 * blocks * plan.bytes_per_block)})"
    what = f"double the cache: {2 * blocks:,} blocks{memory}"
    yield _fix(_DOUBLE, KV301.code, what, lambda plan: _with_blocks(plan, 2 * blocks))
    if find_kv_dtype(plan.kv_cache_dtype).quantized:
        return
    if plan.served is not None and plan.served.plan is not None:
        return  # of several groups, another type changes the blocks themselves
    room = plan.blocks_in_type(_FP8)
    what = f"use an fp8 KV cache: {room:,} blocks in the memory of {blocks:,}"
    yield _fix("fp8", KV301.code, what, lambda plan: replace(_with_blocks(plan, room), kv_cache_dtype=_FP8), _LOSSY)


def _rules(rules: CacheRules, lost: set[str], *, keyed: bool) -> Iterator[Fix]:
    if lost & {*KV304.wins}:
        routings: tuple[tuple[Routing, str], ...] = (
            ("sticky", "send each session (or tenant) to one replica"),
            ("prefix-aware", "send each request to the replica that caches most of its prefix"),
        )
        for routing, what in routings:
            if routing != rules.routing and (keyed or routing != "sticky"):
                yield _fix(f"routing-{routing}", KV304.code, what, _changed(rules, routing=routing))
    if lost & {*KV305.wins} and rules.ttl is not None:
        tiers = rules.provider.tiers if rules.provider is not None else _TIERS
        longer = next((ttl for ttl in tiers if ttl > rules.ttl), None)
        if longer is not None:
            what = f"set a time to live of {longer / 60:,.0f} minutes"
            warnings = ("a longer time to live may cost more per written token",) if rules.provider else ()
            yield _fix("longer-ttl", KV305.code, what, _changed(rules, ttl=longer), *warnings)
    if "unmarked" in lost and rules.provider is not None and rules.provider.keeps == "breakpoints":
        yield from breakpoint_fixes(rules, rules.provider)


def breakpoint_fixes(rules: CacheRules, provider: Provider) -> Iterator[Fix]:
    """Yield cache breakpoints in place of those of the requests."""
    mark = "cache_control" if provider.needs_mark else "a cache breakpoint"
    lead, last = PlacedMark(MarkPlace("lead")), PlacedMark(MarkPlace("message"))
    for key, marks, where in (
        ("lead", (lead,), "the last system block"),
        ("lead-and-last", (lead, last), "the last system block and the last message"),
    ):
        yield _fix(f"marks-{key}", KV203.code, f"set {mark} on {where}", _changed(rules, marks=MarkPlan({}, marks)))


def _settings(choice: RuleChoice, groups: Sequence[GroupTotals]) -> Iterator[Fix]:
    """Yield what users of the engine can set against what its rules lost, for each code that tells of it."""
    for number, other in enumerate(choice.rules.remedies(choice.options)):
        changed = replace(choice, options=other.options)
        codes = {
            entry.code
            for group in groups
            if group.fates[other.fate] and group.fates[other.fate] >= THRESHOLDS.warning_share * group.prompt_tokens
            if (entry := code_of(other.fate, group)) is not None
        }
        for code in sorted(codes):
            warnings = (other.warning,) if other.warning else ()
            yield _fix(f"setting-{number}", code, other.what, _with_rules(changed), *warnings)


def _with_rules(choice: RuleChoice) -> Callable[[Plan], Plan]:
    """Return the plan by other options of the rules; pages of another size are another unit."""
    return lambda plan: replace(
        plan, cache=CacheRules(engine=choice), engine=replace(plan.engine, block_size=choice.unit)
    )


def _changed(rules: CacheRules, **changes: object) -> Callable[[Plan], Plan]:
    changed = replace(rules, **changes)  # type: ignore[arg-type]  # the callers name fields of it
    return lambda plan: replace(plan, cache=changed)


def group_fixes(lost: set[str], plan: Plan) -> Iterator[Fix]:
    """Yield what may win back tokens of these fates."""
    served = plan.served
    if served is None or served.plan is None:
        return
    if "caching_off" in lost and served.planned.caching_off is not None and not served.model.attention:
        what = "turn prefix caching on: --enable-prefix-caching"
        yield from _served("caching-on", KV326.code, what, served, _EXPERIMENTAL, enable_prefix_caching=True)
    for entry in (KV322, KV324):
        if lost & {*entry.wins}:
            yield from _retention(entry.code, plan, served)
    if lost & {*KV323.wins, *KV322.wins} and not plan.one_at_a_time and plan.first_alone < 2:
        what = "send two requests of each group first, one after the other, and the rest after their answers"
        code = KV323.code if lost & {*KV323.wins} else KV322.code
        yield Fix("run:warm-up-pair", code, "P0", None, what, plan=lambda plan: replace(plan, first_alone=2))
    if lost & {*KV321.wins}:
        yield from _shorter_blocks(served)
    if lost & {*KV322.wins} and not served.model.states and not served.options.disable_hybrid_kv_cache_manager:
        what = "treat windows as full attention: --disable-hybrid-kv-cache-manager"
        yield from _served("one-group", KV322.code, what, served, _FULL_WINDOWS, disable_hybrid_kv_cache_manager=True)


def _retention(code: str, plan: Plan, served: ServedCache) -> Iterator[Fix]:
    """Yield all boundaries, and some of them."""
    if plan.engine.prefix_cache_retention_interval is None:
        return
    block = served.planned.plan.scheduler_block_size
    some = block * max(round(_APART / block), 1)
    for interval, name in ((None, "none"), (some, str(some))):
        where = "everywhere" if interval is None else f"at multiples of {interval:,} tokens"
        what = f"keep boundaries {where}: --prefix-cache-retention-interval {name}"
        yield Fix(
            f"run:retention-{name}-{code}", code, "P0", None, what, warnings=(_MORE_ROOM,), plan=_interval(interval)
        )


def _interval(interval: int | None) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, engine=replace(plan.engine, prefix_cache_retention_interval=interval))


def _shorter_blocks(served: ServedCache) -> Iterator[Fix]:
    kept = find_kv_dtype(served.options.kv_cache_dtype)
    if kept.quantized:
        what = "keep the KV cache in bf16, which makes blocks shorter: --kv-cache-dtype auto"
        yield from _served("bf16", KV321.code, what, served, _WIDER, kv_cache_dtype=AUTO)
    if served.state_is_wide:
        what = "keep the state of linear attention in bf16: --mamba-ssm-cache-dtype bfloat16"
        yield from _served("bf16-state", KV321.code, what, served, _COARSE, mamba_ssm_cache_dtype="bfloat16")
    for parts in (2, 4, 8):
        ways = parts * served.options.tensor_parallel
        changed = _changed_cache(served, tensor_parallel=ways)
        if changed is not None and changed.block_size < served.block_size:
            what = f"share the model among {ways} GPUs, which makes states smaller: --tensor-parallel {ways}"
            yield from _served(f"tensor-parallel-{ways}", KV321.code, what, served, _MORE_GPUS, tensor_parallel=ways)
            break
    if served.options.prefix_match_unit is None and served.model.states:
        unit = served.base_block
        what = f"let hits end inside blocks, at multiples of {unit} tokens: --prefix-match-unit {unit}"
        yield from _served("match-unit", KV321.code, what, served, prefix_match_unit=unit)


def _changed_cache(served: ServedCache, **changes: object) -> ServedCache | None:
    """Return None where the server would not start so."""
    try:
        return served.served_with(**changes)
    except EngineError:
        return None


def _served(key: str, code: str, what: str, served: ServedCache, *warnings: str, **changes: object) -> Iterator[Fix]:
    """Yield the model served otherwise, in the memory that it has; nothing where the server would not start so."""
    changed = _changed_cache(served, **changes)
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
