"""Reads reported by the user's own servers beside the embedded engine's, in the form of reports."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.plan import Plan
from kvtool.profiler.reported.money_parts import MoneySections
from kvtool.profiler.reported.server_difference import explained
from kvtool.profiler.reported.server_reads import ServerRead, ServerReads
from kvtool.profiler.run.run_books import RowBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.results.money import Predicted, Reported
from kvtool.results.report import GroupRead, RequestRead


def compare_server_reports(result: RunResult, reads: ServerReads, plan: Plan) -> tuple[MoneySections, list[str]]:
    """Return both sums, in all and by group, with the causes between them, and the results of tests; requests that are kept one by
    one get theirs, and misses the cause that a test shows."""
    rows = list(reads.rows())
    if not rows:
        return MoneySections(), []
    difference = explained(reads, plan)
    misses, notes = result.find(MissBook), difference.notes
    if misses is not None and difference.evictions is not None:
        misses.explain_evictions(difference.evictions, difference.evicted)
    kept = result.find(RowBook)
    for row, causes in zip(rows, difference.requests, strict=False):
        if kept is None:
            break
        at = reads.before + row.kept
        read = RequestRead(
            prompt_tokens=row.prompt,
            predicted_tokens=row.to_server_tokens(row.hit),
            reported_tokens=row.reported,
            difference=causes,
        )
        kept.rows[at] = kept.rows[at].model_copy(update={"provider": read})
    prompt, predicted, reported = _sums(rows)
    sums = Reported(requests=len(rows), prompt_tokens=prompt, cached_tokens=reported, hit_rate=_rate(reported, prompt))
    totals = list(result.ledger.totals())
    if sum(group.prompt_tokens for group in totals) <= sum(group.requests for group in totals):
        return MoneySections(reported=sums), []  # a token is in place of each prompt: nothing is predicted
    told = MoneySections(
        reported=sums,
        predicted=Predicted(
            reported_tokens=reported,
            requests=len(rows),
            prompt_tokens=prompt,
            cached_tokens=predicted,
            hit_rate=_rate(predicted, prompt),
            reachable_tokens=min(sum(row.to_server_tokens(row.reachable) for row in rows), prompt),
            lost={},
            most_a_minute=0,
            tokens_per_own={
                model: theirs / ours
                for model, (theirs, ours) in sorted(reads.models.items())
                if ours and theirs != ours
            },
        ),
        difference=dict(difference.total),
        groups={
            name: _group([row for row in rows if row.group == number], dict(difference.groups[number]))
            for name, number in reads.groups.items()
        },
    )
    return told, notes


def _group(rows: Sequence[ServerRead], causes: dict[str, int]) -> GroupRead:
    prompt, predicted, reported = _sums(rows)
    return GroupRead(
        requests=len(rows),
        prompt_tokens=prompt,
        predicted_tokens=predicted,
        reported_tokens=reported,
        difference=causes,
    )


def _sums(rows: Sequence[ServerRead]) -> tuple[int, int, int]:
    """Return prompt tokens, predicted reads and reported reads, as their servers count."""
    return (
        sum(row.prompt for row in rows),
        sum(row.to_server_tokens(row.hit) for row in rows),
        sum(row.reported for row in rows),
    )


def _rate(cached: int, prompt: int) -> float:
    return min(cached / prompt, 1.0) if prompt else 0.0
