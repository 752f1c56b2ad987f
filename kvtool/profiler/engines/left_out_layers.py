"""Layers of a model that the rules of other engines leave out."""

from __future__ import annotations

from kvtool.engine.model.configs.served_model import ServedModel


def left_out_of(served: ServedModel, *, windows: bool) -> str | None:
    """Return what of the model's layers rules do not follow, in words; `windows` where they follow these. None where they follow
    all.
    """
    kinds = []
    if served.states:
        kinds.append("linear attention")
    if any(layer.chunk is not None for layer in served.attention):
        kinds.append("chunked attention")
    if not windows and any(layer.window is not None for layer in served.attention):
        kinds.append("sliding windows")
    return f"{served.name} has {' and '.join(kinds)}" if kinds else None
