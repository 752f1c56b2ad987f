"""The command line: thin, and cheap to import; each command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

import typer

from kvtool.cli.check import check
from kvtool.cli.completion import asked, complete
from kvtool.cli.config import config, init, schema
from kvtool.cli.diff import diff_prompts
from kvtool.cli.env_variables import named_variables, overruled
from kvtool.cli.lint import explain, lint
from kvtool.cli.machine import bench, doctor, size
from kvtool.cli.optimize import optimize
from kvtool.cli.options import (
    AcceleratorName,
    BadLine,
    BlockSize,
    Boundaries,
    Capacity,
    ChatTemplateFile,
    Color,
    Concurrency,
    ConfigFileName,
    DecodeAttention,
    DeviceName,
    EnablePrefixCaching,
    GpuMemory,
    GpuMemoryUtilization,
    Groups,
    HashName,
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
    RulesName,
    Seed,
    ShowTextOption,
    SumsBy,
    TensorParallel,
    TokenizerName,
    Ttl,
    Width,
)
from kvtool.cli.results import compare, report
from kvtool.errors import ProblemsError, as_error
from kvtool.text.terminal.streams import check_piped
from kvtool.version import __version__

_EXIT_BUG = 3
_DEBUG = "--debug"

app = typer.Typer(
    name="kvtool",
    help="Prefix-cache profiling and prompt optimization: what is my hit rate, what could it be, and which text loses it.",
    epilog="Begin with: kvtool profile workloads/support-bot.yaml\n\nIn a folder with prompts of your own: kvtool init, then"
    " kvtool check",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kvtool {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    _show_version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    _debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Prefix-cache profiling and prompt optimization: what is my hit rate, what could it be, and which text loses it."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(short_help="Hit rates, where the tokens went, TTFT, what to change.")
def profile(
    context: typer.Context,
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT", help="workload.yaml, .jsonl logs, traces, .txt prompts, or -.")
    ],
    model: ModelName = None,
    accelerator: AcceleratorName = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration", metavar="FILE", help="Predict for the machine that kvtool bench -o FILE was run on."
        ),
    ] = None,
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
    async_scheduling: Annotated[
        bool, typer.Option("--async-scheduling", help="Schedule a step ahead, as vLLM does by default.")
    ] = False,
    hash_algo: Annotated[
        HashName | None,
        typer.Option(help="Block hashes of --events; match a server's with its algorithm and PYTHONHASHSEED."),
    ] = None,
    concurrency: Concurrency = None,
    use_timestamps: Annotated[
        bool, typer.Option("--use-timestamps", help="Requests arrive at the times of the log.")
    ] = False,
    replicas: Replicas = None,
    routing: RoutingOption = None,
    ttl: Ttl = None,
    provider: ProviderName = None,
    rules: Annotated[RulesName, typer.Option(help="The engine's rules, or the LRU of trace studies.")] = "vllm",
    trace_block_size: Annotated[int, typer.Option(metavar="N", help="Tokens per hash id of a trace.")] = 512,
    on_bad_line: BadLine = "error",
    log_format: LogFormat = None,
    requests: Requests = None,
    group: Groups = None,
    seed: Seed = None,
    measure_budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="For real runs of the embedded model or a --model FOLDER; 0: none.")
    ] = 20.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Accounting and predictions only: --measure-budget 0.")
    ] = False,
    load_format: Annotated[
        Literal["auto", "dummy"], typer.Option(help="Weights of a --model FOLDER for the real runs, or random ones.")
    ] = "auto",
    dtype: Annotated[
        str, typer.Option(metavar="NAME", help="Of that model: auto, float32, bfloat16, float16.")
    ] = "auto",
    device: DeviceName = "auto",
    decode_attention: Annotated[
        DecodeAttention, typer.Option(help="Shared prefixes in decode: read for each request, once, or what pays.")
    ] = "auto",
    decode_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Conversations that decode together, where the run says nothing about it. [default: 64, or what a step takes]",
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Compare the logits of reused with those of computed prefixes.")
    ] = False,
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write KV events as JSON lines, in vLLM's fields.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write Prometheus metrics, with vLLM's names.")
    ] = None,
    advice: Annotated[
        bool,
        typer.Option("--advice/--no-advice", help="Try fixes of the costliest causes of each group by running again."),
    ] = True,
    min_hit_rate: Annotated[
        float | None, typer.Option(metavar="RATIO", help="Exit 1 where the hit rate is lower.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="FILE", help="Exit 1 where hit rates fell; kvtool check writes the file."),
    ] = None,
    max_drop: Annotated[
        str | None,
        typer.Option("--max-drop", metavar="RATIO", help="How far they may fall below it. [default: 0.5%]"),
    ] = None,
    by: SumsBy = None,
    boundaries: Boundaries = False,
    per_request: Annotated[bool, typer.Option("--per-request", help="Every request in the JSON.")] = False,
    show_text: ShowTextOption = None,
    output: Output = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Run a workload through the engine: hit rates, where the tokens went, TTFT, and what to change.

    The cache is unlimited and requests run one at a time unless the workload or a flag says otherwise.
    """
    check_piped("profile", inputs)
    from kvtool.cli.run_profile import run_profile
    from kvtool.config.apply_config import configured
    from kvtool.config.arguments import ProfileArguments

    with named_variables(context):
        arguments = ProfileArguments(
            inputs=inputs,
            model=model,
            accelerator=accelerator,
            calibration=calibration,
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
            async_scheduling=async_scheduling,
            hash_algo=hash_algo,
            load_format=load_format,
            dtype=dtype,
            device=device,
            decode_attention=decode_attention,
            decode_batch=decode_batch,
            audit=audit,
            events=events,
            metrics=metrics,
            concurrency=concurrency,
            use_timestamps=use_timestamps,
            replicas=replicas,
            routing=routing,
            ttl=ttl,
            provider=provider,
            by=by,
            boundaries=boundaries,
            rules=rules,
            trace_block_size=trace_block_size,
            on_bad_line=on_bad_line,
            log_format=log_format,
            requests=requests,
            groups=tuple(group or ()),
            seed=seed,
            measure_budget=0.0 if dry_run else measure_budget,
            advice=advice,
            min_hit_rate=min_hit_rate,
            baseline=baseline,
            max_drop=max_drop,
            per_request=per_request,
            show_text=show_text,
            outputs=tuple(output or ()),
            json=json,
            offline=offline,
            quiet=quiet,
            color=color,
            plain=plain,
            width=width,
            config=config,
            no_config=no_config,
            command_line=context.obj or (),
        )
        return run_profile(configured(replace(arguments, **overruled(context))))


