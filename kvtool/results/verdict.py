"""The verdict: one object that feeds the exit code, the last line and every format."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model

Level = Literal["warn", "error"]
Kind = Literal[
    "hit_rate",
    "reachable_gap",
    "reported_gap",
    "cost_per_1k_requests",
    "ttft_p50",
    "ttft_p90",
    "ttft_p99",
    "gpus",
    "goodput",
    "findings",
    "baseline",
    "audit",
    "probe",
]
CLOCKED: tuple[Kind, ...] = ("gpus", "goodput")
"""Those that take a clock."""
Status = Literal["pass", "warn", "fail", "open"]
"""`warn`: not met, at the level `warn`; `open`: the run was interrupted, and nothing is judged."""
Outcome = Literal["pass", "warn", "fail", "partial", "none"]
"""`none`: nothing was demanded."""
EXIT_FAILED = 1
EXIT_NOT_COMPARABLE = 2
EXIT_INTERRUPTED = 130


class Check(Model):
    """One demand and how it fared.

    `id` is stable from run to run (`support.yaml/support/hit_rate`). `limit` and `actual` are ratios, seconds, dollars or counts,
    as `kind` says; `baseline` is the hit rate that the baseline has. `path`, `line`, `column` point to where the demand is written,
    or to the workload (line 0). `message` is one sentence without any prompt text.
    """

    id: str
    code: str
    kind: Kind
    workload: str
    group: str | None
    level: Level
    status: Status
    limit: float | None
    actual: float | None
    baseline: float | None = None
    message: str
    covered: str = ""
    """What it is about, where a check without a group does not cover all requests: `220 of 300 requests`."""
    path: str
    line: Count
    column: Count

    @property
    def is_comparable(self) -> bool:
        """Return whether there was something to compare with: of a baseline, one that was made under the same settings."""
        return self.kind != "baseline" or self.limit is not None


class Verdict(Model):
    """`sentence` is the last line of every report; `notices` are what must not go unseen (a baseline that could not be used)."""

    outcome: Outcome
    exit_code: int
    sentence: str
    checks: list[Check]
    notices: list[str]
