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
Scope = Annotated[Literal["request", "session", "workload"], BeforeValidator(as_str)]
UuidForm = Annotated[Literal["4", "hex"], BeforeValidator(as_str), WithJsonSchema({"enum": [4, "4", "hex"]})]
Routing = Annotated[choices.Routing, BeforeValidator(as_str)]
Rules = Annotated[choices.Rules, BeforeValidator(as_str)]
SchedulePolicy = Annotated[choices.SchedulePolicy, BeforeValidator(as_str)]
MambaDtype = Annotated[choices.MambaDtype, BeforeValidator(as_str)]
RadixEviction = Annotated[choices.RadixEviction, BeforeValidator(as_str)]
BadLine = Annotated[choices.OnBadLine, BeforeValidator(as_str)]
GateLevel = Annotated[Literal["off", "warn", "error"], BeforeValidator(as_str)]


class EngineOptions(SpecModel):
    """What is asked of the engine; what is left out is decided by the next place that may say it, or by default.

    `replicas`, `routing`, `ttl` (seconds) and `provider` are rules beyond one engine's cache.
    """

    model: Str | None = None
    """Model for predictions and sizes: a preset such as llama-3.1-8b, or a folder."""
    accelerator: Str | None = None
    """Accelerator for predictions, such as h100."""
    tokenizer: Str | None = None
    """tokenizer.json, a folder or a Hugging Face id; left out: the built-in one."""
    chat_template: Str | None = None
    """A Jinja file; left out: the tokenizer's own."""
    block_size: Count | None = None
    """Tokens per KV block."""
    capacity: CapacityField | None = None
    """KV cache: blocks (20000), tokens ("320k tokens") or memory ("20GiB"); left out: unlimited."""
    num_gpu_blocks: PoolBlocks | None = None
    """The same as vLLM counts and logs it: blocks with the null block, which holds nothing."""
    gpu_memory: Bytes | None = None
    """Memory of the accelerator; what the weights leave is cache. Not together with `capacity` or `num_gpu_blocks`."""
    gpu_memory_utilization: Fraction | None = None
    """Part of `gpu_memory` that may be used."""
    max_model_len: Count | None = None
    """Longest prompt and answer together, in tokens."""
    max_num_batched_tokens: Count | None = None
    """Tokens per step."""
    max_num_seqs: Count | None = None
    """Requests per step."""
    enable_prefix_caching: Bool | None = None
    """Whether blocks are reused."""
    enable_chunked_prefill: Bool | None = None
    """Whether a long prompt may be computed in several steps."""
    kv_cache_dtype: Str | None = None
    """Of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2, int8."""
    tensor_parallel: Count | None = None
    """Accelerators that share the model."""
    concurrency: Count | None = None
    """Requests at once; left out: one at a time."""
    replicas: Count | None = None
    """Engines behind a router, each with a cache of its own."""
    routing: Routing | None = None
    """How requests are given to replicas."""
    ttl: Duration | None = None
    """A block that was not used for longer is gone."""
    provider: Str | None = None
    """Cache rules of a provider: openai, anthropic, gemini, deepseek and others."""
    rules: Rules | None = None
    """Whose cache it is: vllm, sglang, llamacpp, trtllm; or block-lru, the LRU list of trace studies."""
    prefix_cache_retention_interval: Interval | None = None
    """Tokens on whose multiples vLLM keeps windows and states; 0: at the end of a prompt alone; "none": wherever they can be."""
    prefix_match_unit: Count | None = None
    """Tokens on whose multiples hits of vLLM end; left out: a block."""
    disable_hybrid_kv_cache_manager: Bool | None = None
    """Whether vLLM keeps windows as if they were full attention; left out: as it decides itself."""
    mamba_ssm_cache_dtype: MambaDtype | None = None
    """Of the recurrent state of linear attention: auto, float32, float16, bfloat16."""
    speculative_config: Str | None = None
    """Drafts of vLLM, as JSON: {"method": "mtp", "num_speculative_tokens": 2}."""
    page_size: Count | None = None
    """Tokens in a page of SGLang."""
    max_total_tokens: Count | None = None
    """Tokens of SGLang's KV pool; the same as `capacity`."""
    radix_eviction_policy: RadixEviction | None = None
    """Which leaf of SGLang's tree goes first: lru, lfu, slru, priority."""
    protected_threshold: Count | None = None
    """Under slru, the uses from which a node of SGLang's is kept longest."""
    schedule_policy: SchedulePolicy | None = None
    """Who of those that wait for SGLang goes first: fcfs, lpm, dfs-weight; with `concurrency`."""
    chunked_prefill_size: Count | None = None
    """Tokens of a prompt that SGLang computes at once; left out: all."""
    max_running_requests: Count | None = None
    """Requests that SGLang runs at a time; left out: as many as fit."""
    parallel: Count | None = None
    """Slots of llama.cpp's server, each with its part of the context; left out: 4 that share it."""
    ctx_size: Count | None = None
    """Tokens of KV of all slots of llama.cpp together."""
    kv_unified: Bool | None = None
    """One pool for all slots of llama.cpp."""
    cache_ram: HostMib | None = None
    """Host memory for saved prompts of llama.cpp, in MiB; 0 is none, -1 has no limit."""
    cache_idle_slots: Bool | None = None
    """Whether a request to llama.cpp saves all other slots."""
    slot_prompt_similarity: Share | None = None
    """Part of a prompt that a slot of llama.cpp must hold to be chosen; 0 turns it off."""
    cache_reuse: Natural | None = None
    """The shortest chunk that llama.cpp moves to another position; 0 is none."""
    swa_full: Bool | None = None
    """Whether layers with a window keep all tokens in llama.cpp."""
    ctx_checkpoints: Natural | None = None
    """Checkpoints of the window that a slot of llama.cpp keeps."""
    ubatch_size: Count | None = None
    """Tokens that llama.cpp computes at once."""
    sliding_window: Count | None = None
    """The model's window in tokens, as llama.cpp reads it from the model."""
    tokens_per_block: Count | None = None
    """Tokens in a block of TensorRT-LLM, a power of two."""
    max_tokens: Count | None = None
    """Tokens of TensorRT-LLM's KV pool; the same as `capacity`."""
    enable_partial_reuse: Bool | None = None
    """Whether parts of blocks are reused in TensorRT-LLM."""
    copy_on_partial_reuse: Bool | None = None
    """Whether TensorRT-LLM copies a block of which a part is reused, where others need it."""
    retention_priority: Percentage | None = None
    """Priority of TensorRT-LLM's blocks of prompts, 0 to 100."""
    decode_retention_priority: Percentage | None = None
    """Priority of its blocks that hold nothing but answers."""


