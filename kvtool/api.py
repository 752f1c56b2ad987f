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
    """Run a workload through the engine and report hit rates, where the tokens went, predicted TTFT, and what to change.

    The same as `kvtool profile --dry-run`, without a configuration file and without `KVTOOL_*` variables: the result depends on the
    arguments and the files alone. `None` leaves a setting to the workload file, then to the default.

    Args:
        inputs: A workload file, or one or more logs and prompt files; or prompts that the program holds, each a text, a list of
            chat messages or a request body, in the order in which they are sent. In a list, a string is a path where it names a
            file that is there or ends like one and has no spaces (`"a.jsonl"`), and a prompt otherwise; a `pathlib.Path` is
            always a path. Prompts are copied.
        model: A preset (`"llama-3.1-8b"`), an HF id of one, or a folder with a config.json: for predictions and sizes.
        accelerator: For predictions: `"h100"`, `"l4"`, …
        calibration: A file of `kvtool bench -o`, to predict for the machine that it is of; instead of `accelerator`.
        tokenizer: A tokenizer.json, a folder with one, or an HF id; the built-in one by default.
        chat_template: A file with a Jinja chat template; the tokenizer's own by default.
        block_size: Tokens per KV block; 16 by default.
        capacity: Of the KV cache: a number of blocks, `"320k tokens"` or `"20GiB"`; unlimited by default.
        num_gpu_blocks: The same as vLLM counts and logs it, the null block included.
        gpu_memory: Of the accelerator, in bytes or as `"24GiB"`; what the weights leave is cache.
        kv_cache_dtype: `"auto"`, `"fp16"`, `"bf16"`, `"fp8_e4m3"`, `"fp8_e5m2"` or `"int8"`.
        tensor_parallel: Accelerators that share the model.
        max_model_len: Tokens of the longest prompt and answer together.
        max_num_batched_tokens: Tokens per step; 8192 by default.
        max_num_seqs: Requests per step; 256 by default.
        enable_prefix_caching: False computes everything anew.
        concurrency: Requests at once; one at a time by default.
        use_timestamps: Requests arrive at the times of the log.
        replicas: Engines behind a router, each with a cache of its own.
        routing: `"round-robin"`, `"random"`, `"sticky"` or `"prefix-aware"`.
        ttl: How long a block is kept after its last use: `"5m"`, `"1h"`. Needs arrival times.
        provider: Cache rules of a provider: `"openai"`, `"anthropic"`, …
        rules: Whose cache it is: `"vllm"` (the default), `"sglang"`, `"llamacpp"`, `"trtllm"`, or `"block-lru"`, the accounting of
            trace studies.
        rule_options: Options of these rules, as the workload file names them: `{"page_size": 16}`.
        requests: Only the first so many.
        group_by: What divides logs and prompts into groups: fields of their records (`"service"`, `"metadata.route,model"`),
            `"file"` or `"system"`; found out by default.
        groups: Only these groups of a workload file.
        seed: Of everything random; 0 by default.
        on_bad_line: `"skip"` counts records that cannot be read, and goes on.
        log_format: The format of all records; found out for each by default.
        allow_outside: Whether a workload file may name files outside of its git repository (without one: its folder).
        min_hit_rate: A ratio from 0 to 1 that `report.verdict` judges, beside the gates in the workload file.
        by: Also sum by `"session"`, `"tenant"` or `"line"`.
        per_request: Also a row for each request.
        advice: Try fixes by running again; False is faster.
        views: Also what charts show: timeline, prefix tree, reuse distances.
        show_text: What of prompts the report may quote: `"snippet"` quotes the line of each finding, without keys, addresses and
            the like; `"full"` as it is, and the edits that would fix it.
        measure_budget: Seconds for real forward passes on this machine, the only part that is not deterministic; 0 for none.
        jobs: Processes that work on a log: 2 is nearly twice as fast for a large one, and forks the calling process, which must
            have no other threads then.
        network: Whether a tokenizer that is not cached may be downloaded.

    Raises:
        KvtoolError: An input or a setting cannot be used; `ProblemsError`, which is one, for several mistakes at once, and
            `NotAvailableError` for a tokenizer or a model that is not here.
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
    """Check workloads against their gates and a baseline, as `kvtool check` does; `result.verdict` says how it went.

    A gate that fails is no error here: look at `result.verdict.exit_code` (0: passed, 1: failed) or `result.verdict.outcome`.

    Args:
        inputs: Workloads, logs, prompts, templates; those that the configuration names where this is empty.
        config: The configuration file; by default the nearest `kvtool.toml` or `[tool.kvtool]` of the working folder.
        no_config: Read none.
        tokenizer: As for `profile`.
        min_hit_rate: A ratio from 0 to 1, or `"80%"`, that every workload must reach.
        error_on: Codes (`"KV101"`), beginnings of codes or severities of which one finding fails the check.
        baseline: The file to compare with; by default that of the configuration, or the usual one where it is there.
        max_drop: How far a hit rate may fall below the baseline's: a ratio, or `"1%"`.
        max_gpus: How many accelerators today's settings may need for the `slo`.
        min_goodput: Requests per second within the `slo` that today's replicas must reach.
        slo: What a request is to be served within: `"ttft=2s,tpot=50ms"`.
        require_baseline: Whether a missing or incomparable baseline is an error.
        update_baseline: Write the baseline instead of comparing with it. The only thing that this function ever writes.
        requests: Only the first so many of each workload.
        group_by: As for `profile`.
        seed: Of everything random.
        advice: Try fixes by running again.
        allow_outside: Whether workloads and the configuration may name files outside of their git repository (without one: their
            folder).
        network: Whether a tokenizer that is not cached may be downloaded.

    Raises:
        KvtoolError: As for `profile`; also where there is nothing to check.
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
    """Return a saved result: what `kvtool profile`, `check` or `lint` wrote with `--json` or `-o`, and what `to_json` gives.

    A profile is a check with one report. Raises KvtoolError for what is no result of kvtool, or of a newer schema.
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
    """What prompt `b` takes from a cache that holds prompt `a`: blocks and tokens, where they part, and what would bring them
    together.

    Args:
        a: A text, a list of chat messages or a request body; a `pathlib.Path` is a file with one.
        b: The same.
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
