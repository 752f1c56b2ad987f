"""The shape of a workload file, as pydantic models; what a combination of keys means is checked in `checks`.

The text under a field is its description in the JSON Schema, which editors show.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from kvtool.results import choices
from kvtool.text.files.yaml_nodes import Scalar
from kvtool.workload.yaml.fields import (
    FINDING_KEY_PATTERN,
    MOST_ORDERS,
    Bool,
    Bytes,
    CapacityField,
    CostField,
    Count,
    Duration,
    FindingKey,
    Fraction,
    HostMib,
    Integer,
    Interval,
    LimitField,
    LongestField,
    Name,
    Natural,
    OutputTokens,
    Percentage,
    PickField,
    PoolBlocks,
    Rate,
    Share,
    Str,
    Text,
    ThresholdField,
    Tokens,
    ToolsField,
    Value,
    Version,
    Weight,
    as_int,
    as_str,
)
from kvtool.workload.yaml.variable_fields import CountField, DataField, FunctionName

DEFAULT_SESSION_OUTPUT = 64
"""Tokens of an answer in a session, where nothing is said: it becomes part of the next prompt, so it must not be tiny."""


class SpecModel(BaseModel):
    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )


Process = Annotated[Literal["poisson", "uniform", "burst"], BeforeValidator(as_str)]
Order = Annotated[Literal["interleaved", "sequential"], BeforeValidator(as_str)]
Role = Annotated[Literal["system", "developer", "user", "assistant", "tool"], BeforeValidator(as_str)]
CacheTime = Annotated[Literal["5m", "1h"], BeforeValidator(as_str)]
Caching = Annotated[Literal["automatic", "none"], BeforeValidator(as_str)]
Scope = Annotated[Literal["request", "session", "workload"], BeforeValidator(as_str)]
UuidForm = Annotated[Literal["4", "hex"], BeforeValidator(as_str), WithJsonSchema({"enum": [4, "4", "hex"]})]
Routing = Annotated[choices.Routing, BeforeValidator(as_str)]
RulesOf = Annotated[choices.RulesOf, BeforeValidator(as_str)]
SchedulePolicy = Annotated[choices.SchedulePolicy, BeforeValidator(as_str)]
MambaDtype = Annotated[choices.MambaDtype, BeforeValidator(as_str)]
RadixEviction = Annotated[choices.RadixEviction, BeforeValidator(as_str)]
StateStrategy = Annotated[choices.StateStrategy, BeforeValidator(as_str)]
BadLine = Annotated[choices.OnBadLine, BeforeValidator(as_str)]
GateLevel = Annotated[Literal["off", "warn", "error"], BeforeValidator(as_str)]


class EngineOptions(SpecModel):
    """Options of the engine. The next place that gives an option decides it where this one leaves it out."""

    model: Str | None = None
    """Model for predictions and sizes: a preset such as llama-3.1-8b, or a folder."""
    accelerator: Str | None = None
    """Accelerator to predict for, such as h100."""
    tokenizer: Str | None = None
    """Tokenizer: tokenizer.json, a folder or a Hugging Face id."""
    chat_template: Str | None = None
    """Jinja chat template."""
    block_size: Count | None = None
    """Tokens per KV block."""
    capacity: CapacityField | None = None
    """KV cache: blocks (20000), tokens ("320k tokens") or memory ("20GiB")."""
    num_gpu_blocks: PoolBlocks | None = None
    """KV blocks as vLLM logs them, with the unused null block."""
    gpu_memory: Bytes | None = None
    """Memory of the accelerator, weights included. Not with `capacity` or `num_gpu_blocks`."""
    gpu_memory_utilization: Fraction | None = None
    """Share of `gpu_memory` that may be used."""
    max_model_len: Count | None = None
    """Longest prompt plus answer, in tokens."""
    max_num_batched_tokens: Count | None = None
    """Most tokens per step."""
    max_num_seqs: Count | None = None
    """Most requests per step."""
    enable_prefix_caching: Bool | None = None
    """Reuse the KV blocks of earlier prompts."""
    enable_chunked_prefill: Bool | None = None
    """Compute a long prompt in several steps."""
    kv_cache_dtype: Str | None = None
    """Data type of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2 or int8."""
    tensor_parallel: Count | None = None
    """Accelerators that share the model."""
    concurrency: Count | None = None
    """Requests at once."""
    replicas: Count | None = None
    """Engines, each with its own cache."""
    routing: Routing | None = None
    """Router that assigns requests to replicas."""
    ttl: Duration | None = None
    """Lifetime of unused blocks."""
    provider: Str | None = None
    """Cache rules of a provider: openai, anthropic, gemini, deepseek and others."""
    rules: RulesOf | None = None
    """Cache rules of an engine; block-lru is the LRU list of trace studies."""
    prefix_cache_retention_interval: Interval | None = None
    """Interval in tokens at which vLLM keeps windows and states. "none": wherever possible."""
    prefix_match_unit: Count | None = None
    """Granularity of vLLM's hits in tokens, also inside long blocks."""
    disable_hybrid_kv_cache_manager: Bool | None = None
    """Keep windows in vLLM as if they were full attention."""
    mamba_ssm_cache_dtype: MambaDtype | None = None
    """Data type of vLLM's state of linear attention; it sets the block size."""
    speculative_config: Str | None = None
    """Drafts, as vLLM takes them in JSON: {"method": "mtp", "num_speculative_tokens": 2}."""
    page_size: Count | None = None
    """Tokens per page of SGLang."""
    max_total_tokens: Count | None = None
    """Size of SGLang's KV pool in tokens; the same as `capacity`."""
    radix_eviction_policy: RadixEviction | None = None
    """Eviction order of the leaves of SGLang's radix tree."""
    mamba_radix_cache_strategy: StateStrategy | None = None
    """States that SGLang keeps for the next requests."""
    protected_threshold: Count | None = None
    """Uses of a node that protect it in SGLang, with slru."""
    schedule_policy: SchedulePolicy | None = None
    """Order of SGLang's waiting queue. Needs `concurrency`."""
    chunked_prefill_size: Count | None = None
    """Prompt tokens per prefill chunk of SGLang."""
    max_running_requests: Count | None = None
    """Most requests that SGLang runs at once."""
    parallel: Count | None = None
    """Server slots of llama.cpp; each gets its part of the context."""
    ctx_size: Count | None = None
    """Size of the context: KV tokens of all server slots of llama.cpp together."""
    kv_unified: Bool | None = None
    """Share one KV pool among all server slots of llama.cpp."""
    cache_ram: HostMib | None = None
    """Host memory of llama.cpp for saved prompts, in MiB; 0: none, -1: no limit."""
    cache_idle_slots: Bool | None = None
    """Save all other server slots of llama.cpp at each request."""
    slot_prompt_similarity: Share | None = None
    """Share of a prompt that a server slot of llama.cpp must contain to be chosen; 0: off."""
    cache_reuse: Natural | None = None
    """Shortest chunk that llama.cpp moves to another position, in tokens; 0: off."""
    swa_full: Bool | None = None
    """Keep all tokens in sliding-window layers of llama.cpp."""
    ctx_checkpoints: Natural | None = None
    """Checkpoints of the sliding window per server slot of llama.cpp."""
    batch_size: Count | None = None
    """Tokens of a prompt that llama.cpp submits at once."""
    ubatch_size: Count | None = None
    """Tokens that llama.cpp computes at once."""
    sliding_window: Count | None = None
    """Sliding window of the model in tokens, for llama.cpp."""
    tokens_per_block: Count | None = None
    """Tokens per KV block of TensorRT-LLM, a power of two."""
    max_tokens: Count | None = None
    """Size of TensorRT-LLM's KV pool in tokens; the same as `capacity`."""
    enable_partial_reuse: Bool | None = None
    """Reuse parts of blocks in TensorRT-LLM."""
    copy_on_partial_reuse: Bool | None = None
    """Copy a partly reused block that other requests of TensorRT-LLM need."""
    retention_priority: Percentage | None = None
    """Retention priority of TensorRT-LLM's prompt blocks, 0 to 100."""
    decode_retention_priority: Percentage | None = None
    """Retention priority of TensorRT-LLM's answer blocks, 0 to 100."""


