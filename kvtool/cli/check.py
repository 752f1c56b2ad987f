"""The command `check`: its command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kvtool.cli.env_variables import named_variables, overruled
from kvtool.cli.options import (
    AcceleratorName,
    BadLine,
    BlockSize,
    Capacity,
    ChatTemplateFile,
    Color,
    Concurrency,
    ConfigFileName,
    EnablePrefixCaching,
    GpuMemory,
    GpuMemoryUtilization,
    Groups,
    Json,
    KvCacheDtype,
    LogFormat,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    ModelName,
    NoConfig,
    Offline,
    Output,
    Plain,
    ProviderName,
    Quiet,
    Replicas,
    Requests,
    RoutingOption,
    Seed,
    ShowTextOption,
    TensorParallel,
    TokenizerName,
    Ttl,
    Width,
)
from kvtool.text.terminal.streams import check_piped


def check(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="workload.yaml, logs, prompts, templates, .py files; default: `workloads` of kvtool.toml.",
            show_default=False,
        ),
    ] = None,
    min_hit_rate: Annotated[
        str | None,
        typer.Option("--min-hit-rate", metavar="RATIO", help="Of all requests of each workload: 0.8 or 80%."),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="WHAT",
            help="Fail on findings: a code (KV101), KV1, or error, warning, info; repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Compare with it. [default: kvtool-baseline.json, where it is]"
        ),
    ] = None,
    max_drop: Annotated[
        str | None,
        typer.Option("--max-drop", metavar="RATIO", help="How far hit rates may fall below it. [default: 0.5%]"),
    ] = None,
    require_baseline: Annotated[
        bool | None,
        typer.Option(
            "--require-baseline/--no-require-baseline", help="Exit 2 where it is missing or other settings made it."
        ),
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write today's hit rates into it instead of comparing.")
    ] = False,
    advice: Annotated[
        bool | None,
        typer.Option("--advice/--no-advice", help="Try fixes of the costliest causes. [default: advice]"),
    ] = None,
    model: ModelName = None,
    accelerator: AcceleratorName = None,
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    block_size: BlockSize = None,
    capacity: Capacity = None,
    gpu_memory: GpuMemory = None,
    gpu_memory_utilization: GpuMemoryUtilization = None,
    max_model_len: MaxModelLen = None,
    max_num_batched_tokens: MaxNumBatchedTokens = None,
    max_num_seqs: MaxNumSeqs = None,
    enable_prefix_caching: EnablePrefixCaching = None,
    kv_cache_dtype: KvCacheDtype = None,
    tensor_parallel: TensorParallel = None,
    concurrency: Concurrency = None,
    use_timestamps: Annotated[
        bool, typer.Option("--use-timestamps", help="Requests arrive at the times of the log.")
    ] = False,
    replicas: Replicas = None,
    routing: RoutingOption = None,
    ttl: Ttl = None,
    provider: ProviderName = None,
    on_bad_line: BadLine = "error",
    log_format: LogFormat = None,
    requests: Requests = None,
    group: Groups = None,
    seed: Seed = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    output: Output = None,
    show_text: ShowTextOption = None,
    json: Json = False,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """The gate for CI: hit rates, findings and predicted TTFT against what is demanded, and against a baseline.

    Demands stand in kvtool.toml ([gate], [gate.groups.NAME]), in the groups of workload files (gate:) and in flags. Nothing is
    measured: the same files give the same verdict on any machine. Exit 0: passed; 1: a gate failed; 2: the input is wrong, or a
    baseline is required and cannot be compared with.
    """
    check_piped("check", inputs or [])
    from kvtool.cli.run_check import run_check
    from kvtool.config.arguments import ProfileArguments
    from kvtool.gate.check_settings import CheckArguments

    with named_variables(context):
        run = ProfileArguments(
            inputs=inputs or (),
            model=model,
            accelerator=accelerator,
            tokenizer=tokenizer,
            chat_template=chat_template,
            block_size=block_size,
            capacity=capacity,
            gpu_memory=gpu_memory,
            gpu_memory_utilization=gpu_memory_utilization,
            max_model_len=max_model_len,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            enable_prefix_caching=enable_prefix_caching,
            kv_cache_dtype=kv_cache_dtype,
            tensor_parallel=tensor_parallel,
            concurrency=concurrency,
            use_timestamps=use_timestamps,
            replicas=replicas,
            routing=routing,
            ttl=ttl,
            provider=provider,
            on_bad_line=on_bad_line,
            log_format=log_format,
            requests=requests,
            groups=tuple(group or ()),
            seed=seed,
            measure_budget=0.0,
            config=config,
            no_config=no_config,
            outputs=tuple(output or ()),
            show_text=show_text,
            json=json,
            offline=offline,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
            command_line=context.obj or (),
        )
        return run_check(
            CheckArguments(
                replace(run, **overruled(context)),
                min_hit_rate=min_hit_rate,
                fail_on=tuple(fail_on or ()),
                baseline=baseline,
                max_drop=max_drop,
                require_baseline=require_baseline,
                update_baseline=update_baseline,
                advice=advice,
            )
        )
