"""The geometry of a Llama model, under the names of Hugging Face's config.json."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
        ):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise EngineError(
                f"{self.num_attention_heads} attention heads cannot share {self.num_key_value_heads} K/V heads evenly"
            )
        if self.head_dim % 2:
            raise EngineError(f"head_dim must be even for rotary embeddings, not {self.head_dim}")

    @classmethod
    def tiny(cls, vocab_size: int) -> ModelConfig:
        """The embedded default: small enough for a laptop's CPU, with the structure of the real ones."""
        return cls(
            vocab_size=vocab_size,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=32,
            tie_word_embeddings=True,
        )
