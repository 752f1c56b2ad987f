"""The Python API: what the commands compute, as typed data. Nothing is printed, measured, downloaded or written unless asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from kvtool.config.options.run_options import Reading
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError, ProblemsError, as_error
from kvtool.results.check import CheckResult
from kvtool.results.notebook import notebook_html
from kvtool.results.report import Report
from kvtool.results.wrap import check_of
from kvtool.workload.prompts_in_memory import AnyPath, Prompt, optional_path, path_of, sorted_inputs

if TYPE_CHECKING:
    from kvtool.config.asked_run import RunOptions
    from kvtool.config.options.judged_options import Limits
    from kvtool.diff.prompts import PromptDiff
    from kvtool.profiler.profiler import ReportOptions
    from kvtool.results.choices import By, Rules
    from kvtool.results.show_text import ShowText
    from kvtool.workload.prompts_in_memory import MemorySource


def profile(
    inputs: AnyPath | Iterable[AnyPath | Prompt],
    *,
    model: str | None = None,
    accelerator: str | None = None,
    calibration: AnyPath | None = None,
    tokenizer: AnyPath | None = None,
    chat_template: AnyPath | None = None,
    block_size: int | None = None,
    capacity: int | str | None = None,
    num_gpu_blocks: int | None = None,
    gpu_memory: int | str | None = None,
    kv_cache_dtype: str | None = None,
    tensor_parallel: int | None = None,
    max_model_len: int | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    enable_prefix_caching: bool | None = None,
    concurrency: int | None = None,
    use_timestamps: bool = False,
    replicas: int | None = None,
    routing: str | None = None,
    ttl: str | None = None,
    provider: str | None = None,
    rules: Rules | None = None,
    rule_options: Mapping[str, object] | None = None,
    requests: int | None = None,
    group_by: str | None = None,
    groups: Sequence[str] = (),
    seed: int | None = None,
    on_bad_line: Literal["error", "skip"] = Reading.on_bad_line,
    log_format: str | None = None,
    allow_outside: bool = False,
    min_hit_rate: float | None = None,
    by: By | None = None,
    per_request: bool = False,
    advice: bool = True,
    views: bool = False,
    show_text: ShowText = "none",
    measure_budget: float = 0.0,
    jobs: int = 1,
    network: bool = False,
) -> Report:
    """Run a workload through the engine and report hit rates, token breakdown, predicted TTFT, and fixes.

    Equals `kvtool profile --dry-run` without a configuration file and `KVTOOL_*` variables: the result depends only on the
    arguments and the files. With `None`, the workload file or the default decides.

    Args:
        inputs: A workload file, or logs and prompt files, or prompts in the order of sending. A prompt is a text, a list of chat
            messages or a request body. In a list, a string is a path if the file exists, or if it ends like a file name and has no
            spaces (`"a.jsonl"`). A `pathlib.Path` is always a path. Prompts are copied.
        model: Model for predictions and sizes: a preset (`"llama-3.1-8b"`), its HF id, or a folder with a config.json.
        accelerator: Accelerator for predictions: `"h100"`, `"l4"`, …
        calibration: File of `kvtool bench -o`, to predict for that machine instead of `accelerator`.
        tokenizer: A tokenizer.json, a folder with one, or an HF id; the built-in one by default.
        chat_template: File with a Jinja chat template; the tokenizer's own by default.
        block_size: Tokens per KV block; 16 by default.
        capacity: Size of the KV cache: a number of blocks, `"320k tokens"` or `"20GiB"`; unlimited by default.
        num_gpu_blocks: Number of blocks as vLLM logs it, the null block included.
        gpu_memory: Accelerator memory, in bytes or as `"24GiB"`; the cache gets what the weights leave.
        kv_cache_dtype: KV cache data type: `"auto"`, `"fp16"`, `"bf16"`, `"fp8_e4m3"`, `"fp8_e5m2"` or `"int8"`.
        tensor_parallel: Accelerators that share the model.
        max_model_len: Most tokens of prompt and answer together.
        max_num_batched_tokens: Tokens per step; 8192 by default.
        max_num_seqs: Requests per step; 256 by default.
        enable_prefix_caching: False turns prefix caching off.
        concurrency: Requests at once; one at a time by default.
        use_timestamps: Requests arrive at the times of the log.
        replicas: Number of engines that share a router, each with its own cache.
        routing: `"round-robin"`, `"random"`, `"sticky"` or `"prefix-aware"`.
        ttl: Evict blocks unused for this long: `"5m"`, `"1h"`. Needs arrival times.
        provider: Provider with its cache rules: `"openai"`, `"anthropic"`, …
        rules: Engine with its cache rules: `"vllm"` (the default), `"sglang"`, `"llamacpp"`, `"trtllm"`, or `"block-lru"`, the
            accounting of trace studies.
        rule_options: Options of the rules, as in the workload file: `{"page_size": 16}`.
        requests: Number of requests to read; all by default.
        group_by: Fields that divide logs and prompts into groups (`"service"`, `"metadata.route,model"`), `"file"` or `"system"`;
            detected by default.
        groups: Only these groups of a workload file.
        seed: Seed of everything random; 0 by default.
        on_bad_line: `"skip"` counts unreadable records and continues.
        log_format: Format of all records; detected for each by default.
        allow_outside: Allow a workload file to name files outside its git repository (without one: its folder).
        min_hit_rate: Ratio from 0 to 1 that `report.verdict` checks, besides the gates in the workload file.
        by: Also sum by `"session"`, `"tenant"` or `"line"`.
        per_request: Also return a row for each request.
        advice: Try fixes in reruns; False is faster.
        views: Also return chart data: timeline, prefix tree, reuse distances.
        show_text: Quote prompt text. `"snippet"`: the line of each finding, without keys and addresses. `"full"`: all text, and
            the edits of the fixes.
        measure_budget: Seconds for real forward passes on this machine, the only part that is not deterministic; 0 for none.
        jobs: Processes for a log. 2 is nearly twice as fast for a large log. It forks the calling process, which must have no
            other threads.
        network: Allow the download of a tokenizer that is not cached.

    Raises:
        KvtoolError: An input or a setting cannot be used. `ProblemsError` contains several mistakes. `NotAvailableError`: a
            tokenizer or model is not on this machine.
        KeyboardInterrupt: Ctrl-C; there is no partial result.
    """
    given = dict(locals())
    from kvtool.config.asked_run import RunOptions
    from kvtool.config.engine_rules import checked_flags
    from kvtool.config.option import made
    from kvtool.config.options.judged_options import Limits
    from kvtool.profiler.profiler import ReportOptions

    wanted = ReportOptions(advice=advice, per_request=per_request, by=by, views=views)
    for name in (
        "inputs",
        "min_hit_rate",
        "by",
        "per_request",
        "advice",
        "views",
        "show_text",
        "network",
        "rule_options",
    ):
        del given[name]  # the others are options of the run, by the same names
    with _told():
        for name in ("calibration", "tokenizer", "chat_template"):
            given[name] = optional_path(given[name])
        for name in ("capacity", "gpu_memory"):
            given[name] = None if given[name] is None else str(given[name])
        paths, source = sorted_inputs(inputs, on_bad_line=on_bad_line, log_format=log_format, requests=requests)
        given.update(checked_flags(rule_options or {}))
        options = made(RunOptions, inputs=paths, **{**given, "groups": tuple(groups)})
        limits = Limits(min_hit_rate=min_hit_rate)
        return _report(options, limits, wanted, source, show_text=show_text, network=network)


def check(
    inputs: AnyPath | Iterable[AnyPath] = (),
    *,
    config: AnyPath | None = None,
    no_config: bool = False,
    tokenizer: AnyPath | None = None,
    min_hit_rate: float | str | None = None,
    max_cost_per_1k: float | str | None = None,
    error_on: Sequence[str] = (),
    baseline: AnyPath | None = None,
    max_drop: float | str | None = None,
    max_gpus: int | None = None,
    min_goodput: float | None = None,
    slo: str | None = None,
    require_baseline: bool | None = None,
    update_baseline: bool = False,
    requests: int | None = None,
    group_by: str | None = None,
    seed: int | None = None,
    advice: bool | None = None,
    allow_outside: bool = False,
    network: bool = False,
) -> CheckResult:
    """Check workloads against their gates and a baseline, as `kvtool check` does.

    A failed gate raises nothing: read `result.verdict.exit_code` (0: passed, 1: failed) or `result.verdict.outcome`.

    Args:
        inputs: Workloads, logs, prompts, templates; by default those of the configuration.
        config: Configuration file; by default the nearest `kvtool.toml` or `[tool.kvtool]` of the working folder.
        no_config: Read no configuration file.
        tokenizer: As for `profile`.
        min_hit_rate: Minimum hit rate of every workload: a ratio from 0 to 1, or `"80%"`.
        max_cost_per_1k: Highest cost of 1,000 requests to hosted models, in dollars: `4`, or `"$4"`.
        error_on: Codes (`"KV101"`), prefixes of codes, or severities. One such finding fails the check.
        baseline: File to compare with; by default that of the configuration, or the usual one if it exists.
        max_drop: How far a hit rate may fall below the baseline: a ratio, or `"1%"`.
        max_gpus: Most accelerators that today's settings may need for the `slo`.
        min_goodput: Requests per second within the `slo` that today's replicas must reach.
        slo: Time limits of a request: `"ttft=2s,tpot=50ms"`.
        require_baseline: Raise an error for a missing or incomparable baseline.
        update_baseline: Write the baseline instead of comparing. This function writes nothing else.
        requests: Number of requests to read from each workload; all by default.
        group_by: As for `profile`.
        seed: Seed of everything random.
        advice: Try fixes in reruns.
        allow_outside: Allow workloads and the configuration to name files outside their git repository (without one: their
            folder).
        network: Allow the download of a tokenizer that is not cached.

    Raises:
        KvtoolError: As for `profile`; also if there is nothing to check.
        KeyboardInterrupt: Ctrl-C; there is no partial result.
    """
    from kvtool.config.asked_run import RunOptions
    from kvtool.config.loading import read_config
    from kvtool.config.option import made
    from kvtool.config.options.judged_options import Judging
    from kvtool.config.options.shown_options import Configured
    from kvtool.gate.check_plan import check_plan
    from kvtool.gate.checking import run_check
    from kvtool.text.terminal.progress import Progress

    with _told():
        paths = [path_of(inputs)] if isinstance(inputs, str | os.PathLike) else [path_of(path) for path in inputs]
        run = made(
            RunOptions,
            inputs=paths,
            tokenizer=optional_path(tokenizer),
            requests=requests,
            group_by=group_by,
            seed=seed,
            allow_outside=allow_outside,
            jobs=1,
        )
        judging = Judging(
            min_hit_rate=None if min_hit_rate is None else str(min_hit_rate),
            max_cost_per_1k=None if max_cost_per_1k is None else str(max_cost_per_1k),
            error_on=tuple(error_on),
            baseline=optional_path(baseline),
            max_drop=None if max_drop is None else str(max_drop),
            max_gpus=max_gpus,
            min_goodput=min_goodput,
            slo=slo,
            require_baseline=require_baseline,
            update_baseline=update_baseline,
            advice=advice,
        )
        file = read_config(Configured(config=optional_path(config), no_config=no_config), allow_outside=allow_outside)
        result = run_check(check_plan(judging, run, file, offline=not network), Progress(None))
    if result.verdict.outcome == "partial":
        raise KeyboardInterrupt
    return result


def load(path: AnyPath) -> CheckResult:
    """Load a result that `kvtool profile`, `check` or `lint` wrote with `--json` or `-o`, or that `to_json` returned.

    A profile becomes a check with one report. Raises KvtoolError for other files and for newer schemas.
    """
    from kvtool.results.files import load_result

    with _told():
        return load_result(path_of(path))


def diff_prompts(
    a: Prompt | os.PathLike[str],
    b: Prompt | os.PathLike[str],
    *,
    tokenizer: AnyPath | None = None,
    chat_template: AnyPath | None = None,
    block_size: int = EngineConfig.block_size,
    network: bool = False,
) -> PromptDiff:
    """Compare two prompts: the blocks and tokens of `a` that `b` reuses, their first difference, and fixes.

    Args:
        a: A text, a list of chat messages or a request body; a `pathlib.Path` is a file with a prompt.
        b: As `a`.
        tokenizer: As for `profile`.
        chat_template: As for `profile`.
        block_size: Tokens per KV block.
        network: Whether a tokenizer that is not cached may be downloaded.

    Raises:
        KvtoolError: A prompt cannot be read.
    """
    from kvtool.diff.side_inputs import InputSide, read_sides
    from kvtool.diff.sides import Rendered, diff_sides
    from kvtool.text.templates.chat import ChatTemplate
    from kvtool.text.tokens.tokenizer import load_tokenizer
    from kvtool.workload.logs.logs import LogOptions
    from kvtool.workload.prompts_in_memory import MemorySource
    from kvtool.workload.render import Renderer

    def side(name: str, prompt: Prompt | os.PathLike[str]) -> InputSide:
        if isinstance(prompt, os.PathLike):
            return read_sides([os.fspath(prompt)])[0]
        turn = next(MemorySource([prompt], LogOptions()).conversations()).next_turn(None)
        if turn is None or turn.hashed is not None:
            raise KvtoolError(f"prompt {name} has no text or tokens")
        return InputSide(name, turn, name)

    with _told():
        if block_size < 1:
            raise KvtoolError(f"block_size must be at least 1, not {block_size}")
        renderer = Renderer(
            lambda: load_tokenizer(optional_path(tokenizer), offline=not network),
            lambda loaded: ChatTemplate.load(optional_path(chat_template), loaded),
        )
        held, asked = (Rendered.of(side(name, prompt), renderer) for name, prompt in (("a", a), ("b", b)))
        return diff_sides(held, asked, renderer, block_size)


def _report(
    options: RunOptions,
    limits: Limits,
    wanted: ReportOptions,
    source: MemorySource | None,
    *,
    show_text: ShowText,
    network: bool,
) -> Report:
    """Account for it, judge it, and describe it."""
    from kvtool.config.option import check_values
    from kvtool.gate.profiled import chosen_baseline, judge
    from kvtool.profiler.document import saved_report
    from kvtool.profiler.opening import open_workload
    from kvtool.profiler.patches import patches_of
    from kvtool.text.terminal.progress import Progress
    from kvtool.text.tokens.tokenizer import Tokenizers

    check_values(limits)
    options.check()
    opened = open_workload(options, Tokenizers(offline=not network), source=source)
    profiler = opened.profiler(wanted, Progress(None), measure=True)
    found = opened.run(profiler)
    if found.partial:
        raise KeyboardInterrupt
    found = judge(found, opened, limits, *chosen_baseline(limits))
    patches = patches_of(profiler, found.findings) if show_text == "full" else None
    return saved_report(found, show_text=show_text, patches=patches)


@notebook_html.register
def _check_html(result: CheckResult) -> str:
    """Return the HTML of a check for a notebook."""
    from kvtool.report.html.fragment import fragment

    return fragment(result)


@notebook_html.register
def _report_html(report: Report) -> str:
    """Return the HTML of a profile for a notebook."""
    return _check_html(check_of(report))


@contextmanager
def _told() -> Iterator[None]:
    """Everything that is a caller's mistake as a KvtoolError, whose traceback shows places and hints, too."""
    from kvtool.engine.engine_error import EngineError

    try:
        yield
    except (KvtoolError, EngineError, OSError) as error:
        mistake = as_error(error)
        if mistake is None:
            raise
        for each in mistake.errors if isinstance(mistake, ProblemsError) else [mistake]:
            _noted(mistake, each)
        if mistake is error:
            raise
        raise mistake from error


def _noted(shown: KvtoolError, error: KvtoolError) -> None:
    """Put what an error knows beyond its message under the traceback of the one that is shown."""
    if shown is not error:
        shown.add_note(f"{error.place}: {error.message}" if error.place else error.message)
    elif error.place is not None:
        shown.add_note(f"at {error.place}")
    if error.hint is not None:
        shown.add_note(f"help: {error.hint}")
