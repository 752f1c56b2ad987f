"""Advice that wins only together with other request settings: fewer cache keys, and times to live by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from kvtool.accounting.plan import Plan
from kvtool.fixes.fix import Fix, combined
from kvtool.fixes.run_fixes import breakpoint_fixes
from kvtool.profiler.advice.advisor import Tried
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.reported.cheapest_marks import saves_enough
from kvtool.profiler.reported.cheapest_settings import cheaper_settings, cost_of, possible_settings
from kvtool.profiler.reported.one_key import Again
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.finding import TRIED_WITH_MARK
from kvtool.workload.turn import Turn


class OtherSettings:
    """The trials of a run with all request settings that may lower its cost.

    A prefix that expires, or that each cache key stores again, wins nothing when text is moved after it; and settings win nothing
    where text changes before all that is shared. So both are chosen together: fixes are tried with these settings, too, and of the
    two advices the cheaper one is kept, each with the settings that are cheapest with it.
    """

    def __init__(self, tried: Tried, again: Again, settings: Sequence[Fix]) -> None:
        self._first, self._again, self._settings = tried, again, settings
        self._tried: Tried | None = None

    @classmethod
    def of(cls, tried: Tried, again: Again) -> OtherSettings | None:
        """Return the trials with other settings; None where none is possible. `again` runs with prices."""
        settings = possible_settings(tried.result, again)
        samples = tried.result.find(SampleBook)
        turns = [] if samples is None else [turn for group in samples.groups for turn in samples.of_group(group)]
        settings = [fix for fix in settings if _changes(fix, turns)]
        return cls(tried, again, settings) if settings else None

    def cheaper(self, first: Advice, advise: Callable[[Tried], Advice]) -> Advice:
        """Return the first advice, or that with other settings where it costs less."""
        other = advise(self._trials)
        if not other.kept or _keys(other) == _keys(first):
            return first
        settings, least = self._settled(other)
        if not settings or least is None or not saves_enough(self._settled(first)[1] or least, least):
            return first
        return self._proven(first, other, settings)

    def _proven(self, first: Advice, other: Advice, settings: Sequence[Fix]) -> Advice:
        """Return the other advice, whose steps say the settings, with the run that proves both."""
        every = [group.name for group in self._first.result.ledger.totals()]
        proof = self._first.again([*other.fixes, *settings], every)
        if proof.partial:
            raise TrialInterruptedError
        kept = {name: self._with_settings(name, steps, settings, proof) for name, steps in other.kept.items()}
        return replace(other, kept=kept, proof=proof, tried=first.tried | other.tried)

    @property
    def _trials(self) -> Tried:
        """Return the trials on the run with the settings."""
        if self._tried is None:
            first = self._first

            def again(fixes: Sequence[Fix], explain: Collection[str]) -> RunResult:
                return first.again([*self._settings, *fixes], explain)

            result = again([], [group.name for group in first.result.ledger.totals()])
            if result.partial:
                raise TrialInterruptedError
            self._tried = Tried(replace(result, books=(first.result.book(SampleBook),)), again, first.propose)
        return self._tried

    def _settled(self, advice: Advice) -> tuple[list[Fix], Decimal | None]:
        """Return the cheapest settings with the fixes of an advice, and the cost with both; None where it is unknown."""
        settings, run = cheaper_settings(self._again(advice.fixes), self._again, advice.fixes)
        if run.partial:
            raise TrialInterruptedError
        return settings, cost_of(run)

    def _with_settings(
        self, name: str, steps: Sequence[KeptFix], settings: Sequence[Fix], proof: RunResult
    ) -> list[KeptFix]:
        """Return the steps of a group, from its requests as they are to the run with all fixes and settings."""
        before, after = (
            next(group.hit_rate for group in result.ledger.totals() if group.name == name)
            for result in (self._first.result, proof)
        )
        said = "".join(f"; then {fix.what}" for fix in settings)
        told = [replace(step, fix=replace(step.fix, what=f"{step.fix.what}{said}", words=None)) for step in steps]
        told[0] = replace(told[0], before=before)
        told[-1] = replace(told[-1], after=after)
        return told


class OtherMarks(OtherSettings):
    """The trials of a run that reads nothing from the cache, with a breakpoint after the system text.

    No text that is moved wins anything where no breakpoint stores it.
    """

    @classmethod
    def of_plan(cls, tried: Tried, plan: Plan, again: Again) -> OtherMarks | None:
        """Return the trials with breakpoints; None where anything is read, or the provider needs none."""
        provider = None if plan.cache is None else plan.cache.provider
        if plan.cache is None or provider is None or not provider.needs_mark:
            return None
        if any(group.hit_tokens for group in tried.result.ledger.totals()):
            return None
        return cls(tried, again, [next(breakpoint_fixes(plan.cache, provider))])

    def cheaper(self, first: Advice, advise: Callable[[Tried], Advice]) -> Advice:
        """Return the first advice, or that with breakpoints where it wins nothing."""
        other = first if first.kept else advise(self._trials)
        return first if other is first or not other.kept else self._proven(first, other, self._settings)

    def _with_settings(
        self, name: str, steps: Sequence[KeptFix], settings: Sequence[Fix], proof: RunResult
    ) -> list[KeptFix]:
        """Return the steps, which say that no edit makes them."""
        told = super()._with_settings(name, steps, settings, proof)
        return [
            replace(one, fix=replace(one.fix, warnings=(*one.fix.warnings, TRIED_WITH_MARK), at_end=())) for one in told
        ]


def _changes(fix: Fix, turns: Iterable[Turn]) -> bool:
    change = combined([fix])
    return any(change(turn) is not turn for turn in turns)


def _keys(advice: Advice) -> set[str]:
    return {fix.key for fix in advice.fixes}
