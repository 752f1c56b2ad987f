"""Make a decoder from a folder of weights or from a geometry alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import torch

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.checkpoint import Checkpoint
from kvtool.engine.model.configs.find_runnable import find_runnable
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.presets import model_path
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import find_device
from kvtool.engine.model.parameter_shapes import check_names, check_shapes, parameter_count, parameter_shapes
from kvtool.engine.model.random_weights import RandomWeights

LoadFormat = Literal["auto", "dummy"]
DTYPES = {
    "float32": torch.float32,
    "float": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
    "fp16": torch.float16,
}
_GIB = 1 << 30


def load_model(
    path: str | Path,
    *,
    dtype: str = "auto",
    load_format: LoadFormat = "auto",
    device: torch.device | str = "cpu",
    seed: int = 0,
    available_memory: int | None = None,
) -> Decoder:
    """Return a decoder in memory; raise EngineError before any memory is taken.

    `path` is a folder in Hugging Face's layout. With `load_format="dummy"` its config.json or the name of a preset is enough, and
    the weights are random from `seed`. `dtype` is one of DTYPES, or `auto`: the config's type, else the stored weights' type.
    `available_memory` is in bytes; the default is the device's free memory.
    """
    device = find_device(str(device))
    config, chosen, checkpoint = _checked(path, dtype, load_format, device, available_memory)
    weights = RandomWeights(config, seed, device=device, dtype=chosen) if checkpoint is None else checkpoint
    return Decoder(config, weights, device=device, dtype=chosen)


def check_model(
    path: str | Path,
    *,
    dtype: str = "auto",
    load_format: LoadFormat = "auto",
    device: torch.device | str = "cpu",
) -> None:
    """Raise EngineError if `load_model` would; no weight is read."""
    _checked(path, dtype, load_format, find_device(str(device)), None)


def _checked(
    path: str | Path, dtype: str, load_format: LoadFormat, device: torch.device, available_memory: int | None
) -> tuple[ModelConfig, torch.dtype, Checkpoint | None]:
    """Check everything to load, or raise EngineError; random weights need no checkpoint."""
    config = find_runnable(str(path))
    if load_format == "dummy":
        chosen = _dtype(dtype, config, None)
        _check_memory(config, chosen, device, available_memory)
        return config, chosen, None
    folder = model_path(path)
    if not folder.exists():
        raise EngineError(
            f"{config.name} is a preset without weights, and there is no folder {str(path)!a}",
            hint="use --load-format dummy for random weights",
        )
    checkpoint = Checkpoint(folder if folder.is_dir() else folder.parent)
    chosen = _dtype(dtype, config, next(iter(checkpoint.dtypes.values()), None))
    _check_memory(config, chosen, device, available_memory)
    check_names(config, checkpoint, str(checkpoint.folder))
    check_shapes(parameter_shapes(config), checkpoint.shapes, str(checkpoint.folder))
    return config, chosen, checkpoint


def _dtype(name: str, config: ModelConfig, stored: torch.dtype | None) -> torch.dtype:
    if name != "auto":
        if name not in DTYPES:
            raise EngineError(f"unknown dtype {name[:40]!a}", hint=f"use auto, {', '.join(DTYPES)}")
        return DTYPES[name]
    if config.dtype is None:
        return stored or torch.float32
    if config.dtype not in DTYPES:
        raise EngineError(
            f"{config.source}: `dtype` {config.dtype[:40]!a} is not supported", hint=f"use --dtype {', '.join(DTYPES)}"
        )
    return DTYPES[config.dtype]


def _check_memory(config: ModelConfig, dtype: torch.dtype, device: torch.device, available: int | None) -> None:
    """Check that the weights alone fit; the KV cache grows later, as blocks come into use."""
    needed = parameter_count(config) * dtype.itemsize
    free = free_memory(device) if available is None else available
    if needed > free:
        smaller = ", or --dtype bfloat16" if dtype.itemsize > 2 else ""
        raise EngineError(
            f"{config.name} takes {needed / _GIB:,.1f} GiB in {str(dtype).removeprefix('torch.')}, "
            f"and {free / _GIB:,.1f} GiB of {device.type} memory are free",
            hint=f"choose a smaller model{smaller}",
        )


def free_memory(device: torch.device) -> int:
    """Return bytes that can be taken on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        lines = (line.split() for line in meminfo.splitlines())
        free = next(1024 * int(words[1]) for words in lines if words[0] == "MemAvailable:")
    except (OSError, StopIteration, ValueError, IndexError):  # no Linux: all there is
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:  # a container's limit is not in /proc/meminfo
        return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such limit
        return free
