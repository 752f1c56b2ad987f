"""The options that decide a run: what is predicted, how prompts become tokens, the engine, its cache, the inputs, real runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kvtool.config import bounds
from kvtool.config.option import Decides, Option
from kvtool.engine.config import (
    DEFAULT_ACCELERATOR,
    DEFAULT_DECODE_BATCH,
    DEFAULT_MODEL,
    DEFAULT_UTILIZATION,
    DecodeMode,
    EngineConfig,
    HashAlgorithm,
)
from kvtool.engine.kv_dtype import AUTO
from kvtool.results.choices import OnBadLine, Routing, RulesAsked
from kvtool.workload.logs import TRACE_BLOCK

LoadFormat = Literal["auto", "dummy"]

DEFAULT_BUDGET = 10.0
"""Seconds for real runs where nobody says how many."""


@dataclass(frozen=True, kw_only=True)
class Predicting:
    """Model and machine of predictions."""

    model: Annotated[
        str | None,
        Option(
            "Model for predictions and sizes: a preset, or its config.json. [default: the log's, else {default}]",
            "NAME",
            flag="--model --model-preset --model-config",
            short="-m",
            table="engine",
            default=DEFAULT_MODEL,
        ),
    ] = None
    accelerator: Annotated[
        str | None,
        Option(
            "Accelerator for predictions. [default: {default}]", "NAME", table="engine", default=DEFAULT_ACCELERATOR
        ),
    ] = None
    calibration: Annotated[
        str | None, Option("Predict for the machine that kvtool bench -o FILE was run on.", "FILE")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """Tokenizer and chat template."""

    tokenizer: Annotated[
        str | None,
        Option(
            "tokenizer.json, folder or HF id; default: {default}.", "NAME", short="-t", table="engine", words="built in"
        ),
    ] = None
    chat_template: Annotated[
        str | None, Option("Jinja chat template; default: {default}.", "FILE", table="engine", words="the tokenizer's")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The engine: the blocks of its cache, and how requests are scheduled."""

    block_size: Annotated[
        int | None,
        Option(
            "Tokens per KV block. [default: {default}]",
            "N",
            short="-b",
            table="engine",
            default=EngineConfig.block_size,
            check=bounds.at_least_one,
        ),
    ] = None
    capacity: Annotated[
        str | None,
        Option(
            "KV cache: 20000 (blocks), '320k tokens' or 20GiB in all. [default: {default}]",
            "SIZE",
            table="engine",
            words="unlimited",
        ),
    ] = None
    num_gpu_blocks: Annotated[
        int | None,
        Option(
            "The same as vLLM counts and logs it: blocks with the null block, which holds nothing.",
            "N",
            table="engine",
            words="unlimited",
            check=bounds.at_least_two,
        ),
    ] = None
    gpu_memory: Annotated[
        str | None,
        Option("Memory of the accelerator; what the weights leave is cache.", "SIZE", table="engine", words="not said"),
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        Option(
            "Part of it that may be used. [default: {default}]",
            "X",
            table="engine",
            default=DEFAULT_UTILIZATION,
            check=bounds.fraction,
        ),
    ] = None
    max_model_len: Annotated[
        int | None,
        Option(
            "Longest prompt and answer together.", "N", table="engine", words="unlimited", check=bounds.at_least_one
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None,
        Option(
            "Tokens per step. --accelerator makes the default vLLM's. [default: {default}]",
            "N",
            table="engine",
            default=EngineConfig.max_num_batched_tokens,
            check=bounds.at_least_one,
        ),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        Option(
            "Requests per step. --accelerator makes the default vLLM's. [default: {default}]",
            "N",
            table="engine",
            default=EngineConfig.max_num_seqs,
            check=bounds.at_least_one,
        ),
    ] = None
    enable_prefix_caching: Annotated[
        bool | None,
        Option(
            "[default: {default}]",
            flag="--enable-prefix-caching/--no-enable-prefix-caching",
            table="engine",
            default=EngineConfig.enable_prefix_caching,
        ),
    ] = None
    enable_chunked_prefill: Annotated[
        bool | None, Option("", flag=None, table="engine", default=EngineConfig.enable_chunked_prefill)
    ] = None
    """No flag, as in vLLM V1."""
    kv_cache_dtype: Annotated[
        str | None,
        Option(
            "Of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2, int8. [default: {default}]",
            "NAME",
            table="engine",
            default=AUTO,
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        Option(
            "Accelerators that share the model. [default: {default}]",
            "N",
            table="engine",
            default=1,
            check=bounds.at_least_one,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Mirroring:
    """Details of a certain vLLM server."""

    server: Annotated[
        str | None,
        Option("Take the configuration of a running server, where no flag says it; nothing is generated.", "URL"),
    ] = None
    async_scheduling: Annotated[bool, Option("Schedule a step ahead, as vLLM does by default.")] = False
    hash_algo: Annotated[
        HashAlgorithm | None,
        Option("Block hashes of --events; match a server's (vLLM: sha256) with its algorithm and PYTHONHASHSEED."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Caching:
    """Concurrency and arrival of requests, and rules beyond one engine's."""

    concurrency: Annotated[
        int | None,
        Option(
            "Requests at once. [default: {default}]",
            "N",
            table="engine",
            words="one at a time",
            check=bounds.at_least_one,
        ),
    ] = None
    use_timestamps: Annotated[bool, Option("Requests arrive at the times of the log.")] = False
    replicas: Annotated[
        int | None,
        Option(
            "Engines behind a router, each with a cache of its own.",
            "N",
            table="engine",
            default=1,
            check=bounds.at_least_one,
        ),
    ] = None
    routing: Annotated[
        Routing | None,
        Option("How requests are given to replicas. [default: {default}]", table="engine", default="round-robin"),
    ] = None
    ttl: Annotated[
        str | None,
        Option("A block not used for longer is gone: 5m, 1h. Needs arrivals.", "TIME", table="engine", words="none"),
    ] = None
    provider: Annotated[
        str | None,
        Option("Cache rules of openai, anthropic, gemini, deepseek and others.", "NAME", table="engine", words="none"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """By whose rules requests are accounted for."""

    rules: Annotated[
        RulesAsked | None,
        Option(
            "Whose cache it is: an engine's, the LRU of trace studies, or all engines beside each other. [default: {default}]",
            table="engine",
            default="vllm",
        ),
    ] = None
    trace_block_size: Annotated[int, Option("Tokens per hash id of a trace.", "N", check=bounds.at_least_one)] = (
        TRACE_BLOCK
    )


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Formats and parts of inputs."""

    on_bad_line: Annotated[OnBadLine, Option("Stop at a bad line of a log, or skip and count.")] = "error"
    log_format: Annotated[
        str | None, Option("Format of logs; default: found out per record.", "NAME", flag="--format")
    ] = None
    log_map: Annotated[
        str | None,
        Option(
            "Where records of logs of no known format have what: messages=a.b,session=c.d,usage=e.",
            "NAME=PATH,...",
            flag="--map",
            check=bounds.log_map,
        ),
    ] = None
    tenant: Annotated[
        str | None,
        Option("The field of a log's records that says whose request it is.", "FIELD", check=bounds.field),
    ] = None
    requests: Annotated[
        int | None,
        Option("Only the first N requests.", "N", short="-n", table="", words="all", check=bounds.at_least_one),
    ] = None
    group_by: Annotated[
        str | None,
        Option(
            "Groups of logs, by fields: service,metadata.route; or file, system. [default: {default}]",
            "FIELD",
            table="",
            words="found out",
            check=bounds.fields,
        ),
    ] = None
    verbose: Annotated[bool, Option("Name each file below folders that is passed over.", short="-v")] = False
    groups: Annotated[
        tuple[str, ...], Option("Only this group of the workload; repeatable.", "NAME", flag="--group", short="-g")
    ] = ()
    seed: Annotated[
        int | None,
        Option(
            "Seed of everything random. [default: {default}]",
            "N",
            short="-s",
            table="",
            default=0,
            check=bounds.not_negative,
        ),
    ] = None
    allow_outside: Annotated[
        bool, Option("Workloads and the configuration may name files outside of their repository, or folder.")
    ] = False
    jobs: Annotated[
        int | None,
        Option(
            "Processes that work on logs, rows of a sweep or files of lint; 1 uses one core. [default: {default}]",
            "N",
            words="2 where it is large",
            variable=True,
            check=bounds.at_least_one,
            decides=Decides.SPEED,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Real runs, what they compute with, and what is looked at in them."""

    measure_budget: Annotated[
        float | None,
        Option(
            "For real runs of the embedded model or a --model FOLDER; 0: none. [default: {default}]",
            "SECONDS",
            default=DEFAULT_BUDGET,
            check=bounds.seconds,
        ),
    ] = None
    dry_run: Annotated[bool, Option("Accounting and predictions only: --measure-budget 0.")] = False
    load_format: Annotated[LoadFormat, Option("Weights of a --model FOLDER for the real runs, or random ones.")] = (
        "auto"
    )
    dtype: Annotated[
        str, Option("Of that model: auto, float32, bfloat16, float16.", "NAME", check=bounds.model_dtype)
    ] = AUTO
    device: Annotated[
        str,
        Option(
            "Of the real runs: auto (CUDA where there is one), cpu, cuda or cuda:N.",
            "NAME",
            variable=True,
            check=bounds.device,
        ),
    ] = "auto"
    decode_attention: Annotated[
        DecodeMode, Option("Shared prefixes in decode: read for each request, once, or what pays.")
    ] = "auto"
    decode_batch: Annotated[
        int | None,
        Option(
            "Conversations that decode together, where the run says nothing about it. [default: {default}, or what a step takes]",
            "N",
            default=DEFAULT_DECODE_BATCH,
            check=bounds.at_least_one,
        ),
    ] = None
    audit: Annotated[bool, Option("Compare the logits of reused with those of computed prefixes.")] = False
    events: Annotated[
        str | None,
        Option(
            "Write KV events as JSON lines, in vLLM's fields: with every prompt as token ids, and salts.",
            "FILE",
            decides=Decides.OUTPUT,
        ),
    ] = None
    events_no_tokens: Annotated[bool, Option("Leave token ids and salts out of --events.", decides=Decides.OUTPUT)] = (
        False
    )
    metrics: Annotated[
        str | None, Option("Write Prometheus metrics, with vLLM's names.", "FILE", decides=Decides.OUTPUT)
    ] = None
    kv_events: Annotated[
        str | None,
        Option(
            "What a server's KV events say of these requests: of a recording (file or folder), or written by --events.",
            "FILE",
        ),
    ] = None

    @property
    def seconds(self) -> float:
        """Return the time for real runs."""
        if self.dry_run:
            return 0.0
        return DEFAULT_BUDGET if self.measure_budget is None else self.measure_budget

    @property
    def asked(self) -> bool:
        """Return whether a flag asks for real runs, which there are without one, too, where they can be had."""
        return self.measure_budget is not None or self.audit or self.device not in ("auto", "cpu")
