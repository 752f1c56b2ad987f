"""The options of engines' cache rules, with the names that the engines use; each needs the `rules` of its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config import bounds
from kvtool.config.option import Option
from kvtool.results.choices import MambaDtype, RadixEviction, SchedulePolicy, StateStrategy


@dataclass(frozen=True, kw_only=True)
class RuleFlags:
    """What decides reuse in SGLang, llama.cpp's server and TensorRT-LLM, whose rule sets have fields of the same names; and in vLLM
    of models that have windows, linear attention or drafts."""

    prefix_cache_retention_interval: Annotated[
        str | None,
        Option(
            "Interval in tokens at which windows and states are kept; none: wherever possible.",
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
            "Granularity of hits in tokens, also inside long blocks.",
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
            "Data type of the state of linear attention; it sets the block size.",
            table="engine",
            rules="vllm",
            words="the model's",
        ),
    ] = None
    speculative_config: Annotated[
        str | None,
        Option(
            'Drafts, as vLLM takes them: {"method": "mtp", "num_speculative_tokens": 2}.',
            "JSON",
            table="engine",
            rules="vllm",
            words="none",
        ),
    ] = None

    page_size: Annotated[
        int | None,
        Option(
            "Tokens per page.",
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
            "Size of the KV pool in tokens; the same as --capacity.",
            "N",
            table="engine",
            rules="sglang",
            words="unlimited",
            check=bounds.at_least_one,
        ),
    ] = None
    radix_eviction_policy: Annotated[
        RadixEviction | None,
        Option("Eviction order of the leaves of the radix tree.", table="engine", rules="sglang", default="lru"),
    ] = None
    mamba_radix_cache_strategy: Annotated[
        StateStrategy | None,
        Option(
            "States kept for the next requests.",
            table="engine",
            rules="sglang",
            words="extra_buffer, if the model has any",
        ),
    ] = None
    protected_threshold: Annotated[
        int | None,
        Option(
            "Uses of a node that protect it, with slru.",
            "N",
            table="engine",
            rules="sglang",
            default=2,
            check=bounds.at_least_one,
        ),
    ] = None
    schedule_policy: Annotated[
        SchedulePolicy | None,
        Option("Order of the waiting queue.", table="engine", rules="sglang", default="fcfs"),
    ] = None
    chunked_prefill_size: Annotated[
        int | None,
        Option(
            "Prompt tokens per prefill chunk.",
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
            "Most requests that run at once.",
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
            "Server slots; each gets its part of the context.",
            "N",
            table="engine",
            rules="llamacpp",
            check=bounds.at_least_one,
            words="4 that share it",
        ),
    ] = None
    ctx_size: Annotated[
        int | None,
        Option(
            "Size of the context: KV tokens of all server slots together.",
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
            "Share one KV pool among all server slots.",
            flag="--kv-unified/--no-kv-unified",
            table="engine",
            rules="llamacpp",
            words="on without --parallel",
        ),
    ] = None
    cache_ram: Annotated[
        int | None,
        Option(
            "Host memory for saved prompts, in MiB; 0: none, -1: no limit.",
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
            "Save all other server slots at each request.",
            flag="--cache-idle-slots/--no-cache-idle-slots",
            table="engine",
            rules="llamacpp",
            default=True,
        ),
    ] = None
    slot_prompt_similarity: Annotated[
        float | None,
        Option(
            "Share of a prompt that a server slot must contain to be chosen.",
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
            "Shortest chunk that is moved to another position, in tokens; 0: off.",
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
            "Keep all tokens in sliding-window layers.",
            flag="--swa-full/--no-swa-full",
            table="engine",
            rules="llamacpp",
            default=False,
        ),
    ] = None
    ctx_checkpoints: Annotated[
        int | None,
        Option(
            "Checkpoints of the sliding window per server slot.",
            "N",
            table="engine",
            rules="llamacpp",
            default=32,
            check=bounds.not_negative,
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Option(
            "Tokens of a prompt submitted at once.",
            "N",
            table="engine",
            rules="llamacpp",
            default=2048,
            check=bounds.at_least_one,
        ),
    ] = None
    ubatch_size: Annotated[
        int | None,
        Option(
            "Tokens computed at once.",
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
            "Sliding window of the model, in tokens.",
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
            "Tokens per KV block, a power of two.",
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
            "Size of the KV pool in tokens; the same as --capacity.",
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
            "Reuse parts of blocks.",
            flag="--enable-partial-reuse/--no-enable-partial-reuse",
            table="engine",
            rules="trtllm",
            default=True,
        ),
    ] = None
    copy_on_partial_reuse: Annotated[
        bool | None,
        Option(
            "Copy a partly reused block that other requests need.",
            flag="--copy-on-partial-reuse/--no-copy-on-partial-reuse",
            table="engine",
            rules="trtllm",
            default=True,
        ),
    ] = None
    retention_priority: Annotated[
        int | None,
        Option(
            "Retention priority of prompt blocks, 0 to 100.",
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
            "Retention priority of answer blocks, 0 to 100.",
            "N",
            table="engine",
            rules="trtllm",
            default=35,
            check=bounds.percentage,
        ),
    ] = None