class GateOptions(SpecModel):
    """What is demanded of a workload or a group; what is left out is not demanded. Ratios are 0.8, "80%" or ">=80%"."""

    hit_rate: ThresholdField | None = None
    """Least part of the prompt tokens that must be cache hits: ">=80%"."""
    reachable_gap: LimitField | None = None
    """How much more an unlimited cache may hit at most: "<=5%"."""
    reported_gap: LimitField | None = None
    """How much less a provider may read than its rules say, of the prompt tokens of a log that tells it: "<=10%"."""
    cost_per_1k_requests: CostField | None = None
    """What 1,000 requests to hosted models may cost in dollars: "<=$4"."""
    ttft_p50: LongestField | None = None
    """Longest predicted time to first token, median: "50ms"."""
    ttft_p90: LongestField | None = None
    """Longest predicted time to first token, 90th percentile."""
    ttft_p99: LongestField | None = None
    """Longest predicted time to first token, 99th percentile."""
    findings: dict[FindingKey, GateLevel] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"pattern": FINDING_KEY_PATTERN}}
    )
    """What a finding does: a code (KV101), the beginning of one (KV1) or a severity (error), and off, warn or error."""
    level: GateLevel = "error"
    """What it does when one of these demands is not met: fail (error), be told (warn), nothing (off)."""


