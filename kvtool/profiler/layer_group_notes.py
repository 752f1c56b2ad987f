"""Describe the KV cache of a model with several groups of layers, for the head of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.text.terminal.numbers import in_words, plural

if TYPE_CHECKING:
    from kvtool.accounting.served_cache import ServedCache
    from kvtool.engine.groups.kv_group import CachePlan, KVGroup

_KINDS = {
    "full": "full attention",
    "mla": "MLA",
    "sliding": "a window of {window:,} tokens",
    "chunked": "chunks of {chunk:,} tokens",
    "mamba": "linear attention",
}


def group_notes(served: ServedCache, retention: int | None) -> list[str]:
    """Return the groups, their blocks and why these are so long, and where boundaries are kept."""
    plan = served.planned.plan
    counts: dict[str, int] = {}
    for group in plan.groups:
        kind = _kind(group)
        counts[kind] = counts.get(kind, 0) + 1
    groups = ", ".join(f"{count} of {kind}" for kind, count in counts.items())
    notes = [
        f"{served.model.name}: {plural(len(plan.groups), 'KV cache group')} ({groups}), blocks of {_sizes(served)}"
    ]
    if served.planned.block_reason is not None:
        notes.append(f"blocks: {served.planned.block_reason}")
    if any(group.kind in ("sliding", "mamba") for group in plan.groups):
        kept = "everywhere" if retention is None else "only at the end of prompts"
        if retention:
            kept = f"at multiples of {retention:,} tokens"
        said = "none" if retention is None else retention
        notes.append(f"{_kept_data(plan)} are kept {kept}: prefix_cache_retention_interval {said}")
    if plan.num_spec_tokens:
        notes.append(f"{plan.num_spec_tokens} draft tokens per step, all rejected")
    return notes


def single_group_notes(served: ServedCache) -> list[str]:
    """Explain why a model with windows or chunks has one group."""
    why = served.planned.one_group
    return [] if served.plan is not None or why is None else [f"{served.model.name}: one KV cache group, because {why}"]


def plain_note(served: ServedCache, what: str) -> str:
    """Explain that `what` does not follow a model's groups, and uses one group with full attention."""
    groups = plural(len(served.planned.plan.groups), "KV cache group")
    return f"{served.model.name} has {groups}; {what} with one full-attention group, so real hits may be fewer"


def _kept_data(plan: CachePlan) -> str:
    kinds = {group.kind for group in plan.groups}
    if kinds >= {"sliding", "mamba"}:
        return "windows and states"
    return "states of linear attention" if "mamba" in kinds else "windows"


def _kind(group: KVGroup) -> str:
    return _KINDS[group.kind].format(window=group.window or 0, chunk=group.chunk or 0)


def _sizes(served: ServedCache) -> str:
    sizes = sorted({group.block_size for group in served.planned.plan.groups})
    return f"{in_words(f'{size:,}' for size in sizes)} tokens"


def described_groups(served: ServedCache | None, retention: int | None) -> dict[str, str | int | float | bool | None]:
    """Return the same for machines; empty where a model has one group with full attention."""
    if served is None or (served.plan is None and not served.options.disable_hybrid_kv_cache_manager):
        return {}
    drafts, plan = served.options.speculation, served.planned.plan
    several = ", ".join(f"{group.kind} {group.block_size}" for group in plan.groups)
    return {
        "kv_cache_groups": None if served.plan is None else several,
        "hit_alignment": plan.hit_alignment,
        "prefix_cache_retention_interval": retention,
        "prefix_match_unit": served.options.prefix_match_unit,
        "disable_hybrid_kv_cache_manager": served.options.disable_hybrid_kv_cache_manager,
        "mamba_ssm_cache_dtype": served.options.mamba_ssm_cache_dtype,
        "speculative_method": None if drafts is None else drafts.method,
        "num_speculative_tokens": None if drafts is None else drafts.tokens,
    }
