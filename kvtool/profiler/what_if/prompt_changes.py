"""Changes of prompts that the advisor proposes, beside changes of hardware: each request's own blocks, rewritten."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.config.command_line import flag
from kvtool.diagnose.codes import entry_of
from kvtool.diagnose.findings import logged_cause, place_of
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.kept_fixes import KeptFix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened
from kvtool.profiler.optimize.edited_files import Optimized
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.workload_runs import workload_file
from kvtool.results.next_step import EDIT_BY_HAND, PREVIEW_EDIT, SEE_EDITED_REQUEST
from kvtool.text.comma_list import comma_list
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.files.locations import locate

ALL_FIXES = "all"
_OTHERS = "prompts: all other fixes together"
_PAIR = 2
_SHOWN = 3
"""Fixes with rows of their own: those that win most by themselves. All together always have one."""


@dataclass(frozen=True, slots=True)
class PromptChange:
    """A row of the table: its name, what to do, the fixes of its run, and the value of `--fixed` that makes them."""

    name: str
    does: str
    fixes: Sequence[Fix]
    fixed: str


@dataclass(frozen=True, slots=True)
class FixPlace:
    """Where a fix is made: `word` is a file and its line, `told` the same in words, in a log with the message."""

    word: str
    column: int
    told: str


@dataclass(frozen=True, slots=True)
class PromptFixes:
    """The advice on a workload's prompts, and how many requests of each group it is about.

    What all fixes win together is what `kvtool optimize` makes: its `edits` of files replace the source.
    """

    steps: tuple[KeptFix, ...]
    together: tuple[Fix, ...]
    """In the order in which they are made, without those that are left to people."""
    by_hand: tuple[Fix, ...]
    edits: Optimized | None
    prompt_tokens: dict[str, int]
    """By group."""
    places: dict[str, FixPlace]
    """By the key of a fix."""
    edits_label: str
    """What `kvtool optimize` does with them."""

    def run_as(self, fixes: Sequence[Fix]) -> Sequence[Fix]:
        """Return what a run takes for these fixes: all of them are the edited files, where edits make any."""
        if self.edits is None or fixes is not self.together:
            return fixes
        edited = self.edits.source
        return [replace(self.together[0], make=None, source=lambda _: edited, renderer=None, plan=None)]

    def name(self, fix: Fix) -> str:
        """Return what a table calls it."""
        entry = entry_of(fix.code)
        of = f" in {fix.group}" if len(self.prompt_tokens) > 1 and fix.group else ""
        return f"prompts: {fix.code}" + (f" {entry.name}" if entry is not None else "") + of

    def does(self, fix: Fix) -> str:
        """Return where and what to change."""
        return f"{self.places[fix.key].told} ({fix.code}): {fix.what}"

    def chosen(self, names: Collection[str]) -> tuple[Fix, ...]:
        """Return the fixes with these names, as the table or `option_value` has them, or `all`; KvtoolError for other names."""
        if {ALL_FIXES, self.all_together, _OTHERS} & {name.lower() for name in names}:
            return self.together
        fixes = (*self.together, *self.by_hand)
        for name in names:
            if not any(self._is_named(fix, name) for fix in fixes):
                known = ", ".join(dict.fromkeys(self.option_value(fix) for fix in fixes))
                raise KvtoolError(
                    f"{flag('fixed')}: there is no fix {name[:80]!a}",
                    hint=f"{flag('fixed')} takes {known}, or {ALL_FIXES}",
                )
        return tuple(fix for fix in fixes if any(self._is_named(fix, name) for name in names))

    def option_value(self, fix: Fix) -> str:
        """Return what `--fixed` takes for a fix: its code, with its place where several fixes have that code."""
        return next((name for name in self._short_names(fix) if self._is_its_own(fix, name)), fix.name)

    @property
    def count(self) -> int:
        """Count the fixes that all together are."""
        return len(self.together) if self.edits is None else self.edits.count

    @property
    def all_together(self) -> str:
        """Return what the table calls all fixes."""
        count = self.count
        return f"prompts: {'both' if count == _PAIR else f'all {count:,}'} fixes together"

    def _short_names(self, fix: Fix) -> tuple[str, ...]:
        place = self.places[fix.key]
        at = f"{fix.code}:{place.word}"
        return fix.code, at, f"{at}:{place.column}", f"{at}:{fix.group}", f"{at}:{place.column}:{fix.group}"

    def _is_named(self, fix: Fix, name: str) -> bool:
        names = (*self._short_names(fix), fix.name, self.name(fix), self.places[fix.key].word)
        return name.lower() in (each.lower() for each in names)

    def _is_its_own(self, fix: Fix, name: str) -> bool:
        """Return whether a name is of this fix alone, and one word of a list with commas."""
        return comma_list(name) == [name] and all(
            each is fix or not self._is_named(each, name) for each in (*self.together, *self.by_hand)
        )


def explained_requests(opened: Opened, progress: Progress) -> tuple[Profiler, RunResult]:
    """Return a run of the prompts with the causes of their losses, and its profiler."""
    profiler = opened.profiler(ReportOptions(), progress)
    try:
        return profiler, profiler.explained()
    except TrialInterruptedError:
        raise KeyboardInterrupt from None


def prompt_fixes(opened: Opened, profiler: Profiler, result: RunResult) -> PromptFixes:
    """Return what the advisor proposes for the prompts of a run and proves by running them again, as a profile does."""
    try:
        groups = {group.name: group.prompt_tokens for group in result.ledger.totals()}
        advice, followed = profiler.advised_with_edits(result)
    except TrialInterruptedError:
        raise KeyboardInterrupt from None
    edits = profiler.edits if profiler.edits is not None and profiler.edits.files else None
    made = {fix.key for fix in followed.fixes}
    if edits is not None:
        made = made.intersection(each.step.fix.key for each in edits.edited) or made
    places = {step.fix.key: _place(step, opened.name) for step in advice.steps}
    return PromptFixes(
        tuple(advice.steps),
        tuple(fix for fix in advice.fixes if fix.key in made),
        tuple(fix for fix in advice.fixes if fix.key not in made),
        edits,
        groups,
        places,
        SEE_EDITED_REQUEST
        if workload_file(profiler.source) is None
        else EDIT_BY_HAND
        if edits is None
        else PREVIEW_EDIT,
    )


def prompt_changes(found: PromptFixes, made: Sequence[Fix]) -> Iterator[PromptChange]:
    """Yield a row for each fix beside those `made` that wins most by itself, and one for all together."""
    steps = {step.fix.key: step for step in found.steps}
    alone = {fix.key: _alone(steps[fix.key], found) for fix in found.together if fix.key in steps}
    left = sorted((fix for fix in found.together if fix not in made), key=lambda fix: -alone.get(fix.key, 0))
    if len(left) > 1:
        for fix in [fix for fix in left if fix.key in alone][:_SHOWN]:
            if made or alone[fix.key] > 0:
                fixes = [each for each in (*found.together, *found.by_hand) if each is fix or each in made]
                value = ",".join(found.option_value(each) for each in fixes)
                yield PromptChange(found.name(fix), found.does(fix), fixes, value)
    if left:
        name, does = found.name(left[0]), found.does(left[0])
        if len(left) > 1 or found.count > 1:
            name = _OTHERS if made else found.all_together
            places = list(dict.fromkeys(f"{found.places[fix.key].told} ({fix.code})" for fix in left))
            more = f"; and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
            does = f"fix the prompts: {'; '.join(places[:_SHOWN])}{more}"
        yield PromptChange(name, does, found.run_as(found.together), ALL_FIXES)


def _place(step: KeptFix, path: str) -> FixPlace:
    where, line, column = place_of(step.cause, locate, path)
    word = f"{where}:{line}" if line else where
    logged = logged_cause(step.cause)
    if logged is None or not logged.record:
        return FixPlace(word, column, word)
    return FixPlace(word, column, f"{where}:{logged.record}, {logged.told}")


def _alone(step: KeptFix, found: PromptFixes) -> float:
    """Return tokens that a fix wins by itself."""
    group = step.cause.group
    first = next(each.before for each in found.steps if each.cause.group == group)
    return (step.alone - first) * found.prompt_tokens.get(group, 0)
