"""What the KV cache groups of a model explain: long blocks, boundaries that are not kept, states that are not there, drafts."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.codes.kv321 import KV321
from kvtool.diagnose.codes.kv322 import KV322
from kvtool.diagnose.codes.kv323 import KV323
from kvtool.diagnose.codes.kv324 import KV324
from kvtool.diagnose.codes.kv325 import KV325
from kvtool.diagnose.findings import WORTH_TELLING
from kvtool.diagnose.severity import severity_in_run
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.results.finding import Finding

_OF_FATES = (KV321, KV322, KV323, KV324, KV325)


def group_findings(groups: Iterable[GroupTotals], *, path: str, engine: EngineConfig) -> list[Finding]:
    """The findings of each group of requests; none is about a line of text."""
    plan = engine.plan
    if plan is None:
        return []
    found: list[Finding] = []
    for group in groups:
        for entry in _OF_FATES:
            tokens = sum(group.fates[fate] for fate in entry.wins)
            points = tokens / group.prompt_tokens if group.prompt_tokens else 0.0
            if points < WORTH_TELLING:
                continue
            message, fix = _told(entry.code, group, plan, engine)
            severity = severity_in_run(tokens, group.requests, group.prompt_tokens)
            found.append(
                Finding.of(
                    entry.code, severity, group.name, path, 0, 0, message, tokens, fix, points=points, tier=entry.tier
                )
            )
    return found


def _told(code: str, group: GroupTotals, plan: CachePlan, engine: EngineConfig) -> tuple[str, str]:
    """Message and fix."""
    block, shared = plan.hit_alignment, group.common_prefix()
    states = any(each.kind == "mamba" for each in plan.groups)
    interval = engine.prefix_cache_retention_interval
    if code == KV321.code:
        why = " (a state of linear attention fills the page of so many tokens)" if states else ""
        if shared < block:
            message = f"the shared prefix of {shared:,} tokens is shorter than this model's block of {block:,}{why}"
        elif shared % block:
            message = (
                f"the shared prefix of {shared:,} tokens ends {shared % block:,} tokens into a block of {block:,}{why}"
            )
        else:
            message = f"shared prefixes end inside this model's blocks of {block:,} tokens{why}"
        return message, f"put more of what requests share at the front, up to a multiple of {block:,} tokens"
    if code == KV322.code:
        message = (
            "another request computed this prefix, and no boundary was kept where it ends: the third request of a prefix is "
            f"the first to hit (prefix_cache_retention_interval {interval})"
        )
        return message, "keep more boundaries: --prefix-cache-retention-interval; or send two requests of a prefix first"
    if code == KV323.code:
        message = (
            "linear attention has no state where this prefix ends: one is kept where a prompt ends, and where a second request "
            "found that prompts part"
        )
        return message, "send two requests of each shared prefix before the others"
    if code == KV324.code:
        message = (
            "turns hit up to the last prompt of their session and compute its answer again: windows and states of answers are "
            f"not kept (prefix_cache_retention_interval {interval})"
        )
        return message, "keep more boundaries: --prefix-cache-retention-interval"
    message = "the last block of a prefix does not hit: what drafts need of it depends on the token behind it"
    return message, "none that keeps the drafts; without --speculative-config it would hit"
