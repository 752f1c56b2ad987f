"""The configuration of an engine; frozen, checked at creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.vllm_release import LATEST_RELEASE, find_release

HashAlgorithm = Literal["native", "sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
"""kvtool's own chain, or one that gives the hashes of a vLLM server with the same `--prefix-caching-hash-algo`."""

DecodeMode = Literal["flat", "prefix-aware", "auto"]
"""Attention's reads of shared prefixes in decode: once for each sequence, once in all, or by a model of their costs."""
UNLIMITED_LEN = 1 << 31
"""A `max_model_len` that refuses nothing."""
DEFAULT_MODEL = "llama-3.1-8b"
"""Default of predictions and sizes."""
DEFAULT_ACCELERATOR = "h100"
"""Default of predictions."""
DEFAULT_UTILIZATION = 0.92
"""vLLM's `gpu_memory_utilization`; 0.90 in versions before it counted the CUDA graphs."""
DEFAULT_DECODE_BATCH = 64
"""Conversations that would decode together, where the run has one request at a time."""


@dataclass(frozen=True)
class EngineConfig:
    """Parameters of the cache and the scheduler, named as in vLLM.

    `num_blocks` counts the null block, as vLLM does, so `num_blocks - 1` are usable; None is a pool that grows and never evicts.
    """

    block_size: int = 16
    num_blocks: int | None = None
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    max_model_len: int = UNLIMITED_LEN
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"
    hash_algo: HashAlgorithm = "native"
    hash_seed: str | None = None
    """The server's PYTHONHASHSEED, from which vLLM derives the parent of first blocks; None: not set. Native hashes ignore it."""
    async_scheduling: bool = False
    """Two batches in flight, as vLLM has it by default: a step is scheduled before the tokens of the one before are known."""
    long_prefill_token_threshold_adaptive: bool = False
    """True if the threshold is never less than an equal share of a step for each request."""
    prefill_schedule_interval: int = 1
    """While some requests decode, others are prefilled in every so many steps."""
    max_num_active_seqs: int | None = None
    """Requests beyond it are not admitted; None: `max_num_seqs`."""
    plan: CachePlan | None = None
    """Groups of layers, where a model has not one with full attention; `block_size` is then its `hash_block_size`."""
    release: str = LATEST_RELEASE
    """Release of vLLM whose rules hold."""
    prefix_cache_retention_interval: int | None = 0
    """Windows and states are kept for hits at multiples of this, besides a prompt's end; 0: not; None: at all possible places."""
    enable_mamba_shared_prefix_checkpoint: bool = False
    """True if states are kept where prompts diverge inside of a block. Only with draft layers."""

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise EngineError(f"block size must be at least 1, not {self.block_size}")
        if self.num_blocks is not None and self.num_blocks < 2:
            raise EngineError(
                f"the cache needs at least 1 usable block, not {self.num_blocks - 1}", hint="raise --capacity"
            )
        for name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.prefill_schedule_interval < 1:
            raise EngineError(f"prefill_schedule_interval must be at least 1, not {self.prefill_schedule_interval}")
        if self.max_num_active_seqs is not None and not 1 <= self.max_num_active_seqs <= self.max_num_seqs:
            raise EngineError(
                f"max_num_active_seqs must be from 1 to max_num_seqs, {self.max_num_seqs}, not {self.max_num_active_seqs}"
            )
        find_release(self.release)
        self._check_plan()
        if self.long_prefill_token_threshold < 0:
            raise EngineError(f"long_prefill_token_threshold must not be negative: {self.long_prefill_token_threshold}")
        if not 0.0 <= self.watermark < 1.0:
            raise EngineError(f"watermark must be in [0, 1), not {self.watermark}")
        if self.policy not in ("fcfs", "priority"):
            raise EngineError(f"unknown policy `{self.policy}`", hint="use fcfs or priority")
        if self.hash_algo not in get_args(HashAlgorithm):
            raise EngineError(
                f"unknown hash algorithm `{self.hash_algo}`", hint=f"use one of {', '.join(get_args(HashAlgorithm))}"
            )

    def _check_plan(self) -> None:
        plan, retention = self.plan, self.prefix_cache_retention_interval
        if retention is not None and retention < 0:
            raise EngineError(f"prefix_cache_retention_interval must not be negative: {retention}")
        if plan is None:
            return
        if self.block_size != plan.hash_block_size:
            raise EngineError(f"this plan hashes blocks of {plan.hash_block_size} tokens, not {self.block_size}")
        if self.async_scheduling and plan.num_spec_tokens:
            raise EngineError("drafts need synchronous scheduling")
        if not retention:
            return
        if not any(group.kind in ("sliding", "mamba") for group in plan.groups):
            raise EngineError(
                "prefix_cache_retention_interval needs a model with windows or states",
                hint="leave it at 0",
            )
        if retention % plan.scheduler_block_size:
            raise EngineError(
                f"prefix_cache_retention_interval is {retention}, not a multiple of {plan.scheduler_block_size} tokens",
                hint="set it to a multiple: hits end there",
            )