class GateOptions(SpecModel):
    """Limits of a workload or a group; without a limit, nothing is checked. Ratios are 0.8, "80%" or ">=80%"."""

    hit_rate: ThresholdField | None = None
    """Lowest share of prompt tokens that are cache hits, such as 80%."""
    reachable_gap: LimitField | None = None
    """Largest gap to the hit rate of an unlimited cache, such as 5%."""
    reported_gap: LimitField | None = None
    """Largest gap between the predicted and the reported hit rate of a provider, in logs with reported tokens."""
    cost_per_1k_requests: CostField | None = None
    """Highest cost of 1,000 requests to hosted models in dollars, such as $4."""
    ttft_p50: LongestField | None = None
    """Longest predicted time to first token: median."""
    ttft_p90: LongestField | None = None
    """Longest predicted time to first token: 90th percentile."""
    ttft_p99: LongestField | None = None
    """Longest predicted time to first token: 99th percentile."""
    findings: dict[FindingKey, GateLevel] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"pattern": FINDING_KEY_PATTERN}}
    )
    """Effect of findings: off, warn or error, by code (KV101), beginning of a code (KV1) or severity (error)."""
    level: GateLevel = "error"
    """Effect of a broken limit: error fails, warn only warns, off does nothing."""


def _variable(value: object) -> object:
    return {"text": value} if isinstance(value, Scalar | str) else value


