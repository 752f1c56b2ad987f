"""The options of engines' own rules, named as in those engines; each counts where `rules` names its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config import bounds
from kvtool.config.option import Option
from kvtool.results.choices import MambaDtype, RadixEviction, SchedulePolicy


@dataclass(frozen=True, kw_only=True)
class RuleFlags:
    """What decides reuse in SGLang, llama.cpp's server and TensorRT-LLM, whose rule sets have fields of the same names; and in vLLM
    of models that have windows, linear attention or drafts."""

    prefix_cache_retention_interval: Annotated[
        str | None,
        Option(
            "Windows and states are kept at multiples of N tokens, or wherever they can be. [default: {default}]",
            "N|none",
            table="engine",
            rules="vllm",
            words="0: at the end of a prompt",
            check=bounds.interval,
        ),
    ] = None
    prefix_match_unit: Annotated[
        int | None,
        Option(
            "Hits end on multiples of N tokens, inside of long blocks, too.",
            "N",
            table="engine",
            rules="vllm",
            words="a block",
            check=bounds.at_least_one,
        ),
    ] = None
    disable_hybrid_kv_cache_manager: Annotated[
        bool | None,
        Option(
            "Keep windows as if they were full attention.",
            flag="--disable-hybrid-kv-cache-manager/--no-disable-hybrid-kv-cache-manager",
            table="engine",
            rules="vllm",
            words="as vLLM decides",
        ),
    ] = None
    mamba_ssm_cache_dtype: Annotated[
        MambaDtype | None,
        Option(
            "Of the recurrent state of linear attention: it makes the blocks. [default: {default}]",
            table="engine",
            rules="vllm",
            words="the model's",
        ),
    ] = None
    speculative_config: Annotated[
        str | None,
        Option(
            'Drafts: {{"method": "mtp", "num_speculative_tokens": 2}}.',
            "JSON",
            table="engine",
            rules="vllm",
            words="none",
        ),
    ] = None

    page_size: Annotated[
        int | None,
        Option(
            "Tokens in a page. [default: {default}]",
            "N",
            table="engine",
            rules="sglang",
            default=1,
            check=bounds.at_least_one,
        ),
    ] = None
    max_total_tokens: Annotated[
        int | None,
        Option(
            "Tokens of the KV pool; the same as --capacity. [default: {default}]",
            "N",
            table="engine",
            rules="sglang",
            words="unlimited",
            check=bounds.at_least_one,
        ),
    ] = None
    radix_eviction_policy: Annotated[
        RadixEviction | None,
        Option("Which leaf goes first. [default: {default}]", table="engine", rules="sglang", default="lru"),
    ] = None
    protected_threshold: Annotated[
        int | None,
        Option(
            "With slru: uses from which a node is kept longest. [default: {default}]",
            "N",
            table="engine",
            rules="sglang",
            default=2,
            check=bounds.at_least_one,
        ),
    ] = None
    schedule_policy: Annotated[
        SchedulePolicy | None,
        Option(
            "Who of those that wait goes first. [default: {default}]", table="engine", rules="sglang", default="fcfs"
        ),
    ] = None
    chunked_prefill_size: Annotated[
        int | None,
        Option(
            "Tokens of a prompt that are computed at once.",
            "N",
            table="engine",
            rules="sglang",
            words="all",
            check=bounds.at_least_one,
        ),
    ] = None
    max_running_requests: Annotated[
        int | None,
        Option(
            "Requests that run at a time.",
            "N",
            table="engine",
            rules="sglang",
            words="as many as fit",
            check=bounds.at_least_one,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        Option(
            "Slots, each with its part of the context. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            words="4 that share it",
            check=bounds.at_least_one,
        ),
    ] = None
    ctx_size: Annotated[
        int | None,
        Option(
            "Tokens of KV of all slots together. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            default=131_072,
            check=bounds.at_least_one,
        ),
    ] = None
    kv_unified: Annotated[
        bool | None,
        Option(
            "One pool for all slots. [default: {default}]",
            flag="--kv-unified/--no-kv-unified",
            table="engine",
            rules="llamacpp",
            words="without --parallel",
        ),
    ] = None
    cache_ram: Annotated[
        int | None,
        Option(
            "Host memory for saved prompts; 0 is none, -1 has no limit. [default: {default}]",
            "MIB",
            table="engine",
            rules="llamacpp",
            default=8192,
            check=bounds.not_below_minus_one,
        ),
    ] = None
    cache_idle_slots: Annotated[
        bool | None,
        Option(
            "A request saves all other slots. [default: {default}]",
            flag="--cache-idle-slots/--no-cache-idle-slots",
            table="engine",
            rules="llamacpp",
            default=True,
        ),
    ] = None
    slot_prompt_similarity: Annotated[
        float | None,
        Option(
            "Part of a prompt that a slot must hold to be chosen. [default: {default}]",
            "X",
            table="engine",
            rules="llamacpp",
            default=0.1,
            check=bounds.ratio,
        ),
    ] = None
    cache_reuse: Annotated[
        int | None,
        Option(
            "Shortest chunk that is moved; 0 is none. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            default=0,
            check=bounds.not_negative,
        ),
    ] = None
    swa_full: Annotated[
        bool | None,
        Option(
            "Layers with a window keep all tokens. [default: {default}]",
            flag="--swa-full/--no-swa-full",
            table="engine",
            rules="llamacpp",
            default=False,
        ),
    ] = None
    ctx_checkpoints: Annotated[
        int | None,
        Option(
            "Checkpoints of the window a slot. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            default=32,
            check=bounds.not_negative,
        ),
    ] = None
    ubatch_size: Annotated[
        int | None,
        Option(
            "Tokens computed at once. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            default=512,
            check=bounds.at_least_one,
        ),
    ] = None
    sliding_window: Annotated[
        int | None,
        Option(
            "The model's window in tokens. [default: {default}]",
            "N",
            table="engine",
            rules="llamacpp",
            words="none",
            check=bounds.at_least_one,
        ),
    ] = None
    tokens_per_block: Annotated[
        int | None,
        Option(
            "Tokens in a block, a power of two. [default: {default}]",
            "N",
            table="engine",
            rules="trtllm",
            default=32,
            check=bounds.at_least_one,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Option(
            "Tokens of the KV pool; the same as --capacity. [default: {default}]",
            "N",
            table="engine",
            rules="trtllm",
            words="unlimited",
            check=bounds.at_least_one,
        ),
    ] = None
    enable_partial_reuse: Annotated[
        bool | None,
        Option(
            "Parts of blocks are reused. [default: {default}]",
            flag="--enable-partial-reuse/--no-enable-partial-reuse",
            table="engine",
            rules="trtllm",
            default=True,
        ),
    ] = None
    copy_on_partial_reuse: Annotated[
        bool | None,
        Option(
            "Such a block is copied where others need it. [default: {default}]",
            flag="--copy-on-partial-reuse/--no-copy-on-partial-reuse",
            table="engine",
            rules="trtllm",
            default=True,
        ),
    ] = None
    retention_priority: Annotated[
        int | None,
        Option(
            "Of blocks of prompts, 0 to 100. [default: {default}]",
            "N",
            table="engine",
            rules="trtllm",
            default=35,
            check=bounds.percentage,
        ),
    ] = None
    decode_retention_priority: Annotated[
        int | None,
        Option(
            "Of blocks of answers alone. [default: {default}]",
            "N",
            table="engine",
            rules="trtllm",
            default=35,
            check=bounds.percentage,
        ),
    ] = None
