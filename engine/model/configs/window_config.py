"""Read from config.json which layers attend only to a window."""

from __future__ import annotations

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject

FULL, SLIDING = "full_attention", "sliding_attention"
_MOST_LAYERS = 1 << 16
"""Bound against broken files: the list of windows has an entry for each layer."""
Windows = tuple[int | None, ...]


def read_windows(config: JsonObject, family: str) -> Windows:
    """Return each layer's window, or None; empty where no layer has one, as in Llama, for which keys of windows are ignored."""
    match family:
        case "mistral":
            window = None if config.is_null("sliding_window") else config.integer("sliding_window")
            kinds = [SLIDING] * _layers(config)
        case "qwen2" | "qwen3":
            given = config.flag_or("use_sliding_window", False) and not config.is_null("sliding_window")
            window = config.integer("sliding_window") if given else None
            first = config.integer_or("max_window_layers", 28)
            kinds = _kinds(config)
            if not kinds and given:
                kinds = [SLIDING if layer >= first else FULL for layer in range(_layers(config))]
            if SLIDING in kinds and not given:
                raise EngineError("`layer_types` has sliding_attention, but `use_sliding_window` does not turn it on")
        case "gemma2" | "gemma3_text" | "gpt_oss":
            window = None if config.is_null("sliding_window") else config.integer("sliding_window")
            pattern = config.integer_or("sliding_window_pattern", 6) if family == "gemma3_text" else 2
            if pattern < 1:
                raise EngineError(f"`sliding_window_pattern` must be at least 1, not {pattern}")
            kinds = _kinds(config) or [
                FULL if (layer + 1) % pattern == 0 else SLIDING for layer in range(_layers(config))
            ]
        case _:
            return ()
    windows = tuple(window if kind == SLIDING else None for kind in kinds)
    return windows if any(window is not None for window in windows) else ()


def _kinds(config: JsonObject) -> list[str]:
    """Return `layer_types`: one for each layer, or nothing."""
    kinds = config.texts("layer_types")
    layers = config.integer("num_hidden_layers")
    if kinds and len(kinds) != layers:
        raise EngineError(f"`layer_types` has {len(kinds)} entries for {layers} layers (`num_hidden_layers`)")
    for kind in kinds:
        if kind not in (FULL, SLIDING):
            raise EngineError(
                f"`layer_types` has {kind[:40]!a}: kvtool plans and accounts for such layers, but cannot compute them",
                hint=f"forward passes support {FULL} and {SLIDING}",
            )
    return kinds


def _layers(config: JsonObject) -> int:
    """Return the number of layers, bounded so that a broken file makes no huge list."""
    layers = config.integer("num_hidden_layers")
    if layers > _MOST_LAYERS:
        raise EngineError(f"`num_hidden_layers` {layers} is more than any model has")
    return layers
