"""The layers of a server's model, as far as the server shows them: which model it is, and signs of several KV cache groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import get_args

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.planner import DraftMethod
from kvtool.engine.model.configs.find_served import find_preset
from kvtool.engine.model.configs.presets import config_file
from kvtool.measure.servers.metrics.exposition import Exposition
from kvtool.measure.servers.server_values import number_at, text_at, truth_at, value_at
from kvtool.results.choices import MambaDtype
from kvtool.text.bounded_number import whole_number

_UNITS = ("hash_block_size", "cache_hit_alignment_tokens", "prefix_match_unit", "effective_attention_block_size")
_DRAFT_FIELDS = ("method", "num_speculative_tokens", "disable_lookahead_block_hashes", "disable_eagle_block_drop")


def known_model(served: Mapping[str, object]) -> str | None:
    """Return the model of a row of /v1/models as `--model` takes it: a folder that is here, or a preset; None: unknown here."""
    for key in ("root", "id"):
        name = text_at(served, key)
        if name is None:
            continue
        with suppress(OSError, ValueError, EngineError):
            if key == "root" and config_file(name) is not None:
                return name
        if (preset := find_preset(name)) is not None:
            return preset.name
    return None


def retention_at(cache: object, key: str) -> str | None:
    """Return an interval as its option takes it: `none` where the server says that it has none."""
    if not isinstance(cache, Mapping) or key not in cache:
        return None
    value = cache[key]
    if value is None or value == "None":
        return "none"
    number = whole_number(value, least=0, in_text=True)
    return None if number is None else str(number)


def state_dtype_at(cache: object, key: str) -> str | None:
    """Return the data type of the states of linear attention."""
    value = text_at(cache, key)
    return value if value in get_args(MambaDtype) else None


def drafts_at(info: object) -> str | None:
    """Return the drafts of a server as `--speculative-config` takes them; None where it has none or their method is unknown."""
    config = value_at(info, "vllm_config", "speculative_config")
    if config.get("method") not in get_args(DraftMethod) or number_at(config, "num_speculative_tokens") is None:
        return None
    return json.dumps({name: config[name] for name in _DRAFT_FIELDS if config.get(name) is not None})


def uses_drafts(info: object, exposition: Exposition | None) -> bool:
    """Return whether a server uses speculative decoding."""
    counted = exposition is not None and bool(exposition.starting("vllm:spec_decode"))
    return counted or bool(value_at(info, "vllm_config", "speculative_config"))


def several_groups(
    cache: Mapping[str, object], info: object, exposition: Exposition | None, *, length: object
) -> Iterator[str]:
    """Yield the signs that a model has more than one group of full attention. `length` is the longest request, None: unknown."""
    if (window := text_at(cache, "sliding_window") or number_at(cache, "sliding_window")) is not None:
        yield f"it has a sliding window of {window} tokens"
    block_size = number_at(cache, "block_size")
    for key in _UNITS:
        unit = number_at(cache, key)
        if unit is not None and block_size is not None and unit != block_size:
            yield f"`{key}` is {unit} beside blocks of {block_size}, as with hybrid models"
            break
    if truth_at(cache, "is_attention_free") or number_at(cache, "mamba_block_size") is not None:
        yield "its layers have states"
    if uses_drafts(info, exposition):
        yield "it uses speculative decoding"
    reported, blocks = number_at(cache, "kv_cache_size_tokens"), number_at(cache, "num_gpu_blocks")
    if reported is None or blocks is None or block_size is None or not isinstance(length, int):
        return
    if abs(int(blocks / -(-length // block_size) * length) - reported) > 1:
        yield f"{blocks:,} blocks of {block_size} hold {reported:,} tokens, as with several KV cache groups"
