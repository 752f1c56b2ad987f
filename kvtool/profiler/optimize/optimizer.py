"""Fixes carried out in the user's own files, in memory, and proven by running the edited files again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import realpath
from pathlib import Path
from typing import Protocol

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edits import edits_for
from kvtool.fixes.fix import ALL_TIERS, SAFE_TIERS, Tier
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.advice.trials import steady_first
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.run_result import RunResult
from kvtool.text.files.text_files import read_source
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource

Load = Callable[[Mapping[str, str]], YamlSource]
"""Reads the workload again with the text of some files, by their real paths, replaced."""
Account = Callable[[YamlSource | LogSource], RunResult]
"""Runs a source through the engine. Raises TrialInterruptedError."""
Advise = Callable[[YamlSource | LogSource, RunResult], Mapping[str, Sequence[KeptFix]]]
"""The steps that are worth doing in a source that was run, by group. Raises TrialInterruptedError."""
Choose = Callable[[YamlSource | LogSource, RunResult, Advice], Mapping[str, Sequence[KeptFix]]]
"""Which steps of the advice on a source that was run may be taken, by group."""

_WORSE = 0.005
"""By how much a group's hit rate may fall for an edit that wins hits elsewhere."""
_LEAST: dict[Tier, float] = {"P2": THRESHOLDS.warning_share, "P3": THRESHOLDS.error_share}
"""What a group's hit rate must win for text to be moved (as much as makes a warning), and to be changed (an error)."""
_MOST_ROUNDS = 8
_LOGS = "a log is a record: fix the code that writes it"
_PROMPTS = "kvtool edits only prompts of a workload file: name them in one"
_NO_GAIN = "the edited files hit no more than before, so kvtool dropped the edit"
_TOO_LITTLE = "the gain is too small for a change of content"
_NOTHING_LEFT = "earlier edits already made this change"


class EditableWorkload(Protocol):
    """An opened workload that can be read and run again with other texts of its files."""

    @property
    def source(self) -> YamlSource | LogSource:
        """The requests."""
        ...

    def reloaded(self, overlay: Mapping[str, str]) -> YamlSource:
        """Return the workload with the text of some files, by their real paths, replaced."""
        ...

    def profiler(
        self, wanted: ReportOptions, progress: Progress, *, source: YamlSource | LogSource | None = None
    ) -> Profiler:
        """Return the profiler of the workload, or of another source with its settings."""
        ...


@dataclass(frozen=True, slots=True)
class _State:
    """Files with some edits: their new texts by real path, the workload that they make, and its run."""

    overlay: Mapping[str, str]
    source: YamlSource | LogSource
    result: RunResult


