"""What moved between two results: `kvtool.compare/1`. Differences are new less old; rates and shares run from 0 to 1."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.choices import Severity
from kvtool.results.document_base import Count, Document, Model, Ratio, Seconds

SCHEMA: Literal["kvtool.compare/1"] = "kvtool.compare/1"
ConfigValue = str | int | float | bool | None
Effect = Literal["rates", "times", "none"]
"""What a difference of configuration makes incomparable: everything, the times alone, or nothing."""
Outcome = Literal["rose", "fell", "same"]
Change = Literal["new", "gone", "more", "less", "same"]


class RateMove(Model):
    """Tokens of a kind and the prompt tokens that they are a part of."""

    old_tokens: Count
    new_tokens: Count
    old: Ratio
    new: Ratio

    @property
    def difference(self) -> float:
        return self.new - self.old


class TimeMove(Model):
    """A quantile in seconds; None where a result has none."""

    old: Seconds | None
    new: Seconds | None


class TtftMove(Model):
    """Predicted time to the first token, cache on."""

    p50: TimeMove
    p90: TimeMove
    p99: TimeMove


class ConfigMove(Model):
    """A value that the figures depend on; `effect` says which figures."""

    key: str
    old: ConfigValue
    new: ConfigValue
    effect: Effect


class GroupMove(Model):
    """A group; one that only one result has has 0 requests in the other."""

    name: str
    old_requests: Count
    new_requests: Count
    old_prompt_tokens: Count
    new_prompt_tokens: Count
    hit: RateMove
    reachable: RateMove
    predicted_ttft: TtftMove
    fates: dict[str, RateMove]


class CauseMove(Model):
    """A cause of lost hits, or another finding, in the one result or in both.

    The same cause is the same code, in the same part or variable of the same file: lines move. `share` is the part of the group's
    prompt tokens that it costs. `path`, `line` and `column` are those of the new result, where that has it; `old_line` is where
    it stood before (0: nowhere), and `width` is 0 where nobody knows how much of the line is meant.
    """

    change: Change
    group: str
    code: str
    severity: Severity | None
    """Of findings that stand for no cause of lost tokens; None for causes."""
    name: str
    part: str
    variable: str | None
    path: str
    line: Count
    column: Count
    width: Count
    in_source: bool
    old_line: Count
    old_tokens: Count
    new_tokens: Count
    old_share: float
    new_share: float

    @property
    def difference(self) -> float:
        """Of the share, with its sign."""
        return self.new_share - self.old_share


class WorkloadMove(Model):
    """A workload that both results have. `name` is the new one's. `comparable` is whether the rates are those of one question."""

    name: str
    old_name: str
    outcome: Outcome
    comparable: bool
    times_comparable: bool
    old_partial: bool
    new_partial: bool
    total: GroupMove
    config: list[ConfigMove]
    groups: list[GroupMove]
    causes: list[CauseMove]


class Comparison(Document):
    """`outcome` is `fell` where the hit rate of any workload did. `only_old` and `only_new` name what has no counterpart.

    `findings` are those that belong to no workload that both have: of lint runs, all of them.
    """

    schema_: Literal["kvtool.compare/1"] = Field(default=SCHEMA, alias="schema")
    old: str
    new: str
    outcome: Outcome
    comparable: bool
    workloads: list[WorkloadMove]
    only_old: list[str]
    only_new: list[str]
    findings: list[CauseMove]
