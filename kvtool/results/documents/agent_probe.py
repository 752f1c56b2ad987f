"""`kvtool probe --json`: whether an agent keeps its prefix. Nothing quotes a prompt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model
from kvtool.results.steps import Steps

SCHEMA: Literal["kvtool.agent-probe/1"] = "kvtool.agent-probe/1"


class AgentRun(Model):
    """A run of the agent. `exit_codes` are those of its commands, null for one that was stopped."""

    name: str
    requests: Count
    seconds: float
    exit_codes: list[int | None]


class FirstRequests(Model):
    """The first requests of two runs that differ in nothing that the probe sets: what differs is chance.

    `place` is the first field that differs, null where the prompts are equal."""

    tokens: Count
    kept_tokens: Count
    place: str | None


class AgentProbe(Document):
    """A probe of an agent: `steps` are those of its first run."""

    schema_: Literal["kvtool.agent-probe/1"] = Field(default=SCHEMA, alias="schema")
    protocols: list[str]
    runs: list[AgentRun]
    left_out: dict[str, Count]
    """What was sent beside the requests that are compared, by kind."""
    again: FirstRequests | None
    steps: Steps
    notes: list[str]
    verdict: Literal["stable", "broken"]
