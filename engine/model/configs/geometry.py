"""The shape of a model: enough to count its parameters, its FLOPs and the bytes of its KV cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.engine.model.configs.model_config import ModelConfig

if TYPE_CHECKING:
    from kvtool.engine.model.configs.weight_count import WeightCount


@dataclass(frozen=True, slots=True)
class Geometry:
    """A decoder with grouped-query attention and a gated MLP (Llama, Mistral, Qwen)."""

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    vector_parameters: int = 0
    """Norms and biases of the whole model."""
    max_position_embeddings: int | None = None
    """Tokens of the longest sequence that the model was made for."""
    counted: WeightCount | None = None
    """The counted weights of a model whose layers differ or contain experts."""

    @classmethod
    def of(cls, config: ModelConfig) -> Geometry:
        q_size, kv_size = (
            heads * config.head_dim for heads in (config.num_attention_heads, config.num_key_value_heads)
        )
        layer_vectors = (
            2 * config.hidden_size
            + config.qk_norm * 2 * config.head_dim
            + config.qkv_bias * (q_size + 2 * kv_size)
            + config.output_bias * config.hidden_size
            + config.mlp_bias * (2 * config.intermediate_size + config.hidden_size)
        )
        return cls(
            name=config.name,
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            intermediate_size=config.intermediate_size,
            vocab_size=config.vocab_size,
            tied_embeddings=config.tie_word_embeddings,
            vector_parameters=config.num_hidden_layers * layer_vectors + config.hidden_size,
            max_position_embeddings=config.max_position_embeddings,
        )

    @property
    def layer_parameters(self) -> int:
        """Weights of the matrices of one layer; of layers that differ the average that a token meets."""
        if self.counted is not None:
            return self.counted.active // self.num_layers
        attention = self.hidden_size * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return attention + 3 * self.hidden_size * self.intermediate_size

    @property
    def parameters(self) -> int:
        """All weights, embeddings included; those that input and output share are counted once."""
        if self.counted is not None:
            return self.counted.total
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.num_layers * self.layer_parameters + embeddings + self.vector_parameters

    def kv_bytes_per_token(self, dtype_bytes: int = 2) -> int:
        """Return keys and values of one token in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype_bytes
