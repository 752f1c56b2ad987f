"""The shape of a workload file, as pydantic models; what a combination of keys means is checked in `checks`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kvtool.workload.fields import (
    Bool,
    Bytes,
    CapacityField,
    Count,
    Duration,
    Fraction,
    Integer,
    Name,
    OutputTokens,
    PickField,
    Rate,
    Str,
    Text,
    ThresholdField,
    Tokens,
    ToolsField,
    Value,
    Version,
    Weight,
    as_str,
)
from kvtool.workload.yaml_nodes import Scalar

DEFAULT_SESSION_OUTPUT = 64
"""Tokens of an answer in a session, where nothing is said: it becomes part of the next prompt, so it must not be tiny."""


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)


Process = Annotated[Literal["poisson", "uniform", "burst"], BeforeValidator(as_str)]
Order = Annotated[Literal["interleaved", "sequential"], BeforeValidator(as_str)]
Role = Annotated[Literal["system", "developer", "user", "assistant", "tool"], BeforeValidator(as_str)]
Scope = Annotated[Literal["request", "session", "workload"], BeforeValidator(as_str)]
UuidForm = Annotated[Literal["4", "hex"], BeforeValidator(as_str)]
Routing = Annotated[Literal["round-robin", "random", "sticky", "prefix-aware"], BeforeValidator(as_str)]
BadLine = Annotated[Literal["error", "skip"], BeforeValidator(as_str)]


class EngineOptions(Model):
    """What the workload asks of the engine; None is "not said here".

    `replicas`, `routing`, `ttl` (seconds) and `provider` are rules beyond one engine's cache: `kvtool.rules.cache_rules`.
    """

    model: Str | None = None
    accelerator: Str | None = None
    tokenizer: Str | None = None
    chat_template: Str | None = None
    block_size: Count | None = None
    capacity: CapacityField | None = None
    gpu_memory: Bytes | None = None
    gpu_memory_utilization: Fraction | None = None
    max_model_len: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_num_seqs: Count | None = None
    enable_prefix_caching: Bool | None = None
    enable_chunked_prefill: Bool | None = None
    kv_cache_dtype: Str | None = None
    tensor_parallel: Count | None = None
    concurrency: Count | None = None
    replicas: Count | None = None
    routing: Routing | None = None
    ttl: Duration | None = None
    provider: Str | None = None


class Variable(Model):
    """A template variable; exactly one of `datetime` to `text` says what it is."""

    datetime: Duration | None = None
    uuid: UuidForm | None = None
    counter: Integer | None = None
    choice: Annotated[list[Value], Field(min_length=1)] | None = None
    file: Text | None = None
    range: Annotated[list[Integer], Field(min_length=2, max_length=2)] | None = None
    text: Value | None = None
    start: Str | None = None
    format: Str | None = None
    step: Integer | None = None
    weights: list[Weight] | None = None
    key: Str | None = None
    pick: PickField | None = None
    per: Scope = "request"


def _variable(value: object) -> object:
    return {"text": value} if isinstance(value, Scalar | str) else value


Variables = dict[str, Annotated[Variable, BeforeValidator(_variable)]]


class TextSource(Model):
    """Text written here, in a file, or in one of several files."""

    text: Text | None = None
    file: Text | None = None
    glob: Text | None = None
    pick: PickField | None = None
    raw: Bool = False


class Part(TextSource):
    """A message or a segment; `stable` and `volatile` are what the author asserts of it."""

    stable: Bool = False
    volatile: Bool = False

    @property
    def asserted(self) -> bool | None:
        return True if self.stable else False if self.volatile else None


class MessagePart(Part):
    role: Role
    name: Name | None = None


class SegmentPart(Part):
    id: Name | None = None


class Arrival(Model):
    """When requests arrive; `burst` is how many come at the same moment."""

    process: Process
    rate: Rate
    start: Duration = 0.0
    burst: Count | None = None


class Sessions(Model):
    count: Annotated[Count, Field(le=10**6)]
    turns: Annotated[Count, Field(le=10**4)]
    output_tokens: OutputTokens | None = None
    order: Order | None = None
    think: Duration | None = None


class Generate(Model):
    """Token-id prompts: `prefixes` shared prefixes, each with `per_prefix` suffixes of its own."""

    prefixes: Count
    per_prefix: Count
    prefix_tokens: Tokens
    suffix_tokens: Tokens
    order: Order = "interleaved"
    output_tokens: OutputTokens = 1


class Import(Model):
    """Logs to read; exactly one of the four names the files."""

    jsonl: Text | None = None
    json_: Annotated[Text | None, Field(alias="json")] = None
    txt: Text | None = None
    mooncake: Text | None = None
    format: Str | None = None
    block_size: Count | None = None
    on_bad_line: BadLine | None = None
    limit: Count | None = None


class Gate(Model):
    hit_rate: ThresholdField | None = None


class Group(TextSource):
    name: Name
    requests: Count | None = None
    tenant: Text | None = None
    arrival: Arrival | None = None
    messages: Annotated[list[MessagePart], Field(min_length=1)] | None = None
    segments: Annotated[list[SegmentPart], Field(min_length=1)] | None = None
    join: Text | None = None
    generate: Generate | None = None
    import_: Annotated[Import | None, Field(alias="import")] = None
    tools: ToolsField | None = None
    sessions: Sessions | None = None
    output_tokens: OutputTokens | None = None
    output: Text | None = None
    vars: Variables = Field(default_factory=dict)
    gate: Gate | None = None
    limit: Count | None = None


class Workload(Model):
    version: Version
    name: Name | None = None
    seed: Annotated[Integer, Field(ge=0)] = 0
    engine: EngineOptions = Field(default_factory=EngineOptions)
    vars: Variables = Field(default_factory=dict)
    tools: ToolsField | None = None
    groups: Annotated[list[Group], Field(min_length=1)]
