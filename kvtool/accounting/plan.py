"""The plan of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.engine.config import DEFAULT_DECODE_BATCH, DecodeMode, EngineConfig
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import block_bytes
from kvtool.results.choices import Rules

if TYPE_CHECKING:
    from kvtool.accounting.logged_models import LoggedModels
    from kvtool.accounting.served_cache import ServedCache
    from kvtool.workload.turn import Turn

ModelSource = Literal["given", "server", "log", "assumed", "unknown"]
"""Who names the model of sizes and times: the user, a server, the log, nobody (then the default); or no single known model."""


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
    leaves_hosted: bool = False
    """True if requests of hosted models are left out: the log's other models run on the server that is simulated."""
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
    model_from: ModelSource = "given"
    models: LoggedModels | None = None
    """The models that requests name, where the user names none for all."""

    def leaves_out(self, turn: Turn) -> bool:
        """Return whether a request went to a provider, not to the server that is simulated."""
        if not self.leaves_hosted or turn.hashed is not None:
            return False
        from kvtool.accounting.hosted_models import is_hosted  # only logs need it

        return is_hosted(turn.call)

    @property
    def sized(self) -> bool:
        """Return whether bytes and times are those of a known model. Of a provider's models nothing is published."""
        return self.model_from != "unknown" and not self.hosted

    @property
    def model_name(self) -> str | None:
        """Return the model of bytes and times; None where it is unknown."""
        return self.latency.geometry.name if self.sized else None

    @property
    def model_label(self) -> str:
        """Name the model of predicted times, and say where nobody named it."""
        return self.latency.geometry.name + (" (assumed)" if self.model_from == "assumed" else "")

    @property
    def predicted_on(self) -> str:
        """Name the model and the accelerator of predicted times."""
        return f"{self.model_label} on {self.latency.accelerator.name}"

    def latency_of(self, model: str | None) -> LatencyModel | None:
        """Return the times of a request that names a model, or none; None where they are unknown."""
        if self.hosted:
            return None
        if model is None or self.models is None:
            return self.latency if self.sized else None
        return self.models.latency(model, self.latency, self.kv_cache_dtype)

    def token_bytes_of(self, model: str | None) -> float | None:
        """Return keys and values of a token of a request that names a model, or none; None where they are unknown."""
        if self.hosted or model is None or self.models is None:
            return self.token_bytes
        return self.models.token_bytes(model, self.kv_cache_dtype, self.latency.tensor_parallel)

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
    def bytes_per_block(self) -> int | None:
        """Bytes for the whole model, None where it is unknown; with tensor parallelism every accelerator stores its part."""
        if not self.sized:
            return None
        if self.served is not None:
            return self.served.bytes_per_block
        return block_bytes(self.latency.geometry, self.engine.block_size, self.kv_cache_dtype)

    def blocks_in_type(self, kv_cache_dtype: str) -> int:
        """Return the blocks that the memory of a limited cache has room for in another type. It is the same for all models with the
        usual heads of 128 numbers, and exact for a known one."""
        assert self.engine.num_blocks is not None
        own, other = (
            block_bytes(self.latency.geometry, self.engine.block_size, name)
            for name in (self.kv_cache_dtype, kv_cache_dtype)
        )
        return (self.engine.num_blocks - 1) * own // other

    @property
    def measured_engine(self) -> EngineConfig:
        """The engine of real runs here, which has one group of layers."""
        if self.engine.plan is None:
            return self.engine
        interval = EngineConfig.prefix_cache_retention_interval
        return replace(self.engine, plan=None, block_size=self.base_block, prefix_cache_retention_interval=interval)

    @property
    def token_bytes(self) -> float | None:
        """Keys and values of a token in all layers, states aside; None where the model is unknown."""
        if self.served is not None:
            return self.served.token_bytes
        return None if self.bytes_per_block is None else self.bytes_per_block / self.engine.block_size

    @property
    def base_block(self) -> int:
        """Tokens of a block of attention alone, in which the ledger counts: states make those of the engine longer."""
        return self.engine.block_size if self.served is None else self.served.base_block

    @property
    def one_at_a_time(self) -> bool:
        return self.cache is not None or (self.concurrency is None and not self.use_arrivals)