def _variable(value: object) -> object:
    return {"text": value} if isinstance(value, Scalar | str) else value


VariableField = Annotated["Variable", BeforeValidator(_variable, json_schema_input_type=Union["Variable", Value])]
Variables = dict[str, VariableField]


class Variable(SpecModel):
    """A template variable; exactly one of `datetime` to `function` says what it is."""

    datetime: Duration | None = None
    """A clock that goes on by this much with each request."""
    uuid: UuidForm | None = None
    """A random UUID: 4 (with dashes) or hex."""
    counter: Integer | None = None
    """Whole numbers from this one on."""
    choice: Annotated[list[DataField], Field(min_length=1)] | None = None
    """One of these texts, lists or mappings."""
    file: Text | None = None
    """A line of this file; a record, where it is JSON lines and there is no `key`."""
    range: Annotated[list[Integer], Field(min_length=2, max_length=2)] | None = None
    """A whole number from the first to the second, both included."""
    text: Value | None = None
    """Always this text."""
    bool_: Annotated[Share | None, Field(alias="bool")] = None
    """true or false; the number is the share of true."""
    object_: Annotated[Variables | None, Field(alias="object", min_length=1)] = None
    """An object or a mapping with these fields, each of them a variable; the field "*" is any other key."""
    list_: Annotated[VariableField | None, Field(alias="list")] = None
    """A list whose items are values of this variable."""
    items: Annotated[list[VariableField], Field(min_length=1)] | None = None
    """A list with these items, each of them a variable."""
    function: VariableField | None = None
    """A function that returns a value of this variable, whatever its arguments are."""
    count: CountField | None = None
    """Items of `list`: 3, or at least 1 and at most 5: [1, 5]."""
    start: Str | None = None
    """Where the clock of `datetime` begins."""
    format: Str | None = None
    """How `datetime` is written, in strftime's notation. With `object` it is a date, which templates format."""
    step: Integer | None = None
    """By how much `counter` goes on."""
    weights: list[Weight] | None = None
    """How often each `choice` is taken."""
    key: Str | None = None
    """The field to take of a `file` of JSON lines."""
    pick: PickField | None = None
    """How an entry is chosen: cycle, random, zipf or {zipf: 1.1}."""
    per: Scope = "request"
    """How long a value stays: for a request, a session, or the whole workload."""


class TextSource(SpecModel):
    """Text written here, in a file, or in one of several files."""

    text: Text | None = None
    """The text itself, a Jinja template."""
    file: Text | None = None
    """A file that holds it; paths count from the folder of the workload file."""
    glob: Text | None = None
    """Files of which one is picked for each request."""
    pick: PickField | None = None
    """How a file of `glob` is chosen: cycle, random, zipf or {zipf: 1.1}."""
    raw: Bool = False
    """Whether the text is taken as it is, not as a template."""


class PromptPart(TextSource):
    """A message or a segment; `stable` and `volatile` are what the author asserts of it."""

    stable: Bool = False
    """It must be the same in all requests."""
    volatile: Bool = False
    """It differs from request to request, and is meant to."""

    @property
    def asserted(self) -> bool | None:
        return True if self.stable else False if self.volatile else None


class MessagePart(PromptPart):
    """A message of a chat."""

    role: Role
    """Who speaks."""
    name: Name | None = None
    """The name of the speaker."""


class SegmentPart(PromptPart):
    """A piece of a prompt without roles."""

    id: Name | None = None
    """What reports call it."""


class Arrival(SpecModel):
    """When requests arrive; `burst` is how many come at the same moment."""

    process: Process
    """poisson (random), uniform (regular) or burst."""
    rate: Rate
    """Requests per time: 8/s, 120/min."""
    start: Duration = 0.0
    """When the first one may come."""
    burst: Count | None = None
    """How many come at once."""