class Optimizer:
    """Applies advice to files step by step; what an edited state hits is measured before the next step, and decides."""

    def __init__(
        self,
        load: Load,
        count: Account,
        explain: Account,
        advise: Advise,
        *,
        originals: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        """`count` runs a source for its hits alone, `explain` looks for causes, too, which advice needs. `originals` (by real
        path: a file's name and its text on disk) is shared by those that edit one set of files.
        """
        self._load = load
        self._count = count
        self._explain = explain
        self._advise = advise
        self._originals = {} if originals is None else originals
        self._best: dict[str, float] = {}
        """The highest hit rate of each group in any state that was kept: no later edit may take it back."""

    def run(
        self, source: YamlSource | LogSource, before: RunResult, steps: Mapping[str, Sequence[KeptFix]]
    ) -> Optimized:
        """Edit what `steps` (the advice on `before`) ask for, and ask for advice on the edited files until it changes nothing more.

        So a second run, on the files as they were written, finds nothing to do.
        """
        given = (source.overlay if isinstance(source, YamlSource) else None) or {}
        state = _State(given, source, before)
        self._keep(state)
        edited: list[Done] = []
        left: list[Done] = []
        refused: dict[str, str] = {}
        for rounds_left in reversed(range(_MOST_ROUNDS)):
            last = state
            state, done = self._carried_out(state, steps)
            edited += [each for each in done if not each.reason]
            left = [each for each in done if each.reason]
            refused |= {each.step.fix.key: each.reason for each in left}
            if state is not last:
                state = replace(state, result=self._explain(state.source))
            if state is last or not rounds_left:
                break
            steps = self._advise(state.source, state.result)
        files = [Changed(*self._originals[real], text) for real, text in state.overlay.items()]
        files = sorted((file for file in files if file.before != file.after), key=lambda file: file.path)
        return Optimized(before, state.result, state.source, [*edited, *left], files, refused)

    def _carried_out(self, state: _State, chains: Mapping[str, Sequence[KeptFix]]) -> tuple[_State, list[Done]]:
        """Return the steps of all groups in the files of `state`; in each group what comes after the last gain is dropped again.

        The edits of several steps come from the prompts that these steps make together, as the trial of the advice does. A step
        may win nothing until the next one is made: a state is kept when its files hit more than the last that was kept.
        """
        worth = [step for chain in chains.values() for at, step in enumerate(chain) if worth_it(chain, at)]
        kept, made = state, list[KeptFix]()
        done: list[Done] = []
        for chain in chains.values():
            now, steps = kept, list(made)
            open_: list[int] = []
            for step in chain:
                if step in steps:
                    continue
                new, edited = [step], _TOO_LITTLE if step not in worth else self._edited(state, now, [*steps, step])
                alike = [each for each in worth if each not in steps and _change_of(each) == _change_of(step)]
                if isinstance(edited, str) and step in worth and len(alike) > 1:
                    new, edited = alike, self._edited(state, now, [*steps, *alike])
                if isinstance(edited, str):
                    done.append(Done(step, edited, step.before, step.after))
                    continue
                source = self._load(edited)
                changed = _State(edited, source, self._count(source))
                harm = self._harm(changed)
                done += [Done(each, harm, _rate(now.result, each), _rate(changed.result, each)) for each in new]
                if harm:
                    continue
                now, steps = changed, [*steps, *new]
                open_ += range(len(done) - len(new), len(done))
                if _wins(now.result, kept.result):
                    kept, made = now, steps
                    open_.clear()
                    self._keep(kept)
            for index in open_:
                done[index] = replace(done[index], reason=_NO_GAIN)
        return kept, done

    def _keep(self, state: _State) -> None:
        for group in state.result.ledger.totals():
            self._best[group.name] = max(group.hit_rate, self._best.get(group.name, 0.0))

    def _harm(self, state: _State) -> str:
        """Return which group an edit costs hits; empty where none."""
        for group in state.result.ledger.totals():
            best = self._best.get(group.name, 0.0)
            if group.hit_rate < best - _WORSE:
                rates = f"{percent(best)} -> {percent(group.hit_rate)}"
                return f"group `{group.name}` would hit less ({rates}), so kvtool dropped the edit"
        return ""

    def _edited(self, state: _State, now: _State, steps: Sequence[KeptFix]) -> dict[str, str] | str:
        """Return the new texts of the files of `state` with these steps, by real path, or why there are none; `now` has those
        before.
        """
        if isinstance(state.source, LogSource):
            origin = steps[-1].cause.origin
            path = "" if origin is None else origin.path
            return _PROMPTS if path.lower().endswith(PLAIN_SUFFIXES) else _LOGS
        groups = dict.fromkeys(step.cause.group for step in steps)
        fixes = [fix for name in groups for fix in steady_first(one.fix for one in steps if one.cause.group == name)]
        edits = edits_for(fixes, state.source)
        if isinstance(edits, str):
            return edits
        texts: dict[str, str] = {}
        for path in dict.fromkeys(edit.path for edit in edits):
            real = realpath(path)
            if real not in self._originals:
                self._originals[real] = path, read_source(Path(real), shown=path)
            texts[path] = state.overlay.get(real, self._originals[real][1])
        changed = {realpath(path): text for path, text in apply_edits(texts, edits).items()}
        overlay = {**state.overlay, **changed}
        return overlay if overlay != now.overlay else _NOTHING_LEFT


def worth_it(steps: Sequence[KeptFix], number: int) -> bool:
    """Return whether a step of a group, with those that it may open the way for, wins enough for what its tier does to text."""
    step = steps[number]
    return steps[-1].after - step.before >= _LEAST.get(step.fix.tier, 0.0)


def _change_of(step: KeptFix) -> tuple[object, ...]:
    """Return the same for steps of two groups that are one change of a text which both read."""
    slot, kind = step.cause.slot, step.fix.kind
    return kind, slot.path, slot.line, slot.column, slot.variable, slot.kind, slot.words


def _wins(result: RunResult, before: RunResult) -> bool:
    """Return whether more is hit: not only a larger part, as a prompt that loses text has, but more tokens, too."""
    now, then = (TokenTotals.of(each.ledger.totals()) for each in (result, before))
    return now.hit_rate > then.hit_rate and now.hit_tokens > then.hit_tokens


def _rate(result: RunResult, step: KeptFix) -> float:
    return next(group.hit_rate for group in result.ledger.totals() if group.name == step.cause.group)


def optimize(
    opened: EditableWorkload,
    tiers: Collection[Tier],
    progress: Progress,
    *,
    choose: Choose | None = None,
    given: Sequence[Changed] = (),
    advised: tuple[RunResult, Advice] | None = None,
) -> Optimized:
    """Return the edits that win within the tiers, proven. Raises TrialInterruptedError where Ctrl-C came in between.

    `given` are files that are to be changed already; they are among the files of the result. `advised` is the run of the files as
    they are, with the advice on it for these tiers, where there is one.
    """
    source = opened.source
    if given:
        source = opened.reloaded({realpath(file.path): file.after for file in given})
    originals = {realpath(file.path): (file.path, file.before) for file in given}
    tried: set[Tier] = set()

    def explain(source: YamlSource | LogSource) -> RunResult:
        return opened.profiler(ReportOptions(), progress, source=source).explained()

    def count(source: YamlSource | LogSource) -> RunResult:
        return opened.profiler(ReportOptions(), progress, source=source).counted()

    def chosen(source: YamlSource | LogSource, result: RunResult, advice: Advice) -> Mapping[str, Sequence[KeptFix]]:
        tried.update(advice.tried)
        return advice.kept if choose is None else choose(source, result, advice)

    def advise(source: YamlSource | LogSource, result: RunResult) -> Mapping[str, Sequence[KeptFix]]:
        return chosen(source, result, opened.profiler(ReportOptions(), progress, source=source).advised(result, tiers))

    before = explain(source) if advised is None else advised[0]
    first = advise(source, before) if advised is None else chosen(source, *advised)
    found = Optimizer(opened.reloaded, count, explain, advise, originals=originals).run(source, before, first)
    return replace(found, tried=frozenset(tried))


def plan_edits(
    opened: EditableWorkload, progress: Progress, profiler: Profiler, result: RunResult, advice: Advice
) -> tuple[Optimized, Advice]:
    """Return what `kvtool optimize` does to the files on this advice, where only those tiers are allowed that it needs.

    `profiler` gave the advice. The advice that was followed comes with it: another one where a fix that is not made was tried on
    the way. Raises TrialInterruptedError.
    """
    tiers: Collection[Tier] = ALL_TIERS
    while True:
        found = optimize(opened, tiers, progress, advised=(result, advice))
        needed = {*SAFE_TIERS, *(each.step.fix.tier for each in found.edited if each.step in advice.steps)}
        if found.tried <= needed:
            return found, advice
        tiers, advice = needed, profiler.advised(result, needed)


def needing_consent(
    opened: EditableWorkload, tiers: Collection[Tier], progress: Progress, optimized: Optimized
) -> tuple[list[KeptFix], list[Done]]:
    """Return what would be done, were all tiers allowed, with what the files hit then; and what no edit makes in any case.

    Of logs, which nobody edits, what would win. Raises TrialInterruptedError.
    """
    if set(tiers) >= ALL_TIERS:
        return [], []
    profiler = opened.profiler(ReportOptions(), progress)
    advice = profiler.advised(optimized.before)
    if isinstance(opened.source, LogSource):
        return [step for step in advice.steps if step.fix.tier not in tiers], []
    found, _ = plan_edits(opened, progress, profiler, optimized.before, advice)
    asked = [each for each in found.done if each.step.fix.tier not in tiers]
    made = [replace(each.step, before=each.before, after=each.rate) for each in asked if not each.reason]
    return made, [each for each in asked if each.reason]