VariableField = Annotated["Variable", BeforeValidator(_variable, json_schema_input_type=Union["Variable", Value])]
Variables = dict[str, VariableField]


class Variable(SpecModel):
    """A template variable; exactly one of `datetime` to `function` is its kind."""

    datetime: Duration | None = None
    """Clock that moves on by this much with each request."""
    uuid: UuidForm | None = None
    """Random UUID: 4 (with dashes) or hex."""
    counter: Integer | None = None
    """Whole numbers, counted from this one."""
    choice: Annotated[list[DataField], Field(min_length=1)] | None = None
    """Texts, lists or mappings, one for each value."""
    file: Text | None = None
    """File with a value on each line; without `key`, a record of JSON lines is a value."""
    range: Annotated[list[Integer], Field(min_length=2, max_length=2)] | None = None
    """Whole numbers from the first to the second, both included."""
    text: Value | None = None
    """Constant text."""
    bool_: Annotated[Share | None, Field(alias="bool")] = None
    """Truth value, with this share of true."""
    object_: Annotated[Variables | None, Field(alias="object", min_length=1)] = None
    """Object or mapping of variables; the field "*" is any other key."""
    list_: Annotated[VariableField | None, Field(alias="list")] = None
    """List of values of this variable."""
    items: Annotated[list[VariableField], Field(min_length=1)] | None = None
    """List with these variables as items."""
    function: VariableField | None = None
    """Function that returns a value of this variable, for any arguments."""
    count: CountField | None = None
    """Number of items of `list`: 3, or from 1 to 5: [1, 5]."""
    orders: Annotated[Integer, Field(ge=1, le=MOST_ORDERS)] | None = None
    """Random orders of `items`; requests take one after the other."""
    start: Str | None = None
    """First time of `datetime`."""
    format: Str | None = None
    """Notation of `datetime`, as in strftime, or text around `counter`. Templates format `object` and `date-object`."""
    step: Integer | None = None
    """Step of `counter`."""
    weights: list[Weight] | None = None
    """Weight of each `choice`."""
    key: Str | None = None
    """Field of a `file` of JSON lines."""
    pick: PickField | None = None
    """Order of the values: cycle, random, zipf or {zipf: 1.1}."""
    per: Scope = "request"
    """Lifetime of a value: a request, a session or the whole workload."""


class TextSource(SpecModel):
    """Text written here, in a file, or in one of several files."""

    text: Text | None = None
    """Text, as a Jinja template."""
    file: Text | None = None
    """File with the text; paths start at the folder of the workload file."""
    glob: Text | None = None
    """Files with the texts, one for each request."""
    pick: PickField | None = None
    """Order of the files of `glob`: cycle, random, zipf or {zipf: 1.1}."""
    raw: Bool = False
    """Keep the text as it is; it is no template."""


class PromptPart(TextSource):
    """A message or a segment; `stable` and `volatile` are promises of its author."""

    stable: Bool = False
    """Promise: the text is the same in all requests."""
    volatile: Bool = False
    """Promise: the text changes with each request, on purpose."""

    @property
    def asserted(self) -> bool | None:
        return True if self.stable else False if self.volatile else None


class MessagePart(PromptPart):
    """A message of a chat."""

    role: Role
    """Who speaks."""
    name: Name | None = None
    """Name of the speaker."""
    cache_control: CacheTime | None = None
    """Cache breakpoint (cache_control) on this message, and its time to live: 5m, 1h."""


class SegmentPart(PromptPart):
    """A piece of a prompt without roles."""

    id: Name | None = None
    """Name of the segment in reports."""


class Arrival(SpecModel):
    """Arrival times of requests; `burst` is the number of requests at the same moment."""

    process: Process
    """Distribution of the times: poisson (random), uniform (regular) or burst."""
    rate: Rate
    """Requests per time: 8/s, 120/min."""
    start: Duration = 0.0
    """Earliest time of the first request."""
    burst: Count | None = None
    """Requests at the same moment."""


