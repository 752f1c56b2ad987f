"""Findings of a model's KV cache groups: long blocks, boundaries that are not kept, missing states, drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.served_cache import ServedCache
from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.codes.run.kv321 import KV321
from kvtool.diagnose.codes.run.kv322 import KV322
from kvtool.diagnose.codes.run.kv323 import KV323
from kvtool.diagnose.codes.run.kv324 import KV324
from kvtool.diagnose.codes.run.kv325 import KV325
from kvtool.diagnose.codes.run.kv326 import KV326
from kvtool.diagnose.codes.run.kv327 import KV327
from kvtool.diagnose.findings import fate_finding
from kvtool.engine.config import EngineConfig
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import plural

_FAR_BELOW = 0.8
"""Of blocks times their size, a capacity in tokens that is worth telling."""


def group_findings(
    groups: Iterable[GroupTotals], served: ServedCache, engine: EngineConfig, *, path: str
) -> list[Finding]:
    """Return the findings of each group of requests; none is about a line of text."""
    groups = list(groups)
    if not engine.enable_prefix_caching:
        return _caching_off(groups, served, path)
    if served.plan is None:
        return []
    found = [
        finding
        for group in groups
        for entry, told in _TOLD
        if (
            finding := fate_finding(
                entry,
                sum(group.fates[fate] for fate in entry.wins),
                group,
                told(group, served, engine),
                path=path,
            )
        )
    ]
    return found + _capacity(groups, served, engine, path)


def _long_block(group: GroupTotals, served: ServedCache, engine: EngineConfig) -> tuple[str, str]:
    del engine
    block, shared = served.planned.plan.hit_alignment, group.common_prefix()
    why = ""
    if served.planned.state_bytes:
        why = " (the size of one linear-attention state)"
    over, missing = shared % block, -shared % block
    if (
        sum(group.fates[fate] for fate in KV321.wins) > over * group.requests
    ):  # what some share weighs more than what all share
        message = f"shared prefixes end inside blocks of {block:,} tokens{why}"
        return message, "make blocks shorter, or let hits end inside a block"
    if shared < block:
        message = f"the shared prefix of {shared:,} tokens is shorter than a block of {block:,}{why}"
    else:
        message = f"the shared prefix of {shared:,} tokens ends {over:,} tokens into a block of {block:,}{why}"
    fix = f"move {plural(missing, 'more token')} of shared text to the front to fill the block"
    return message, fix


def _not_kept(group: GroupTotals, served: ServedCache, engine: EngineConfig) -> tuple[str, str]:
    del group
    message = (
        f"{served.model.name} keeps no boundary where prompts diverge, so only the third request hits "
        f"(prefix_cache_retention_interval {engine.prefix_cache_retention_interval})"
    )
    return message, "keep more boundaries, or send two requests of each prefix before the others"


def _no_state(group: GroupTotals, served: ServedCache, engine: EngineConfig) -> tuple[str, str]:
    del group, engine
    if not served.model.attention:  # nothing then tells where prompts part
        message = f"{served.model.name} keeps a state only at the end of a prompt, not where prompts diverge"
        return message, "send prompts that continue an earlier prompt, like chat turns"
    message = (
        f"linear attention of {served.model.name} has no state where prompts diverge, so only the third request hits"
    )
    return message, "send two requests of each prefix before the others"


def _answers(group: GroupTotals, served: ServedCache, engine: EngineConfig) -> tuple[str, str]:
    del group
    message = (
        f"each turn computes the last answer again, because {served.model.name} keeps no boundary in answers "
        f"(prefix_cache_retention_interval {engine.prefix_cache_retention_interval})"
    )
    return message, "keep more boundaries"


def _drafts(group: GroupTotals, served: ServedCache, engine: EngineConfig) -> tuple[str, str]:
    del group, engine
    plan = served.planned.plan
    how = "its hash covers the next token" if plan.num_hash_lookahead else "vLLM drops it for the draft layers"
    return (
        f"the last block of a prefix misses: {how} (speculative_config)",
        "no setting fixes this and keeps the drafts",
    )


_TOLD: tuple[tuple[CodeEntry, Callable[[GroupTotals, ServedCache, EngineConfig], tuple[str, str]]], ...] = (
    (KV321, _long_block),
    (KV322, _not_kept),
    (KV323, _no_state),
    (KV324, _answers),
    (KV325, _drafts),
)


def _caching_off(groups: list[GroupTotals], served: ServedCache, path: str) -> list[Finding]:
    """Return the finding for a model whose prefix caching is off, whatever the flags say."""
    why = served.planned.caching_off
    if why is None or not groups:
        return []
    message = f"vLLM caches no prefixes of {served.model.name}: {why}"
    fix = "choose another model, or turn it on at your own risk where vLLM allows it: --enable-prefix-caching"
    found = []
    for group in groups:
        lost = group.fates["caching_off"]
        points = lost / group.prompt_tokens if group.prompt_tokens else 0.0
        found.append(Finding.of(KV326.code, "error", group.name, path, 0, 0, message, lost, fix, points=points))
    return found


def _capacity(groups: list[GroupTotals], served: ServedCache, engine: EngineConfig, path: str) -> list[Finding]:
    """Return the finding of the capacity, once for a run, where the cache was full."""
    if engine.num_blocks is None or not any(group.fates["evicted"] for group in groups):
        return []
    size = max(group.block_size for group in served.planned.plan.groups)
    expected, holds = engine.num_blocks * size, served.tokens_of_blocks(engine.num_blocks)
    if holds >= _FAR_BELOW * expected:
        return []
    count = len(served.planned.plan.groups)
    message = (
        f"{engine.num_blocks:,} blocks of {size:,} tokens keep about {holds:,} tokens of long requests, not {expected:,}: "
        f"each request of {served.model.name} takes blocks in {count} groups"
    )
    fix = f"plan with the tokens that kvtool size {served.model.name} prints"
    return [Finding.of(KV327.code, "info", groups[0].name, path, 0, 0, message, 0, fix)]
