"""A model as a server sees it: data that its layers keep, maximum length of a request, size of its weights."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape, LayerShape, StateShape, attention


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """`layers` lists every layer that keeps data, in order; layers that read another layer's keys and values are left out.

    `caching_off` is the reason why vLLM does not cache the model's prefixes by default. `one_group` is set where vLLM plans
    windows and chunks as full attention.
    """

    geometry: Geometry
    layers: tuple[LayerShape, ...]
    dtype: str = "bf16"
    mtp_layers: int = 0
    """Layers that predict further tokens, if the server enables them."""
    caching_off: str | None = None
    one_group: str | None = None
    """The reason for one group, or empty."""
    sparse: bool = False
    """True if an index chooses the tokens of attention."""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.layers and self.caching_off is None:
            raise EngineError(f"{self.name} has no layer with a cache")

    @property
    def name(self) -> str:
        """Name of the preset or of the folder."""
        return self.geometry.name

    @property
    def max_model_len(self) -> int | None:
        """Tokens of the longest sequence that the model was made for."""
        return self.geometry.max_position_embeddings

    @property
    def states(self) -> list[StateShape]:
        """Return the layers that keep a state."""
        return [layer for layer in self.layers if isinstance(layer, StateShape)]

    @property
    def attention(self) -> list[AttentionLayerShape]:
        """Return the layers that keep data for every token."""
        return [layer for layer in self.layers if isinstance(layer, AttentionLayerShape)]

    @property
    def hybrid(self) -> bool:
        """Return whether the model has both attention and states."""
        return bool(self.states) and bool(self.attention)

    @property
    def latent(self) -> bool:
        """Return whether attention is MLA."""
        return any(layer.kind == "mla" for layer in self.attention)


def plain_model(geometry: Geometry, source: str = "") -> ServedModel:
    """Return a model whose layers are all the same full attention."""
    layer = attention(geometry.num_kv_heads, geometry.head_dim)
    return ServedModel(geometry=geometry, layers=(layer,) * geometry.num_layers, source=source)