class Sessions(SpecModel):
    """Conversations; each turn repeats all turns before it."""

    count: Annotated[int, Field(ge=1, le=10**6), BeforeValidator(as_int)]
    """Number of conversations."""
    turns: Annotated[int, Field(ge=1, le=10**4), BeforeValidator(as_int)]
    """Turns per conversation."""
    output_tokens: OutputTokens | None = None
    """Length of an answer, which becomes part of the next prompt."""
    order: Order | None = None
    """Order of the sessions: interleaved (first turns of all, then second turns), or sequential."""
    think: Duration | None = None
    """Time between an answer and the next turn."""


class Generate(SpecModel):
    """Token-id prompts: `prefixes` shared prefixes, each with `per_prefix` suffixes of its own."""

    prefixes: Count
    """Number of prefixes."""
    per_prefix: Count
    """Requests per prefix."""
    prefix_tokens: Tokens
    """Length of a prefix."""
    suffix_tokens: Tokens
    """Length of the text after the prefix."""
    order: Order = "interleaved"
    """Order of the prefixes: in turn (interleaved) or one after the other (sequential)."""
    output_tokens: OutputTokens = 1
    """Length of an answer."""


class Import(SpecModel):
    """Logs; exactly one of the four names the files."""

    jsonl: Text | None = None
    """JSON lines, a request on each line; a file or a pattern."""
    json_: Annotated[Text | None, Field(alias="json")] = None
    """JSON document with requests."""
    txt: Text | None = None
    """Text files, a prompt in each."""
    mooncake: Text | None = None
    """Trace of block hashes."""
    format: Str | None = None
    """Format of the records."""
    block_size: Count | None = None
    """Tokens per hash of a trace."""
    on_bad_line: BadLine | None = None
    """Stop at a bad line (error), or skip and count it (skip)."""
    limit: Count | None = None
    """Number of requests to read."""


class GroupSpec(TextSource):
    """Requests of one kind; exactly one of text, file, glob, messages, segments, generate and import is their prompt."""

    name: Name
    """Name of the group in reports."""
    requests: Count | None = None
    """Number of requests."""
    tenant: Text | None = None
    """Tenant as the salt of the cache: tenants share no blocks."""
    arrival: Arrival | None = None
    """Arrival times of the requests."""
    messages: Annotated[list[MessagePart], Field(min_length=1)] | None = None
    """Messages of a chat."""
    cache_control: Caching | None = None
    """Caching of the whole request: automatic (a breakpoint at the last block), or none."""
    segments: Annotated[list[SegmentPart], Field(min_length=1)] | None = None
    """Pieces of a prompt, in order."""
    join: Text | None = None
    """Text between segments."""
    generate: Generate | None = None
    """Synthetic prompts of given lengths."""
    import_: Annotated[Import | None, Field(alias="import")] = None
    """Logs to read."""
    tools: ToolsField | None = None
    """Function schemas before the messages, or {file: tools.json}; {items: […], orders: 4} sends them in that many orders."""
    sessions: Sessions | None = None
    """Conversations of several turns."""
    output_tokens: OutputTokens | None = None
    """Length of an answer."""
    output: Text | None = None
    """Answer, as a template."""
    vars: Variables = Field(default_factory=dict)
    """Variables of the templates of this group."""
    gate: GateOptions | None = None
    """Limits of this group."""
    limit: Count | None = None
    """Number of requests to keep."""


class Workload(SpecModel):
    """A workload of kvtool: groups of requests, and the engine that they run on."""

    version: Version
    """Version of this format: 1."""
    name: Name | None = None
    """Name of the workload."""
    seed: Natural = 0
    """Seed of all random values: UUIDs, random picks, arrivals."""
    engine: EngineOptions = Field(default_factory=EngineOptions)
    """Options of the engine."""
    vars: Variables = Field(default_factory=dict)
    """Variables of all templates."""
    tools: ToolsField | None = None
    """Function schemas of all chats, or {file: tools.json}."""
    filters: list[FunctionName] = Field(default_factory=list)
    """Jinja filters of your application. Here each gives its value unchanged."""
    tests: list[FunctionName] = Field(default_factory=list)
    """Jinja tests of your application. Here each is true of a value that is not empty."""
    groups: Annotated[list[GroupSpec], Field(min_length=1)]
    """Groups of requests."""
