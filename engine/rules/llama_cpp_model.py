"""Derive options of llama.cpp's rules from a model's layers."""

from __future__ import annotations

from math import prod

from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import KVDtype, find_kv_dtype
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape, StateShape
from kvtool.engine.model.configs.served_model import ServedModel

_OTHER_RULES = "choose another model, or another engine's rules"
_STATE_NUMBER = 4
"""Bytes of a number of a state: llama.cpp keeps states in 32 bits."""


def llama_cpp_facts(model: ServedModel, kv_dtype: str) -> dict[str, int]:
    """Return values by the names of LlamaCppOptions: bytes and layers by kind, the window, the context.

    EngineError if the model has layers that the rules leave out; nothing is guessed then.
    """
    if any(layer.chunk is not None for layer in model.attention):
        raise EngineError(
            f"{model.name} has layers with chunked attention; these llama.cpp rules support only windows and states",
            hint=_OTHER_RULES,
        )
    windows = sorted({layer.window for layer in model.attention if layer.window is not None})
    if len(windows) > 1:
        lengths = ", ".join(f"{window:,}" for window in windows)
        raise EngineError(f"{model.name} has windows of {lengths} tokens; llama.cpp supports one", hint=_OTHER_RULES)
    if windows and model.states:
        raise EngineError(
            f"{model.name} has both windows and states; these llama.cpp rules support either", hint=_OTHER_RULES
        )
    dtype = find_kv_dtype(kv_dtype)
    full = [layer for layer in model.attention if layer.window is None]
    if not full:  # in families whose layers all have a window llama.cpp keeps everything: observed with Llama and Phi 3
        full, windows = model.attention, []
    facts = {"kv_layers": len(full), "kv_bytes_per_token": _bytes(full, dtype)}
    if windows:
        local = [layer for layer in model.attention if layer.window is not None]
        facts |= {
            "sliding_window": windows[0],
            "window_layers": len(local),
            "window_bytes_per_token": _bytes(local, dtype),
        }
    if model.states:
        facts |= {"state_layers": len(model.states), "state_bytes": sum(map(_state_bytes, model.states))}
    if model.max_model_len is not None:
        facts["ctx_size"] = model.max_model_len
    return facts


def _state_bytes(state: StateShape) -> int:
    convolution = (state.channels + 2 * state.groups * state.group_size) * (state.kernel - 1)
    return _STATE_NUMBER * (convolution + (prod(state.recurrent) if state.recurrent else 0))


def _bytes(layers: list[AttentionLayerShape], dtype: KVDtype) -> int:
    return sum(
        layer.kv_heads
        * (dtype.vector_bytes(layer.head_size) + (dtype.vector_bytes(layer.value_size) if layer.value_size else 0))
        for layer in layers
    )
