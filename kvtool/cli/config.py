"""The commands about configuration: `init`, `config` and `schema`."""

# ruff: noqa: ARG001 - `config` takes what its options say from the context, which knows where each value came from

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.env_variables import named_variables, overruled
from kvtool.cli.options import (
    AcceleratorName,
    BlockSize,
    Capacity,
    ChatTemplateFile,
    Color,
    Concurrency,
    ConfigFileName,
    EnablePrefixCaching,
    GpuMemory,
    GpuMemoryUtilization,
    Json,
    KvCacheDtype,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    ModelName,
    NoConfig,
    Offline,
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


def init(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where the prompts are.")] = ".",
    pyproject: Annotated[
        bool, typer.Option("--pyproject", help="Add tool.kvtool to pyproject.toml instead of writing kvtool.toml.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--print", help="Show what would be written, and write nothing.")
    ] = False,
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    block_size: BlockSize = None,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Write a starting configuration: find the prompts, run them, and demand what they reach today.

    Templates, prompts and logs in FOLDER are found by their names; where there is no workload file, one is made of them. Every
    workload is run without measuring, and the gate is set to the hit rate of today, in whole percent.
    """
    from kvtool.cli.init.init import InitArguments, run_init

    return run_init(
        InitArguments(
            folder=folder,
            pyproject=pyproject,
            force=force,
            dry_run=dry_run,
            tokenizer=tokenizer,
            chat_template=chat_template,
            block_size=block_size,
            offline=offline,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
        )
    )


def config(
    context: typer.Context,
    workload: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="A workload file, which may say some of it.")
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
    replicas: Replicas = None,
    routing: RoutingOption = None,
    ttl: Ttl = None,
    provider: ProviderName = None,
    requests: Requests = None,
    seed: Seed = None,
    show_text: ShowTextOption = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    offline: Offline = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Every setting, its value, and where that comes from: a flag, a variable, the workload, a configuration file, the default."""
    from kvtool.cli.run_config import run_config

    with named_variables(context):
        return run_config(
            workload,
            given=_given(context),
            config=config,
            no_config=no_config,
            json=json,
            color=color,
            plain=plain,
            width=width,
        )


def schema(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Such as workload; left out: all names.")] = None,
    json: Json = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Print the JSON Schema of what kvtool reads (workload, config) or writes (report, check, lint…).

    For an editor: kvtool schema workload > workload.schema.json, and in the first line of a workload file
    # yaml-language-server: $schema=workload.schema.json
    """
    from kvtool.cli.run_schema import run_schema

    return run_schema(name, json=json, color=color, plain=plain, width=width)


def _given(context: typer.Context) -> dict[str, tuple[object, str]]:
    """What flags and variables say: the option's name, its value, and the flag or variable."""
    ignored = overruled(context)
    found: dict[str, tuple[object, str]] = {}
    for option in context.command.params:
        name = str(option.name)
        source = context.get_parameter_source(name)
        if source is None or name in ignored or source.name not in ("COMMANDLINE", "ENVIRONMENT"):
            continue
        where = option.envvar if source.name == "ENVIRONMENT" else max(option.opts, key=len)
        if isinstance(where, str):
            found[name] = (context.params[name], where)
    return found
