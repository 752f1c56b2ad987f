"""A part of a large log, to estimate the effect of fixes on all of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.profiler.run.cause_sample import CauseSample, one_in
from kvtool.workload.kept_requests import KeptRequests

MOST_IN_PART = 512
"""Requests of a group, or somewhat more, that are in the part."""
_LEAST_SPARED = 8
"""Least ratio of the log's requests to the part's: below it, running the part costs too much of the time that it saves."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Some requests of each group of a log, and the number of the group's requests that each represents."""

    source: KeptRequests
    requests: int
    weights: dict[str, float]

    @classmethod
    def of(cls, kept: KeptRequests, groups: Collection[GroupTotals]) -> LogPart | None:
        """Return runs of requests from all over a log with these groups; None if it is too small to divide."""
        looks = CauseSample(one_in(groups, most=MOST_IN_PART))
        part = kept.part(lambda turn: looks.take(turn.group, 1))
        requests = len(part)
        if not requests or _LEAST_SPARED * requests > len(kept):
            return None
        return cls(part, requests, dict(looks.weights()))


def can_be_parted(plan: Plan) -> bool:
    """Return whether a request's hits in a run depend only on the requests before it."""
    return plan.engine.num_blocks is None and plan.cache is None and plan.one_at_a_time and not plan.traced
