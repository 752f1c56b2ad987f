"""How a workload is run."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.engine.config import DEFAULT_DECODE_BATCH, DecodeMode, EngineConfig
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import block_bytes
from kvtool.results.choices import Rules


@dataclass(frozen=True, slots=True)
class Plan:
    """How a workload is run: everything that decides the numbers."""

    engine: EngineConfig
    latency: LatencyModel
    rules: Rules = "vllm"
    concurrency: int | None = None
    use_arrivals: bool = False
    seed: int = 0
    limit: int | None = None
    kv_cache_dtype: str = AUTO
    skip_refused: bool = False
    """Whether a request whose messages the chat template refuses is left out and counted, not an error."""
    decode_attention: DecodeMode = "auto"
    decode_batch: int = DEFAULT_DECODE_BATCH
    """How many conversations would decode together, where the run has one request at a time."""
    one_first: bool = False
    """Whether one request of each group and tenant is answered before the others are sent, where they would run together."""
    cache: CacheRules | None = None
    """Replicas, a time to live or a provider's rules: whole requests are then accounted for, one at a time, and no engine runs."""
    traced: bool = False
    """Whether the workload begins with a trace of block hashes: blocks then go by numbers that take little room."""

    @property
    def bytes_per_block(self) -> int:
        """Of the whole model; with tensor parallelism every accelerator holds its part."""
        return block_bytes(self.latency.geometry, self.engine.block_size, self.kv_cache_dtype)

    @property
    def one_at_a_time(self) -> bool:
        return self.cache is not None or (self.concurrency is None and not self.use_arrivals)
