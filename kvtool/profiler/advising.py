"""Advice on the runs of a source, and what was tried for it, which advice with other tiers shares."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.fixes.fix import ALL_TIERS, Tier
from kvtool.fixes.propose import propose
from kvtool.profiler.advice.advisor import Advisor, Tried
from kvtool.profiler.advice.combined_fixes import Lookahead
from kvtool.profiler.advice.kept_fixes import Advice
from kvtool.profiler.log_part import LogPart, can_be_parted
from kvtool.profiler.run.cause_sample import one_in
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.workload_runs import WorkloadRuns, workload_file

if TYPE_CHECKING:
    from kvtool.profiler.reported.advice_with_settings import OtherSettings

_Asked = tuple[frozenset[Tier], frozenset[str], frozenset[str]]
"""The tiers that are allowed, the keys of fixes that are not, and the groups of which nothing is advised."""


class Advising:
    """Gives advice on one run after the other, each once for what is asked."""

    def __init__(self, runs: WorkloadRuns) -> None:
        self._runs = runs
        self._tried: Tried | None = None
        """What was tried on the run that was advised on last."""
        self._other: OtherSettings | None = None
        """The same run with other request settings, and what was tried on that."""
        self._advised: dict[tuple[Tried, _Asked], Advice] = {}
        """The advice on these runs."""

    def advised(
        self,
        result: RunResult,
        tiers: Collection[Tier] = ALL_TIERS,
        without: frozenset[str] = frozenset(),
    ) -> Advice:
        """Return the fixes of these tiers that win, `without` those of some keys, and none of groups whose reports differ from
        what the rules predict. Raises TrialInterruptedError.
        """
        reported = result.find(MissBook)
        asked = frozenset(tiers), without, frozenset(() if reported is None else reported.differing_groups)
        first = self._on(self.tried_on(result), asked)
        if self._other is None:
            return first
        return self._other.cheaper(first, lambda tried: self._on(tried, asked))

    def tried_on(self, result: RunResult) -> Tried:
        """Return the trials and the proposed fixes of a run, which all advice on it shares."""
        if self._tried is None or self._tried.result is not result:
            plan = self._runs.plan
            again = partial(self._runs.tried, one_in=one_in(result.ledger.totals()))
            proposed = partial(propose, block_size=plan.base_block, hosted=plan.hosted, is_made_up=self._is_made_up)
            self._tried = Tried(result, again, proposed)
            self._advised.clear()
            self._other = None
            if plan.hosted:
                from kvtool.profiler.reported.advice_with_settings import OtherMarks, OtherSettings

                priced = partial(self._runs.priced, "pricing request settings")
                self._other = OtherSettings.of(self._tried, priced) or OtherMarks.of_plan(self._tried, plan, priced)
        return self._tried

    def _on(self, tried: Tried, asked: _Asked) -> Advice:
        """Return the advice on one base of trials."""
        if (tried, asked) not in self._advised:
            tiers, without, silent = asked
            plan = self._runs.plan
            blocks = plan.engine.num_blocks
            advisor = Advisor(
                tried,
                tiers=tiers,
                without=without,
                silent=silent,
                capacity=None if blocks is None else (blocks - 1) * plan.base_block,
                lookahead=self._lookahead(tried.result),
                compares=plan.hosted,
                richer=self._advised.get((tried, (ALL_TIERS, without, silent))),
            )
            self._advised[tried, asked] = advisor.advise()
        return self._advised[tried, asked]

    def _is_made_up(self, cause: SlotCause) -> bool:
        """Return whether a cause is a variable whose values the workload file calls made up."""
        source = workload_file(self._runs.source)
        if source is None or cause.slot.variable is None:
            return False
        from kvtool.workload.yaml.made_up_values import is_made_up

        return is_made_up(source.document, cause.group, cause.slot.variable)

    def _lookahead(self, result: RunResult) -> Lookahead | None:
        """Return a part of a large log if the part represents all of it."""
        kept = self._runs.kept_requests
        if kept is None or not can_be_parted(self._runs.plan):
            return None
        part = LogPart.of(kept, list(result.ledger.totals()))
        return None if part is None else Lookahead(partial(self._runs.tried_in_part, part))
