"""The command line of `kvtool profile`, and what its flags may hold."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool.engine.config import DecodeMode, HashAlgorithm
from kvtool.errors import KvtoolError
from kvtool.measure.measure_options import MODEL_DTYPES
from kvtool.results.choices import Rules, SumBy
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import ColorChoice
from kvtool.workload.yaml.schema import EngineOptions

_TRACE_BLOCK = 512
_COUNTS = (
    "block_size",
    "trace_block_size",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "concurrency",
    "requests",
    "tensor_parallel",
    "decode_batch",
    "replicas",
)
"""Flags that are whole numbers from 1 on."""


@dataclass(frozen=True, slots=True)
class ProfileArguments:
    """The command line of `kvtool profile`; None is "not given"."""

    inputs: Sequence[str]
    model: str | None = None
    accelerator: str | None = None
    calibration: str | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    block_size: int | None = None
    capacity: str | None = None
    gpu_memory: str | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enable_prefix_caching: bool | None = None
    kv_cache_dtype: str | None = None
    tensor_parallel: int | None = None
    async_scheduling: bool = False
    hash_algo: HashAlgorithm | None = None
    load_format: Literal["auto", "dummy"] = "auto"
    dtype: str = "auto"
    device: str = "auto"
    decode_attention: DecodeMode = "auto"
    decode_batch: int | None = None
    audit: bool = False
    events: str | None = None
    metrics: str | None = None
    concurrency: int | None = None
    use_timestamps: bool = False
    replicas: int | None = None
    routing: str | None = None
    ttl: str | None = None
    provider: str | None = None
    rules: Rules = "vllm"
    trace_block_size: int = _TRACE_BLOCK
    on_bad_line: Literal["error", "skip"] = "error"
    log_format: str | None = None
    requests: int | None = None
    groups: Sequence[str] = ()
    seed: int | None = None
    measure_budget: float = 20.0
    advice: bool = True
    min_hit_rate: float | None = None
    baseline: str | None = None
    max_drop: str | None = None
    per_request: bool = False
    boundaries: bool = False
    by: SumBy | None = None
    json: bool = False
    outputs: Sequence[str] = ()
    """`[FORMAT=]PATH` of what is written beside the report or instead of it (`-`)."""
    plain: bool = False
    show_text: ShowText | None = None
    """None: lines of prompts in the terminal, and none in files."""
    config: str | None = None
    no_config: bool = False
    defaults: EngineOptions | None = None
    """What the configuration file says of the engine; a workload file goes before it."""
    default_seed: int | None = None
    """Its seed, likewise."""
    offline: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    width: int | None = None
    command_line: Sequence[str] = ()
    """What stood behind `kvtool`; the report bases the next command on it."""


def check(arguments: ProfileArguments) -> None:
    """What a flag may hold, where its type does not say it."""
    for flag in _COUNTS:
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            raise KvtoolError(f"--{flag.replace('_', '-')} must be at least 1, not {value}")
    if arguments.min_hit_rate is not None and not 0.0 <= arguments.min_hit_rate <= 1.0:
        raise KvtoolError(f"--min-hit-rate is a ratio from 0 to 1, not {arguments.min_hit_rate}", hint="0.8 is 80 %")
    if not 0.0 <= arguments.measure_budget < float("inf"):
        raise KvtoolError(f"--measure-budget is a number of seconds, not {arguments.measure_budget}")
    if arguments.seed is not None and arguments.seed < 0:
        raise KvtoolError(f"--seed must not be negative: {arguments.seed}")
    utilization = arguments.gpu_memory_utilization
    if utilization is not None and not 0.0 < utilization <= 1.0:
        raise KvtoolError(f"--gpu-memory-utilization is in (0, 1], not {utilization}")
    if arguments.rules == "block-lru" and arguments.events is not None:
        raise KvtoolError("--events are those of the engine; --rules block-lru has none")
    if arguments.dtype not in MODEL_DTYPES:
        raise KvtoolError(f"unknown dtype `{arguments.dtype}`", hint=f"--dtype is one of {', '.join(MODEL_DTYPES)}")
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", arguments.device):
        raise KvtoolError(f"unknown device `{arguments.device}`", hint="--device is one of auto, cpu, cuda, cuda:N")
    if arguments.audit and not arguments.measure_budget:
        raise KvtoolError(
            "--audit compares the logits of real runs, and --dry-run or --measure-budget 0 asks for none",
            hint="give --measure-budget SECONDS",
        )
    _check_outputs(arguments)
    if arguments.calibration is not None and arguments.accelerator is not None:
        raise KvtoolError(
            "--calibration and --accelerator both say what the predictions are for", hint="give one of them"
        )
    if arguments.capacity is not None and arguments.gpu_memory is not None:
        raise KvtoolError("--capacity and --gpu-memory both say how large the cache is", hint="give one of them")


def _check_outputs(arguments: ProfileArguments) -> None:
    """What is written must be neither an input nor the other output."""
    taken = {os.path.realpath(path): "an input" for path in arguments.inputs if path != "-"}
    if arguments.calibration is not None:
        taken[os.path.realpath(arguments.calibration)] = "the calibration"
    for flag, path in (("--events", arguments.events), ("--metrics", arguments.metrics)):
        if path is None:
            continue
        if path == "-":
            raise KvtoolError(f"{flag} needs a file: standard output has the report")
        real = os.path.realpath(path)
        if real in taken:
            raise KvtoolError(f"{flag} {path} is {taken[real]}, too", hint="give a file of its own")
        taken[real] = f"the file of {flag}"