app.command("diff-prompts", short_help="Where two or more prompts part, and what it costs.")(diff_prompts)
app.command(short_help="Findings only: what costs hits, and where.")(lint)
app.command(short_help="Rewrite prompts, prove it, write where told.")(optimize)
app.command(short_help="The gate for CI: limits and a baseline, one verdict.")(check)
app.command(short_help="What moved from one result to another.")(compare)
app.command(short_help="A saved result again, in any format.")(report)
app.command(short_help="Write a starting configuration for the prompts here.")(init)
app.command(short_help="Every setting, and where its value comes from.")(config)
app.command(short_help="JSON Schemas of what kvtool reads and writes.")(schema)
app.command(short_help="What a code means; --list.")(explain)
app.command(short_help="How many KV blocks a model leaves room for.")(size)
app.command(short_help="What this machine does, and a fit of the predictions to it.")(bench)
app.command(short_help="What is here, what is missing, and how to get it.")(doctor)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; every error becomes a message on stderr and an exit code. Ctrl-C is raised on."""
    from kvtool.text.terminal.streams import discard_stdout, flush_stdout

    given = [argument for argument in arguments if argument != _DEBUG]
    try:
        code = _invoke(given)
        flush_stdout()
    except BrokenPipeError:
        discard_stdout()
        return 0
    except Exception as error:
        if len(given) < len(arguments):
            from traceback import print_exc

            print_exc()
        return _explain(error)
    return code


@cache
def _commands() -> Any:
    """Made of all signatures: once, for processes that run several command lines."""
    return typer.main.get_command(app)


def _invoke(arguments: Sequence[str]) -> int:
    """The exit code of a command; typer's own `main` would swallow Ctrl-C and closed pipes."""
    if asked():
        return complete(typer.main.get_command(app))
    try:
        with _commands().make_context("kvtool", list(arguments), obj=tuple(arguments)) as context:
            result: Any = context.command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Tell what went wrong, in a form that depends on whose mistake it was."""
    from kvtool.report.terminal.errors import print_bug, print_error, print_usage
    from kvtool.text.terminal.streams import discard_stdout, output_error

    if isinstance(error, ProblemsError):
        for problem in error.errors:
            print_error(problem)
        return error.exit_code
    if isinstance(error, OSError) and error.filename is None:
        discard_stdout()
        error = output_error(error)
    if (mistake := as_error(error)) is not None:
        print_error(mistake)
        return mistake.exit_code
    if (code := print_usage(error)) is not None:
        return code
    print_bug(error)
    return _EXIT_BUG
