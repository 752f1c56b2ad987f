"""`kvtool probe --json`: whether an agent keeps its prefix. Nothing quotes a prompt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model
from kvtool.results.steps import BrokenStep, Steps

SCHEMA: Literal["kvtool.agent-probe/1"] = "kvtool.agent-probe/1"


class AgentRun(Model):
    """A run of the agent. `exit_codes` are those of its commands, null for one that was stopped."""

    name: str
    requests: Count
    seconds: float
    exit_codes: list[int | None]


class VariedRun(Model):
    """A run in which one thing differs from the first run; in `again` nothing does, so what differs there is chance.

    Its first request keeps `kept_tokens` of `tokens`; `place` is the first field that differs, null where none does. What chance
    changes is left out of every other row. `broken` of its `steps` break only in this run, and `breaks` are the costliest of them.
    """

    name: str
    when: str
    tokens: Count
    kept_tokens: Count
    place: str | None
    code: str | None
    what: str | None
    steps: Count
    broken: Count
    breaks: list[BrokenStep]
    judged: bool
    """Whether its broken steps decide the verdict."""
    lost_tokens: Count = 0
    """What the first request loses, and the steps that break only in this run."""
    cost: str | None = None
    """What these cost more than if they were read from the cache; null where no price is known."""

    @property
    def kept(self) -> float:
        """Return the part of the first request that is kept, from 0 to 1."""
        return self.kept_tokens / self.tokens if self.tokens else 1.0


class SkippedRun(Model):
    """A circumstance that could not be tried."""

    name: str
    reason: str


class AgentProbe(Document):
    """A probe of an agent: `steps` are those of its first run."""

    schema_: Literal["kvtool.agent-probe/1"] = Field(default=SCHEMA, alias="schema")
    agent: str
    """The name of its recipe, or of its program."""
    version: str | None
    protocols: list[str]
    runs: list[AgentRun]
    left_out: dict[str, Count]
    """What was sent beside the requests that are compared, by kind."""
    steps: Steps
    circumstances: list[VariedRun]
    skipped: list[SkippedRun]
    prefix: str
    """A hash of the prompt of the first request."""
    notes: list[str]
    price_model: str | None = None
    """The model by whose prices losses cost what they do; null where no price is known."""
    currency: str = "USD"
    verdict: Literal["stable", "broken"]

    def broken_by_run(self) -> dict[str, int]:
        """Return how many steps break in the first run, and how many more with each circumstance that is judged."""
        rows = {row.name: row.broken for row in self.circumstances if row.judged and row.name != "resume"}
        return {"base": self.steps.broken, **rows}

    def as_baseline(self) -> AgentProbe:
        """Return what later probes are compared with: nothing that differs from day to day."""
        return self.model_copy(update={"runs": [], "notes": [], "left_out": {}})
