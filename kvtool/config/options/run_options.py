"""The options that decide a run: what is predicted, how prompts become tokens, the engine, its cache, the inputs, real runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from kvtool.config import bounds
from kvtool.config.option import Decides, Option, Panel
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
"""Default seconds for real runs."""


@dataclass(frozen=True, kw_only=True)
class Predicting:
    """Model and machine of predictions."""

    PANEL: ClassVar = Panel.MODEL
    model: Annotated[
        str | None,
        Option(
            "Model: a preset, a folder or a config.json.",
            "NAME",
            short="-m",
            table="engine",
            default=DEFAULT_MODEL,
            shown="the log's, else {}",
            also="--model-preset --model-config",
        ),
    ] = None
    accelerator: Annotated[
        str | None,
        Option("Accelerator to predict for.", "NAME", table="engine", default=DEFAULT_ACCELERATOR),
    ] = None
    calibration: Annotated[
        str | None,
        Option("Calibration of kvtool bench -o: predicts for the machine that wrote it.", "FILE", panel=Panel.ADVANCED),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """Tokenizer and chat template."""

    PANEL: ClassVar = Panel.MODEL
    tokenizer: Annotated[
        str | None,
        Option(
            "Tokenizer: path or HF id.",
            "NAME",
            short="-t",
            table="engine",
            words="built in",
        ),
    ] = None
    chat_template: Annotated[
        str | None, Option("Jinja chat template.", "FILE", table="engine", words="the tokenizer's")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Serving:
    """KV cache and scheduler of the engine."""

    PANEL: ClassVar = Panel.CACHE
    block_size: Annotated[
        int | None,
        Option(
            "Tokens per KV block.",
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
            "KV cache: 20000 (blocks), '320k tokens' or 20GiB.",
            "SIZE",
            table="engine",
            words="unlimited",
            see=("num_gpu_blocks", "max_total_tokens", "max_tokens"),
        ),
    ] = None
    num_gpu_blocks: Annotated[
        int | None,
        Option(
            "KV blocks as vLLM logs them, with the unused null block.",
            "N",
            table="engine",
            words="unlimited",
            check=bounds.at_least_two,
            panel=Panel.ADVANCED,
        ),
    ] = None
    gpu_memory: Annotated[
        str | None,
        Option("Memory of the accelerator, weights included.", "SIZE", table="engine", words="none"),
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        Option(
            "Share of the accelerator's memory that may be used.",
            "X",
            table="engine",
            default=DEFAULT_UTILIZATION,
            check=bounds.fraction,
            panel=Panel.ADVANCED,
        ),
    ] = None
    max_model_len: Annotated[
        int | None,
        Option(
            "Longest prompt plus answer, in tokens.",
            "N",
            table="engine",
            words="unlimited",
            check=bounds.at_least_one,
            panel=Panel.ADVANCED,
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None,
        Option(
            "Most tokens per step; with --accelerator, vLLM's value for it.",
            "N",
            table="engine",
            default=EngineConfig.max_num_batched_tokens,
            check=bounds.at_least_one,
            panel=Panel.ADVANCED,
        ),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        Option(
            "Most requests per step; with --accelerator, vLLM's value for it.",
            "N",
            table="engine",
            default=EngineConfig.max_num_seqs,
            check=bounds.at_least_one,
            panel=Panel.ADVANCED,
        ),
    ] = None
    enable_prefix_caching: Annotated[
        bool | None,
        Option(
            "Reuse the KV blocks of earlier prompts.",
            flag="--enable-prefix-caching/--no-enable-prefix-caching",
            table="engine",
            default=EngineConfig.enable_prefix_caching,
            panel=Panel.ADVANCED,
        ),
    ] = None
    enable_chunked_prefill: Annotated[
        bool | None,
        Option(
            "Compute a long prompt in several steps.",
            flag=None,
            table="engine",
            default=EngineConfig.enable_chunked_prefill,
        ),
    ] = None
    """No flag, as in vLLM V1."""
    kv_cache_dtype: Annotated[
        str | None,
        Option(
            "Data type of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2 or int8.",
            "NAME",
            table="engine",
            default=AUTO,
            panel=Panel.ADVANCED,
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        Option(
            "Accelerators that share the model.",
            "N",
            table="engine",
            default=1,
            check=bounds.at_least_one,
            panel=Panel.ADVANCED,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Mirroring:
    """Details of one vLLM server."""

    PANEL: ClassVar = Panel.ADVANCED
    server: Annotated[
        str | None,
        Option("Running server to read unset options from.", "URL"),
    ] = None
    async_scheduling: Annotated[bool, Option("Schedule one step ahead, as vLLM does.")] = False
    hash_algo: Annotated[
        HashAlgorithm | None,
        Option(
            "Hash algorithm of --events: use the server's (vLLM: sha256), with its PYTHONHASHSEED.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings that only a running server reports; None: vLLM's defaults. No flag gives them."""

    server_model: str | None = None
    """The model that the server runs, where the user names none."""
    policy: Literal["fcfs", "priority"] | None = None
    watermark: float | None = None
    long_prefill_token_threshold: int | None = None
    long_prefill_token_threshold_adaptive: bool | None = None
    max_num_active_seqs: int | None = None
    scheduler_reserve_full_isl: bool | None = None
    prefill_schedule_interval: int | None = None
    release: str | None = None
    """Of vLLM, where its rules are known."""

    def scheduler(self) -> dict[str, Any]:
        """Return the settings of the scheduler, by the names of the engine's configuration."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "server_model"}


@dataclass(frozen=True, kw_only=True)
class Caching:
    """Concurrency, arrival times, and rules beyond one engine: replicas, time to live, provider."""

    PANEL: ClassVar = Panel.CACHE
    concurrency: Annotated[
        int | None,
        Option(
            "Requests at once.",
            "N",
            table="engine",
            words="one at a time",
            check=bounds.at_least_one,
        ),
    ] = None
    use_timestamps: Annotated[bool, Option("Send requests at the times in the log.")] = False
    replicas: Annotated[
        int | None,
        Option(
            "Engines, each with its own cache.",
            "N",
            table="engine",
            default=1,
            check=bounds.at_least_one,
        ),
    ] = None
    routing: Annotated[
        Routing | None,
        Option(
            "Router that assigns requests to replicas.", table="engine", default="round-robin", panel=Panel.ADVANCED
        ),
    ] = None
    ttl: Annotated[
        str | None,
        Option("Lifetime of unused blocks: 5m, 1h.", "TIME", table="engine", words="none"),
    ] = None
    provider: Annotated[
        str | None,
        Option("Cache rules of a provider, such as openai.", "NAME", table="engine", words="none"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """Cache rules."""

    PANEL: ClassVar = Panel.CACHE
    rules: Annotated[
        RulesAsked | None,
        Option(
            "Cache rules to follow.",
            table="engine",
            default="vllm",
        ),
    ] = None
    trace_block_size: Annotated[
        int, Option("Tokens per hash id of a block trace.", "N", check=bounds.at_least_one, panel=Panel.ADVANCED)
    ] = TRACE_BLOCK


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Formats of inputs, and the part to read."""

    PANEL: ClassVar = Panel.LOGS
    on_bad_line: Annotated[OnBadLine, Option("Stop at a bad line, or skip it.")] = "error"
    log_format: Annotated[str | None, Option("Log format.", "NAME", flag="--format", words="detected per record")] = (
        None
    )
    log_map: Annotated[
        str | None,
        Option(
            "Fields of an unknown format: messages=a.b,time=c",
            "NAME=PATH,...",
            flag="--map",
            check=bounds.log_map,
        ),
    ] = None
    tenant: Annotated[
        str | None,
        Option("Log field that names the tenant.", "FIELD", check=bounds.field),
    ] = None
    requests: Annotated[
        int | None,
        Option(
            "Number of requests to read.",
            "N",
            short="-n",
            table="",
            words="all",
            check=bounds.at_least_one,
            panel=Panel.COMMON,
        ),
    ] = None
    group_by: Annotated[
        str | None,
        Option(
            "Fields that form groups: service,metadata.route; or file, system.",
            "FIELD",
            table="",
            check=bounds.fields,
            words="detected",
        ),
    ] = None
    verbose: Annotated[bool, Option("List the skipped files of folders.", short="-v", panel=Panel.ADVANCED)] = False
    groups: Annotated[
        tuple[str, ...],
        Option(
            "Group of the workload or log to run; repeatable.", "NAME", flag="--group", short="-g", panel=Panel.COMMON
        ),
    ] = ()
    seed: Annotated[
        int | None,
        Option(
            "Seed of all random values.",
            "N",
            short="-s",
            table="",
            default=0,
            check=bounds.not_negative,
            panel=Panel.ADVANCED,
        ),
    ] = None
    allow_outside: Annotated[
        bool,
        Option(
            "Allow workloads and the configuration to name files outside their repository or folder.",
            panel=Panel.ADVANCED,
        ),
    ] = False
    jobs: Annotated[
        int | None,
        Option(
            "Processes for logs, sweeps and lint; 1 uses one core.",
            "N",
            variable=True,
            check=bounds.at_least_one,
            decides=Decides.SPEED,
            panel=Panel.ADVANCED,
            words="2 for large inputs",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Real runs: time, model, device, and files with their events."""

    PANEL: ClassVar = Panel.ADVANCED
    measure_budget: Annotated[
        float | None,
        Option(
            "Time for real runs of the embedded model or of a --model folder; 0: none.",
            "SECONDS",
            default=DEFAULT_BUDGET,
            check=bounds.seconds,
        ),
    ] = None
    dry_run: Annotated[bool, Option("Count and predict only; run no model.", panel=Panel.COMMON)] = False
    load_format: Annotated[
        LoadFormat, Option("Weights of a --model folder in real runs: its own, or random (dummy).")
    ] = "auto"
    dtype: Annotated[
        str, Option("Data type of real runs: auto, float32, bfloat16 or float16.", "NAME", check=bounds.model_dtype)
    ] = AUTO
    device: Annotated[
        str,
        Option(
            "Device of real runs: auto (CUDA if there is one), cpu, cuda or cuda:N.",
            "NAME",
            variable=True,
            check=bounds.device,
        ),
    ] = "auto"
    decode_attention: Annotated[
        DecodeMode,
        Option("Attention in decode: read shared prefixes per request (flat), once (prefix-aware), or the faster way."),
    ] = "auto"
    decode_batch: Annotated[
        int | None,
        Option(
            "Conversations that decode together, if the run does not say.",
            "N",
            default=DEFAULT_DECODE_BATCH,
            check=bounds.at_least_one,
            shown="{}, or what a step takes",
        ),
    ] = None
    audit: Annotated[bool, Option("Compare the logits of reused and of computed prefixes.")] = False
    events: Annotated[
        str | None,
        Option(
            "File for KV events: JSON lines in vLLM's fields, with prompts as token ids, and salts.",
            "FILE",
            decides=Decides.OUTPUT,
        ),
    ] = None
    events_no_tokens: Annotated[bool, Option("Leave token ids and salts out of --events.", decides=Decides.OUTPUT)] = (
        False
    )
    metrics: Annotated[
        str | None, Option("File for Prometheus metrics with vLLM's names.", "FILE", decides=Decides.OUTPUT)
    ] = None
    kv_events: Annotated[
        str | None,
        Option(
            "KV events of a server for these requests: a recording (file or folder), or a file of --events.",
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
