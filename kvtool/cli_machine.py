"""The commands about machines rather than prompts: `size` and `bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli_options import BlockSize, Color, Json, KvCacheDtype, Quiet, TensorParallel, Width


def size(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A preset, an HF id of one, or a folder with config.json.")
    ],
    accelerator: Annotated[
        list[str] | None, typer.Option("--accelerator", metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float, typer.Option(metavar="X", help="Part of the memory that may be used.")
    ] = 0.92,
    max_model_len: Annotated[
        int | None, typer.Option(metavar="N", help="Longest prompt and answer together. [default: the model's]")
    ] = None,
    kv_cache_dtype: KvCacheDtype = None,
    tensor_parallel: TensorParallel = None,
    block_size: BlockSize = None,
    json: Json = False,
    color: Color = "auto",
    width: Width = None,
) -> int:
    """How many KV blocks, tokens and full-length requests a model leaves room for on common accelerators."""
    from kvtool.commands.size import run_size

    return run_size(
        model,
        accelerators=accelerator,
        gpu_memory_utilization=gpu_memory_utilization,
        max_model_len=max_model_len,
        kv_cache_dtype=kv_cache_dtype or "auto",
        tensor_parallel=1 if tensor_parallel is None else tensor_parallel,
        block_size=16 if block_size is None else block_size,
        json=json,
        color=color,
        width=width,
    )


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
    width: Width = None,
) -> int:
    """Time the embedded engine on this machine, and fit the model that predicts TTFT to what it takes."""
    from kvtool.commands.bench import BenchArguments, run_bench

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
            width=width,
            command_line=context.obj or (),
        )
    )
