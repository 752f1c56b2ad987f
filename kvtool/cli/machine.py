"""The commands about machines rather than prompts: `size`, `bench` and `doctor`."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from kvtool.cli.env_variables import named_variables
from kvtool.cli.options import (
    BlockSize,
    Color,
    ConfigFileName,
    GpuMemoryUtilization,
    Json,
    KvCacheDtype,
    NoConfig,
    Plain,
    Quiet,
    TensorParallel,
    Width,
)
from kvtool.errors import KvtoolError

Number = TypeVar("Number", int, float)


def size(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            envvar="KVTOOL_MODEL",
            help="A preset, an HF id of one, or a folder with config.json; left out: the configured one.",
        ),
    ] = None,
    accelerator: Annotated[
        list[str] | None, typer.Option("--accelerator", metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    gpu_memory_utilization: GpuMemoryUtilization = None,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            envvar="KVTOOL_MAX_MODEL_LEN",
            help="Longest prompt and answer together. [default: the model's]",
        ),
    ] = None,
    kv_cache_dtype: KvCacheDtype = None,
    tensor_parallel: TensorParallel = None,
    block_size: BlockSize = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """How many KV blocks, tokens and full-length requests a model leaves room for on common accelerators."""
    from kvtool.cli.run_size import run_size
    from kvtool.config.layers import merged
    from kvtool.config.loading import read_config
    from kvtool.workload.yaml.schema import EngineOptions

    asked = EngineOptions.model_construct(
        model=model,
        gpu_memory_utilization=gpu_memory_utilization,
        max_model_len=max_model_len,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=tensor_parallel,
        block_size=block_size,
    )
    with named_variables(context):
        file = read_config(config, no_config=no_config)
        asked = merged(asked, None if file is None else file.engine)
        if asked.model is None:
            raise KvtoolError("missing argument 'MODEL'", hint="kvtool size llama-3.1-8b; kvtool size --help")
        return run_size(
            asked.model,
            accelerators=accelerator,
            gpu_memory_utilization=_or(asked.gpu_memory_utilization, 0.92),
            max_model_len=asked.max_model_len,
            kv_cache_dtype=asked.kv_cache_dtype or "auto",
            tensor_parallel=_or(asked.tensor_parallel, 1),
            block_size=_or(asked.block_size, 16),
            json=json,
            color=color,
            plain=plain,
            width=width,
        )


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value


def bench(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            metavar="NAME",
            help="Preset or folder, with random weights. [default: a tiny one; on a GPU with room llama-3.1-8b]",
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(metavar="NAME", help="Of the model: auto, float32, bfloat16, float16.")
    ] = "auto",
    kv_cache_dtype: KvCacheDtype = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="What computes: auto (CUDA where there is one), cpu, cuda or cuda:N.")
    ] = "auto",
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="For all measurements together.")] = 30.0,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Calibration, for kvtool profile --calibration."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Time the embedded engine on this machine, and fit the model that predicts TTFT to what it takes."""
    from kvtool.cli.run_bench import BenchArguments, run_bench

    return run_bench(
        BenchArguments(
            model=model,
            dtype=dtype,
            kv_cache_dtype=kv_cache_dtype or "auto",
            device=device,
            budget=budget,
            output=output,
            json=json,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
            command_line=context.obj or (),
        )
    )


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Prepare the built-in tokenizer now; it takes some seconds once.")
    ] = False,
    json: Json = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """What kvtool finds on this machine: versions, device, tokenizer cache, configuration, terminal; what is missing and how to
    get it.

    Exit code 4 where something is broken that kvtool needs.
    """
    from kvtool.cli.doctor.doctor import run_doctor

    return run_doctor(fix=fix, json=json, color=color, plain=plain, width=width)
