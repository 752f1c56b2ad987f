"""The plan of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.engine.config import DEFAULT_DECODE_BATCH, DecodeMode, EngineConfig
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import block_bytes
from kvtool.results.choices import Rules

if TYPE_CHECKING:
    from kvtool.accounting.served_cache import ServedCache


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run: every option that affects the numbers."""

    engine: EngineConfig
    latency: LatencyModel
    rules: Rules = "vllm"
    concurrency: int | None = None
    use_arrivals: bool = False
    seed: int = 0
    limit: int | None = None
    kv_cache_dtype: str = AUTO
    skip_refused: bool = False
    """True if a request whose messages the chat template refuses is left out and counted, not an error."""
    decode_attention: DecodeMode = "auto"
    decode_batch: int = DEFAULT_DECODE_BATCH
    """Number of conversations that would decode together, for a run of requests one at a time."""
    first_alone: int = 0
    """Requests of each group and tenant that are answered, one by one, before the others, where they would run together."""
    cache: CacheRules | None = None
    """Replicas, a time to live or a provider's rules: whole requests are then accounted for, one at a time, and no engine runs."""
    traced: bool = False
    """True if the workload begins with a trace of block hashes: blocks then have numbers that take little room."""
    served: ServedCache | None = None
    """The KV cache of the model that was named, as its server plans it."""

    @property
    def by_vllm(self) -> bool:
        """Return whether requests are read and looked up as vLLM does it."""
        return self.by_engine and (self.cache is None or not (self.cache.hosted or self.cache.engine is not None))

    @property
    def by_engine(self) -> bool:
        """Return whether the embedded engine decides which requests fit, and how its options apply."""
        return self.rules == "vllm"

    @property
    def by_trace_study(self) -> bool:
        """Return whether the rules are those of trace studies: an LRU list of blocks, without answers."""
        return self.rules == "block-lru"

    @property
    def by_radix_tree(self) -> bool:
        """Whether the rules are SGLang's."""
        return self.rules == "sglang"

    @property
    def hosted(self) -> bool:
        """Return whether the cache is a provider's."""
        return self.cache is not None and self.cache.hosted

    @property
    def bytes_per_block(self) -> int:
        """Bytes for the whole model; with tensor parallelism every accelerator stores its part."""
        if self.served is not None:
            return self.served.bytes_per_block
        return block_bytes(self.latency.geometry, self.engine.block_size, self.kv_cache_dtype)

    @property
    def measured_engine(self) -> EngineConfig:
        """The engine of real runs here, which has one group of layers."""
        if self.engine.plan is None:
            return self.engine
        interval = EngineConfig.prefix_cache_retention_interval
        return replace(self.engine, plan=None, block_size=self.base_block, prefix_cache_retention_interval=interval)

    @property
    def token_bytes(self) -> float:
        """Keys and values of a token in all layers; states aside."""
        if self.served is not None:
            return self.served.token_bytes
        return self.bytes_per_block / self.engine.block_size

    @property
    def base_block(self) -> int:
        """Tokens of a block of attention alone, in which the ledger counts: states make those of the engine longer."""
        return self.engine.block_size if self.served is None else self.served.base_block

    @property
    def one_at_a_time(self) -> bool:
        return self.cache is not None or (self.concurrency is None and not self.use_arrivals)
