"""The shapes of models that users serve: enough to count their parameters, their FLOPs and the bytes of their KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.errors import EngineError


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
    source: str
    """Repository whose config.json has these figures."""

    @property
    def layer_parameters(self) -> int:
        """Weights of the matrices of one layer (norms and biases left out: under 0.1 %)."""
        attention = self.hidden_size * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)
        return attention + 3 * self.hidden_size * self.intermediate_size

    @property
    def parameters(self) -> int:
        """All weights, embeddings included."""
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.num_layers * self.layer_parameters + embeddings

    def kv_bytes_per_token(self, dtype_bytes: int = 2) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype_bytes


GEOMETRIES = {
    geometry.name: geometry
    for geometry in (
        Geometry("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, True, "meta-llama/Llama-3.2-1B"),
        Geometry("llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, True, "meta-llama/Llama-3.2-3B"),
        Geometry("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, False, "meta-llama/Llama-3.1-8B"),
        Geometry("llama-3.3-70b", 80, 8192, 64, 8, 128, 28672, 128256, False, "meta-llama/Llama-3.3-70B-Instruct"),
        Geometry("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768, False, "mistralai/Mistral-7B-v0.3"),
        Geometry("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, False, "Qwen/Qwen2.5-7B"),
        Geometry("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, False, "Qwen/Qwen3-8B"),
    )
}
DEFAULT_GEOMETRY = "llama-3.1-8b"


def find_geometry(name: str) -> Geometry:
    """A preset by its name, or by the HF id of its repository or of an instruction-tuned sibling, case ignored."""
    wanted = name.rsplit("/", 1)[-1].lower()
    for ending in ("-instruct", "-chat", "-it", "-hf"):
        wanted = wanted.removesuffix(ending)
    for geometry in GEOMETRIES.values():
        source = geometry.source.rsplit("/", 1)[-1].lower().removesuffix("-instruct")
        if wanted in (geometry.name, source):
            return geometry
    raise EngineError(f"unknown model `{name}`", hint=f"one of {', '.join(GEOMETRIES)}")
