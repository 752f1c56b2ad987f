"""What the rules of other engines read from a model, and what of it they leave out."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.engine.kv_dtype import KVDtype
from kvtool.engine.model.find_served import find_served
from kvtool.engine.model.geometry import Geometry
from kvtool.engine.model.layer_shapes import AttentionLayerShape
from kvtool.engine.prediction.sizing import block_bytes


def model_facts(model: str | None, geometry: Geometry, kv_dtype: KVDtype) -> Mapping[str, int]:
    """Layers, window and bytes of a token's KV, by the names of the rules' options; windows of two sizes are left out."""
    plain = {"kv_bytes_per_token": block_bytes(geometry, 1, kv_dtype.name), "kv_layers": geometry.num_layers}
    layers = [] if model is None else find_served(model).attention
    near = [layer for layer in layers if layer.window is not None]
    wide = [layer for layer in layers if layer.window is None]
    windows = {layer.window for layer in near}
    if len(windows) != 1 or not wide:
        return plain
    (window,) = windows
    return {
        "sliding_window": window or 0,
        "kv_layers": len(wide),
        "window_layers": len(near),
        "kv_bytes_per_token": _token_bytes(wide, kv_dtype),
        "window_bytes_per_token": _token_bytes(near, kv_dtype),
    }


def _token_bytes(layers: list[AttentionLayerShape], kv_dtype: KVDtype) -> int:
    found = (layer.layer(1, kv_dtype, 1).unpadded_page_bytes for layer in layers)
    return max(sum(found), 1)


def left_out_of(model: str | None, *, windows: bool) -> str | None:
    """What of the model's layers rules do not follow, in words; `windows` where they follow these. None where they follow all."""
    if model is None:
        return None
    served = find_served(model)
    kinds = []
    if served.states:
        kinds.append("linear attention")
    if any(layer.chunk is not None for layer in served.attention):
        kinds.append("chunked attention")
    if not windows and any(layer.window is not None for layer in served.attention):
        kinds.append("sliding windows")
    return f"{served.name} has {' and '.join(kinds)}" if kinds else None
