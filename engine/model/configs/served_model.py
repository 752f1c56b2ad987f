"""A model as a server sees it: what its layers keep, how long its requests may be, how much its weights take."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape, LayerShape, StateShape, attention


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """`layers` has what keeps anything, in order: layers that read another's keys and values are left out.

    `caching_off` says why vLLM does not cache prefixes of the model unless it is told to. `one_group` where vLLM plans windows and
    chunks as full attention by itself.
    """

    geometry: Geometry
    layers: tuple[LayerShape, ...]
    dtype: str = "bf16"
    mtp_layers: int = 0
    """Layers that predict further tokens, if the server is asked for it."""
    caching_off: str | None = None
    one_group: str | None = None
    """Why, if it is so."""
    sparse: bool = False
    """Whether an index chooses the tokens that are attended to."""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.layers and self.caching_off is None:
            raise EngineError(f"{self.name} has no layer that keeps anything")

    @property
    def name(self) -> str:
        """Of the preset, or of the folder."""
        return self.geometry.name

    @property
    def max_model_len(self) -> int | None:
        """Tokens of the longest sequence that the model was made for."""
        return self.geometry.max_position_embeddings

    @property
    def states(self) -> list[StateShape]:
        """Those of its layers that keep a state."""
        return [layer for layer in self.layers if isinstance(layer, StateShape)]

    @property
    def attention(self) -> list[AttentionLayerShape]:
        """Those of its layers that keep something for every token."""
        return [layer for layer in self.layers if isinstance(layer, AttentionLayerShape)]

    @property
    def hybrid(self) -> bool:
        """Whether it has both."""
        return bool(self.states) and bool(self.attention)

    @property
    def latent(self) -> bool:
        """Whether its attention is MLA."""
        return any(layer.kind == "mla" for layer in self.attention)


def plain_model(geometry: Geometry, source: str = "") -> ServedModel:
    """A model whose layers are all the same full attention."""
    layer = attention(geometry.num_kv_heads, geometry.head_dim)
    return ServedModel(geometry=geometry, layers=(layer,) * geometry.num_layers, source=source)