class Sessions(SpecModel):
    """Conversations whose turns each bring all turns before."""

    count: Annotated[int, Field(ge=1, le=10**6), BeforeValidator(as_int)]
    """Conversations."""
    turns: Annotated[int, Field(ge=1, le=10**4), BeforeValidator(as_int)]
    """Turns of each."""
    output_tokens: OutputTokens | None = None
    """Length of an answer, which is part of the next prompt."""
    order: Order | None = None
    """Whether sessions run beside each other (interleaved) or one after the other."""
    think: Duration | None = None
    """Time between an answer and the next turn."""


class Generate(SpecModel):
    """Token-id prompts: `prefixes` shared prefixes, each with `per_prefix` suffixes of its own."""

    prefixes: Count
    """Different prefixes."""
    per_prefix: Count
    """Requests with each of them."""
    prefix_tokens: Tokens
    """Length of a prefix."""
    suffix_tokens: Tokens
    """Length of what stands behind it."""
    order: Order = "interleaved"
    """Whether prefixes take turns or come one after the other."""
    output_tokens: OutputTokens = 1
    """Length of an answer."""


class Import(SpecModel):
    """Logs to read; exactly one of the four names the files."""

    jsonl: Text | None = None
    """JSON lines, one request each; a file or a pattern."""
    json_: Annotated[Text | None, Field(alias="json")] = None
    """A JSON document with requests."""
    txt: Text | None = None
    """Text files, a prompt each."""
    mooncake: Text | None = None
    """A trace of block hashes."""
    format: Str | None = None
    """Format of the records; left out: found out."""
    block_size: Count | None = None
    """Tokens per hash of a trace."""
    on_bad_line: BadLine | None = None
    """Whether a bad line stops the run or is skipped and counted."""
    limit: Count | None = None
    """Only so many requests."""


class GroupSpec(TextSource):
    """Requests that belong together; exactly one of text, file, glob, messages, segments, generate, import says what they are."""

    name: Name
    """What reports call it."""
    requests: Count | None = None
    """How many there are."""
    tenant: Text | None = None
    """The salt of its cache: tenants share no blocks."""
    arrival: Arrival | None = None
    """When its requests arrive; left out: one after the other."""
    messages: Annotated[list[MessagePart], Field(min_length=1)] | None = None
    """A chat."""
    segments: Annotated[list[SegmentPart], Field(min_length=1)] | None = None
    """The pieces of a prompt, in order."""
    join: Text | None = None
    """What stands between segments."""
    generate: Generate | None = None
    """Synthetic prompts of given lengths."""
    import_: Annotated[Import | None, Field(alias="import")] = None
    """Logs."""
    tools: ToolsField | None = None
    """Function schemas that stand before the messages, or {file: tools.json}."""
    sessions: Sessions | None = None
    """Conversations of several turns."""
    output_tokens: OutputTokens | None = None
    """Length of an answer."""
    output: Text | None = None
    """The answer itself, a template."""
    vars: Variables = Field(default_factory=dict)
    """Variables of this group's templates."""
    gate: GateOptions | None = None
    """What is demanded of this group."""
    limit: Count | None = None
    """Only so many requests."""


class Workload(SpecModel):
    """A workload of kvtool: groups of requests, and the engine that they run on."""

    version: Version
    """Of this format: 1."""
    name: Name | None = None
    """What the workload is called."""
    seed: Natural = 0
    """Of everything random."""
    engine: EngineOptions = Field(default_factory=EngineOptions)
    """What it asks of the engine."""
    vars: Variables = Field(default_factory=dict)
    """Variables of all templates."""
    tools: ToolsField | None = None
    """Function schemas of all chats, or {file: tools.json}."""
    filters: list[FunctionName] = Field(default_factory=list)
    """Jinja filters of your application. Here each gives its value unchanged."""
    tests: list[FunctionName] = Field(default_factory=list)
    """Jinja tests of your application. Here each is true of a value that is not empty."""
    groups: Annotated[list[GroupSpec], Field(min_length=1)]
    """The requests."""
