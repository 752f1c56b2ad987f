"""Recorded cases with several groups of layers: their plan and their requests."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvtool.engine.blocks.block_keys import Image, Lora
from kvtool.engine.groups.kv_group import CachePlan, KVGroup
from kvtool.engine.request import Request


def plan_of(resolved: dict[str, Any], context_parallel: int) -> CachePlan:
    """Return the plan that vLLM's planner made in a case; its groups' blocks are those of one rank."""
    groups = tuple(_group(group, context_parallel) for group in resolved["groups"])
    names = (
        "bytes_per_block", "scheduler_block_size", "hash_block_size", "hit_alignment", "max_in_flight_tokens", "num_spec_tokens",
        "num_lookahead_tokens", "num_prefill_lookahead", "num_hash_lookahead", "eagle_drop", "partial_hits",
    )  # fmt: skip
    return CachePlan(groups=groups, **{name: resolved[name] for name in names})


def _group(group: dict[str, Any], context_parallel: int) -> KVGroup:
    ranks = context_parallel if group["dcp_sharded"] else 1
    return KVGroup(
        kind=group["kind"],
        block_size=group["block_size"] * ranks,
        ranks=ranks,
        layers=group["layers"],
        page_bytes=tuple(group["page_bytes"]),
        spec_id=group["spec_id"],
        eagle=group["eagle"],
        window=group.get("window"),
        extra_retained=group.get("extra_retained", 0),
        chunk=group.get("chunk"),
        mamba_align=group.get("mode", "align") == "align",
        spec_blocks=group.get("spec_blocks", 0),
        ckpt_blocks=group.get("ckpt_blocks", 0),
        ckpt_align=group.get("ckpt_align"),
    )


def request_of(spec: dict[str, Any], arrival: float, *, accepted: list[int], place: int) -> Request:
    """Return a request of any case. `accepted` drafts are those of its verifications, from its `place` in the file on."""
    embeds = spec.get("embeds")
    tokens = np.asarray(spec["token_ids"] if not embeds else [0] * len(embeds), dtype=np.int32)
    lora = spec.get("lora")
    return Request(
        id=spec["id"],
        num_prompt_tokens=len(tokens),
        prompt_ids=tokens,
        prompt_embeds=np.asarray(embeds, dtype=np.float32)[:, None] if embeds else None,
        images=tuple(Image(item["id"], item["offset"], item["length"]) for item in spec.get("mm", ())),
        output_ids=list(spec["output_ids"]),
        cache_salt=spec.get("cache_salt"),
        lora=Lora(*lora) if lora else None,
        skip_reading_cache=spec.get("prompt_logprobs") is not None,
        priority=spec.get("priority", 0),
        arrival=arrival,
        accepted_drafts=tuple(accepted) or (0,),
        num_verified=place,
    )
