"""The shape of a configuration file. The text under a field is its description in the JSON Schema, which editors show."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from kvtool.config.bounds import fields
from kvtool.config.declared import default_of
from kvtool.config.options.agent_options import ProbedAgent
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
    """Limits of each workload as a whole, and in `groups` limits of single groups."""

    groups: dict[Name, GateOptions] = Field(default_factory=dict)
    """Limits of groups, by name: [gate.groups.support]."""


def _as_objectives(value: object) -> str:
    """Objectives, as `--slo` takes them."""
    text = as_str(value)
    try:
        parse_objectives("slo", text)
    except KvtoolError as error:
        raise fail(error.message, error.hint) from None
    return text


Seconds = Annotated[float, Field(gt=0, le=86_400)]
Objectives = Annotated[str, BeforeValidator(_as_objectives), WithJsonSchema({"type": "string", "minLength": 1})]
FindingPattern = Annotated[FindingKey, WithJsonSchema({"type": "string", "pattern": FINDING_KEY_PATTERN})]
Goodput = Annotated[float, Field(gt=0, le=1e9)]


class CheckOptions(SpecModel):
    """Rules of `kvtool check`."""

    baseline: Str | None = None
    """Baseline to compare with; paths start at the folder of this file."""
    max_drop: LimitField | None = None
    """Allowed fall of a hit rate below the baseline: 0.01 or 1%."""
    max_gpus: Count | None = None
    """Most accelerators that today's settings may need to meet the `slo`."""
    min_goodput: Goodput | None = None
    """Lowest rate of requests per second within the `slo`, with today's replicas."""
    slo: Objectives | None = None
    """Latency targets: ttft=2s,tpot=50ms; with share=90%, for that share of the requests."""
    error_on: list[FindingPattern] = Field(default_factory=list)
    """Findings that fail the check: a code ("KV101"), its beginning ("KV1") or a severity ("error")."""
    require_baseline: Bool = default_of("check", "require_baseline", bool)
    """Fail with exit code 2 if the baseline is missing or was made with other settings."""
    advice: Bool = default_of("check", "advice", bool)
    """Try fixes for the costliest causes."""


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
    """Fields of an unknown log format, as in `--map`: messages = "payload.req.messages". `tenant` alone is for logs of all
    formats."""

    messages: Way | None = None
    """Messages of a request."""
    prompt: Way | None = None
    """Prompt of a request, if it is one text."""
    tools: Way | None = None
    """Tools of a request."""
    session: Way | None = None
    """Id of the conversation."""
    tenant: Way | None = None
    """Tenant of a request, in logs of any format, as in `--tenant`."""
    time: Way | None = None
    """Time of the request."""
    end: Way | None = None
    """Time of the answer."""
    model: Way | None = None
    """Model of the request."""
    provider: Way | None = None
    """Provider of the model."""
    usage: Way | None = None
    """Object with the reported tokens."""
    output: Way | None = None
    """Text of the answer."""
    id: Way | None = None
    """Id of the request."""
    cost: Way | None = None
    """Cost of the request in US dollars."""

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
    """Codes to report: KV101, or KV1 for a whole class."""
    ignore: list[CodeField] = Field(default_factory=list)
    """Codes to leave out."""
    error_on: Severity = ERROR_ON
    """Lowest severity that makes the exit code 1."""
    include: list[Str] = Field(default_factory=list)
    """Text files of a folder to read as prompts: patterns as in .gitignore, from the folder of this file."""
    exclude: list[Str] = Field(default_factory=list)
    """Files of a folder to skip: patterns as in .gitignore, from the folder of this file."""


class ProbeTable(SpecModel):
    """An agent that `kvtool check` runs: each step of a session must begin with the step before it."""

    agent: Str
    """Name of a recipe, or command of the agent, as in `kvtool probe --agent`."""
    resume: Str | None = None
    """Command that continues the session."""
    turns: Count = ProbedAgent.turns
    """Turns of a session, with `resume` or a recipe."""
    vary: list[Str] = Field(default_factory=list)
    """Circumstances to change; without any, kvtool runs the agent twice."""
    timeout: Seconds = ProbedAgent.timeout
    """Time limit of each command, in seconds."""
    baseline: Str | None = None
    """Baseline to compare with, from the folder of this file."""
    max_drop: LimitField | None = None
    """Allowed fall of a kept share below the baseline: 0.01 or 1%."""


class Config(SpecModel):
    """Configuration of kvtool: kvtool.toml, or [tool.kvtool] in pyproject.toml."""

    workloads: list[Str] = Field(default_factory=list)
    """Files or patterns that `kvtool check` runs, from the folder of this file."""
    engine: EngineOptions = Field(default_factory=EngineOptions)
    """Options of the engine; flags, variables and workload files go first."""
    gate: WorkloadGate = Field(default_factory=WorkloadGate)
    """Limits of hit rates, costs, times and findings."""
    check: CheckOptions = Field(default_factory=CheckOptions)
    """Rules of `kvtool check`."""
    lint: LintOptions = Field(default_factory=LintOptions)
    """What `kvtool lint` reads and reports."""
    logs: LogFields = Field(default_factory=LogFields)
    """Fields of an unknown log format; `--map` and `--format` go first."""
    probe: list[ProbeTable] = Field(default_factory=list)
    """Agents that `kvtool check` runs."""
    requests: Count | None = None
    """Number of requests to read of each workload."""
    group_by: FieldNames | None = None
    """Fields of log records that form groups, or `file` or `system`."""
    seed: Natural | None = None
    """Seed of all random values."""
