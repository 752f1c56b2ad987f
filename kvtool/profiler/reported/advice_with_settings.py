"""Advice that wins only together with other request settings: fewer cache keys, and times to live by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from kvtool.accounting.caches.mark_plan import MarkPlace, PlacedMark
from kvtool.accounting.plan import Plan
from kvtool.fixes.fix import Fix, combined
from kvtool.fixes.marked_turn import marked_turn
from kvtool.fixes.run_fixes import breakpoint_fixes
from kvtool.fixes.turn_texts import marks_in
from kvtool.profiler.advice.advisor import Tried
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.reported.cheapest_marks import MarkTrial, saves_enough
from kvtool.profiler.reported.cheapest_settings import possible_settings
from kvtool.profiler.reported.one_key import Again
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.finding import TRIED_WITH_MARK
from kvtool.results.money import marks_in_words
from kvtool.workload.turn import Turn

Explained = Callable[[Sequence[Fix]], RunResult]
"""Runs with fixes, for the causes that are left."""


def with_added_fixes(advice: Advice, first: RunResult, best: MarkTrial, explained: Explained) -> Advice:
    """Return the advice with what was tried in vain and wins with other settings and marks, those of the `best` trial.

    The steps say which these are, and the run that proves all steps has them. `first` is the run with the advice alone.
    """
    moves = [(fix, fix.cause) for fix in best.added if fix.cause is not None]
    if not moves:
        return advice
    before, after = ({group.name: group.hit_rate for group in each.ledger.totals()} for each in (first, best.proof))
    kept = {name: list(steps) for name, steps in advice.kept.items()}
    others = [
        *(each.what for each in best.settings),
        *([] if best.cheaper is None else [marks_in_words(best.cheaper.marks)]),
    ]
    for fix, cause in moves:
        told = replace(fix, what="; then ".join([fix.what, *others]))
        rates = before[cause.group], after[cause.group]
        kept.setdefault(cause.group, []).append(KeptFix(told, cause, *rates, rates[1], rates[1]))
    won = {cause.slot for _, cause in moves}
    stuck = [each for each in advice.stuck if each.cause.slot not in won]
    return replace(advice, kept=kept, stuck=stuck, proof=explained(best.every_fix))


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
        best, least = self._settled(other), self._settled(first)
        if best is None or least is None or not best.settings or not saves_enough(least.cost, best.cost):
            return first
        return self._proven(first, other, best.settings)

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

    def _settled(self, advice: Advice) -> MarkTrial | None:
        """Return the run with the fixes of an advice and the cheapest settings; None where its cost is unknown."""
        run = self._again(advice.fixes)
        trial = MarkTrial.of(run, self._again, advice.fixes, marks=False)
        settings = possible_settings(run, self._again, advice.fixes)
        best = None if trial is None else trial.cheapest_with([[fix] for fix in settings])
        if run.partial:
            raise TrialInterruptedError
        return best

    def _with_settings(
        self, name: str, steps: Sequence[KeptFix], settings: Sequence[Fix], proof: RunResult
    ) -> list[KeptFix]:
        """Return the steps of a group, from its requests as they are to the run with all fixes and settings."""
        before, after = (
            next(group.hit_rate for group in result.ledger.totals() if group.name == name)
            for result in (self._first.result, proof)
        )
        samples = self._first.result.book(SampleBook).of_group(name)
        said = "".join(f"; then {fix.what}" for fix in settings if _changes(fix, samples))
        told = [replace(step, fix=replace(step.fix, what=f"{step.fix.what}{said}", words=None)) for step in steps]
        told[0] = replace(told[0], before=before)
        told[-1] = replace(told[-1], after=after)
        return told


class OtherMarks(OtherSettings):
    """The trials of a run with a breakpoint after the system text of requests that have none.

    No text that is moved wins anything where no breakpoint stores it.
    """

    @classmethod
    def of_plan(cls, tried: Tried, plan: Plan, again: Again) -> OtherMarks | None:
        """Return the trials with breakpoints; None where anything is read, or the provider needs none."""
        provider = None if plan.cache is None else plan.cache.provider
        if plan.cache is None or provider is None or not provider.needs_mark:
            return None
        samples = tried.result.book(SampleBook)
        bare = [name for name in samples.groups if any(not marks_in(turn) for turn in samples.of_group(name))]
        mark = next(breakpoint_fixes(plan.cache, provider))
        lead, what = (PlacedMark(MarkPlace("lead")),), mark.what

        def marked(turn: Turn) -> Turn:
            return turn if marks_in(turn) else marked_turn(turn, lead, provider)

        fixes = [Fix(f"{mark.key}:{name}", mark.code, "P0", name, what, make=lambda: marked) for name in bare]
        return cls(tried, again, fixes) if fixes else None

    def cheaper(self, first: Advice, advise: Callable[[Tried], Advice]) -> Advice:
        """Return the first advice, with that with breakpoints in groups in which it wins nothing."""
        marks = {fix.group: fix for fix in self._settings if fix.group not in first.kept}
        other = advise(self._trials) if marks else first
        kept = {name: steps for name, steps in other.kept.items() if name in marks}
        if not kept:
            return first
        every = replace(first, kept={**first.kept, **kept}, tried=first.tried | other.tried)
        settings = [marks[name] for name in kept]
        proof = self._first.again(
            [*settings, *every.fixes], [group.name for group in self._first.result.ledger.totals()]
        )
        if proof.partial:
            raise TrialInterruptedError
        steps = {name: self._with_settings(name, kept[name], [marks[name]], proof) for name in kept}
        stuck = [each for each in first.stuck if each.cause.group not in kept]
        return replace(every, kept={**first.kept, **steps}, stuck=stuck, proof=proof)

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
