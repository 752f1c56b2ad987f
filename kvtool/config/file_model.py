"""The shape of a configuration file. The text under a field is its description in the JSON Schema, which editors show."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from kvtool.config.bounds import fields
from kvtool.config.declared import default_of
from kvtool.config.options.clock_options import parse_objectives
from kvtool.config.options.lint_options import ERROR_ON
from kvtool.errors import KvtoolError
from kvtool.results import choices
from kvtool.workload.yaml.fields import (
    FINDING_KEY_PATTERN,
    Bool,
    CodeField,
    Count,
    FindingKey,
    LimitField,
    Name,
    Natural,
    Str,
    as_str,
    fail,
)
from kvtool.workload.yaml.schema import EngineOptions, GateLevel, GateOptions, SpecModel

__all__ = ["CheckOptions", "Config", "EngineOptions", "GateLevel", "GateOptions", "LintOptions", "WorkloadGate"]

Severity = Annotated[choices.Severity, BeforeValidator(as_str)]


_KEY = "group_by"


def _as_fields(value: object) -> str:
    """Paths to fields, as the flag takes them."""
    text = as_str(value)
    try:
        fields(_KEY, text)
    except KvtoolError as error:
        raise fail(error.message.removeprefix(f"{_KEY}: "), error.hint) from None
    return text


FieldNames = Annotated[str, BeforeValidator(_as_fields), WithJsonSchema({"type": "string", "minLength": 1})]


class WorkloadGate(GateOptions):
    """What is demanded of each workload as a whole, and under `groups` of single groups."""

    groups: dict[Name, GateOptions] = Field(default_factory=dict)
    """Demands on groups, by name: [gate.groups.support]."""


def _as_objectives(value: object) -> str:
    """Objectives, as `--slo` takes them."""
    text = as_str(value)
    try:
        parse_objectives("slo", text)
    except KvtoolError as error:
        raise fail(error.message, error.hint) from None
    return text


Objectives = Annotated[str, BeforeValidator(_as_objectives), WithJsonSchema({"type": "string", "minLength": 1})]
FindingPattern = Annotated[FindingKey, WithJsonSchema({"type": "string", "pattern": FINDING_KEY_PATTERN})]
Goodput = Annotated[float, Field(gt=0, le=1e9)]


class CheckOptions(SpecModel):
    """How `kvtool check` judges."""

    baseline: Str | None = None
    """The result to compare with; paths count from the folder of this file."""
    max_drop: LimitField | None = None
    """How far a hit rate may fall below the baseline's: 0.01 or "1%"."""
    max_gpus: Count | None = None
    """Accelerators that today's settings may need for the `slo`, on the clock of `kvtool what-if`."""
    min_goodput: Goodput | None = None
    """Requests per second within the `slo`, likewise, of today's replicas."""
    slo: Objectives | None = None
    """What a request is to be served within: "ttft=2s,tpot=50ms", and share=90% of all of them."""
    error_on: list[FindingPattern] = Field(default_factory=list)
    """Findings that fail the check: a code ("KV101"), its beginning ("KV1") or a severity ("error")."""
    require_baseline: Bool = default_of("check", "require_baseline", bool)
    """Whether a baseline that is missing or was made under other settings is an error."""
    advice: Bool = default_of("check", "advice", bool)
    """Whether fixes are tried for the costliest causes."""


def _as_way(value: object) -> str:
    """Return a path to a field, as `--map` takes it."""
    text = as_str(value)
    from kvtool.workload.logs.records.mapped_records import way_of

    try:
        way_of(text)
    except KvtoolError as error:
        raise fail(error.message.removeprefix("--map: "), error.hint) from None
    return text


Way = Annotated[str, BeforeValidator(_as_way), WithJsonSchema({"type": "string", "minLength": 1})]


class LogFields(SpecModel):
    """Where records of logs of no known format have what, as `--map` says it: messages = "payload.req.messages". `tenant` alone is
    for logs of all formats."""

    messages: Way | None = None
    """The list of messages of a request."""
    prompt: Way | None = None
    """Its prompt, where that is one text."""
    tools: Way | None = None
    """Its tools."""
    session: Way | None = None
    """What its conversation is called."""
    tenant: Way | None = None
    """For whom it was made, in records of any format, as `--tenant` says it."""
    time: Way | None = None
    """When it was sent."""
    end: Way | None = None
    """When it was answered."""
    model: Way | None = None
    """The model that was asked."""
    provider: Way | None = None
    """Who serves the model."""
    usage: Way | None = None
    """The object of reported tokens."""
    output: Way | None = None
    """The text of the answer."""
    id: Way | None = None
    """What the request is called."""
    cost: Way | None = None
    """What it cost, in US dollars."""

    @property
    def map(self) -> str | None:
        """Return the same as `--map` takes it; None where nothing is said."""
        said = [f"{name}={path}" for name in type(self).model_fields if (path := getattr(self, name)) is not None]
        return ",".join(said) or None

    @property
    def only_tenant(self) -> bool:
        """Return whether nothing but the tenant's place is said, which needs no map."""
        return self.tenant is not None and self.map == f"tenant={self.tenant}"


class LintOptions(SpecModel):
    """What `kvtool lint` reads and reports."""

    inputs: list[Str] = Field(default_factory=list)
    """What `kvtool lint` reads in addition to `workloads`: files, folders or patterns, from the folder of this file."""
    select: list[CodeField] = Field(default_factory=list)
    """Only these codes: "KV101", or "KV1" for all that begin so."""
    ignore: list[CodeField] = Field(default_factory=list)
    """Not these codes."""
    error_on: Severity = ERROR_ON
    """The severity from which on `kvtool lint` exits with 1."""
    include: list[Str] = Field(default_factory=list)
    """Texts of a folder that are prompts, whatever they are called: patterns as in .gitignore, from the folder of this file."""
    exclude: list[Str] = Field(default_factory=list)
    """What of a folder is not read: patterns as in .gitignore, from the folder of this file."""


class Config(SpecModel):
    """Configuration of kvtool: kvtool.toml, or [tool.kvtool] in pyproject.toml."""

    workloads: list[Str] = Field(default_factory=list)
    """What `kvtool check` runs: files or patterns, from the folder of this file."""
    engine: EngineOptions = Field(default_factory=EngineOptions)
    """What is asked of the engine where neither a flag, a variable nor the workload says it."""
    gate: WorkloadGate = Field(default_factory=WorkloadGate)
    """What is demanded."""
    check: CheckOptions = Field(default_factory=CheckOptions)
    """How `kvtool check` judges."""
    lint: LintOptions = Field(default_factory=LintOptions)
    """What `kvtool lint` reads and reports."""
    logs: LogFields = Field(default_factory=LogFields)
    """Where records of logs of no known format have what; `--map` and `--format` go before it."""
    requests: Count | None = None
    """Only the first so many requests of each workload."""
    group_by: FieldNames | None = None
    """What divides logs into groups: fields of their records, `file` or `system`."""
    seed: Natural | None = None
    """Seed of everything random."""
