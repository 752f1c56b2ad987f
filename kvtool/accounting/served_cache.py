"""The KV cache of a model as its server plans it, and as it would with other settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.engine.blocks.make_cache import is_plain
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.model_plan import ModelPlan, ServeOptions, plan_model
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.model.configs.served_model import ServedModel

_LENGTH = 32_768
"""Default length, in tokens, of the requests by which a pool is measured."""


@dataclass(frozen=True, slots=True)
class ServedCache:
    """`model` served with `options`; `planned` follows from these."""

    model: ServedModel
    options: ServeOptions
    planned: ModelPlan

    @classmethod
    def of(cls, model: ServedModel, options: ServeOptions) -> ServedCache:
        """Create it; EngineError if the server would not start."""
        return cls(model, options, plan_model(model, options))

    def served_with(self, **changes: object) -> ServedCache:
        """Return the same model with some options changed; EngineError where the server would not start."""
        return ServedCache.of(self.model, replace(self.options, **changes))  # type: ignore[arg-type]  # fields of it

    @property
    def plan(self) -> CachePlan | None:
        """The groups; None where one with full attention is all there is."""
        plan = self.planned.plan
        return None if not plan.groups or is_plain(plan) else plan

    @property
    def block_size(self) -> int:
        """Tokens of a block as the engine counts them."""
        return self.planned.block_size if self.plan is None else self.planned.plan.hash_block_size

    @property
    def base_block(self) -> int:
        """Tokens of a block, if attention alone decided it."""
        asked = self.options.block_size
        return min(self.block_size, asked or (EngineConfig.block_size if self.model.states else self.block_size))

    @property
    def state_is_wide(self) -> bool:
        """Return whether a recurrent state takes more than two bytes a number."""
        asked = self.options.mamba_ssm_cache_dtype
        return any(
            find_kv_dtype(asked or shape.dtype, self.model.dtype).bytes > 2
            for shape in self.model.states
            if shape.recurrent
        )

    @property
    def bytes_per_block(self) -> int:
        """Bytes on all accelerators together."""
        return self.planned.plan.bytes_per_block * self.options.tensor_parallel

    def blocks_of_tokens(self, tokens: int) -> int:
        """Return the blocks, with the null block, for so many tokens in requests of full length, as vLLM logs a cache's size."""
        length = self.options.max_model_len or min(self.model.max_model_len or _LENGTH, max(tokens, 1))
        each = sum(PlannedPool(self.planned.plan, 0).blocks_per_request(length))
        return -(-tokens * each // length) + 1

    def tokens_of_blocks(self, num_blocks: int) -> int:
        """Return the reverse: tokens that requests of full length have in so many blocks."""
        length = self.options.max_model_len or self.model.max_model_len or _LENGTH
        return PlannedPool(self.planned.plan, num_blocks).tokens(length)

    @property
    def token_bytes(self) -> int:
        """Keys and values of one token in all layers, on all accelerators together; states aside."""
        return self.planned.token_bytes * self.options.tensor_parallel
