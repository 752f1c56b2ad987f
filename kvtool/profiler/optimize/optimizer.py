"""Fixes carried out in the user's own files, in memory, and proven by running the edited files again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from os.path import realpath
from pathlib import Path

from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edits import edits_for
from kvtool.profiler.advice.advisor import LEAST_GAIN
from kvtool.profiler.advice.kept_fixes import KeptFix, with_places
from kvtool.profiler.advice.trials import counted_rate, steady_first, totals_by_name
from kvtool.profiler.optimize.disk_lines import disk_place
from kvtool.profiler.optimize.edited_files import Changed, Done, Optimized
from kvtool.profiler.optimize.edited_runs import EditedRuns, SourceRuns
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.text.files.text_files import read_source
from kvtool.text.terminal.numbers import percent
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.yaml.yaml_source import YamlSource

_WORSE = 0.005
"""By how much a group's hit rate may fall for an edit that wins hits elsewhere."""
_SAME = 0.0005
"""Two hit rates no further apart are written as the same tenth of a percent."""
_MOST_ROUNDS = 8
RECORDED = "a log is a record: fix the code that writes it"
_PROMPTS = "kvtool edits only prompts of a workload file: name them in one"
_DROPPED = "so kvtool dropped the edit"
_NO_GAIN = f"it gains nothing with the edits that kvtool can make, {_DROPPED}"
_TOO_LITTLE = "the gain is too small for a change of content"
_NOTHING_LEFT = "earlier edits already made this change"
_POSSIBLE = (_DROPPED, _TOO_LITTLE, _NOTHING_LEFT)
"""How the reasons end against edits that could be made."""


@dataclass(frozen=True, slots=True)
class _State:
    """Files with some edits: their new texts by real path, the runs of the workload that they make, and its result."""

    overlay: Mapping[str, str]
    runs: SourceRuns
    result: RunResult

    @property
    def source(self) -> YamlSource | LogSource:
        return self.runs.source


@dataclass(frozen=True, slots=True)
class _Made:
    """Files with the steps that they hold, and what came of each step that was tried."""

    now: _State
    steps: Sequence[KeptFix] = ()
    done: Sequence[Done] = ()


class Optimizer:
    """Applies advice to files step by step; what an edited state hits is measured before the next step, and decides."""

    def __init__(
        self,
        runs: EditedRuns,
        advise: Callable[[SourceRuns, frozenset[str]], Mapping[str, Sequence[KeptFix]]],
        originals: dict[str, tuple[str, str]],
    ) -> None:
        """`advise` gives the steps that are worth doing in a source, by group, without fixes of some keys; it may raise
        TrialInterruptedError. `originals` (by real path: a file's name and its text on disk) is shared by those that edit one set
        of files.
        """
        self._runs = runs
        self._advise = advise
        self._originals = originals
        self._best: dict[str, float] = {}
        """The highest hit rate of each group in any state that was kept: no later edit may take it back."""

    def run(self, first: SourceRuns, steps: Mapping[str, Sequence[KeptFix]]) -> Optimized:
        """Edit what `steps` (the advice on `first`) ask for, and ask for advice on the edited files until it changes nothing more.

        So a second run, on the files as they were written, finds nothing to do.
        """
        before = first.explained()
        given = (first.source.overlay if isinstance(first.source, YamlSource) else None) or {}
        state = _State(given, first, before)
        self._keep(state)
        edited: list[Done] = []
        left: list[Done] = []
        refused: dict[str, str] = {}
        impossible: dict[str, Done] = {}  # another fix of the same cause is tried instead
        for rounds_left in reversed(range(_MOST_ROUNDS)):
            last = state
            made = self._carried_out(state, steps)
            state, done = made.now, made.done
            edited_texts = self._texts(last)
            done = [replace(each, place=disk_place(each.step.cause, edited_texts)) for each in done]
            edited += [each for each in done if not each.reason]
            left = [each for each in done if each.reason]
            refused |= {each.step.fix.key: each.reason for each in left}
            if state is not last:
                state = replace(state, result=state.runs.explained())
                impossible.clear()  # in the edited files they may be possible
            known = len(impossible)
            if state is last and not isinstance(state.source, LogSource):
                impossible |= {each.step.fix.key: each for each in left if _is_impossible(each)}
            if (state is last and len(impossible) == known) or not rounds_left:
                break
            steps = self._advise(state.runs, frozenset(impossible))
        said = {each.step.cause.group for each in (*edited, *left)}
        left += [each for each in impossible.values() if each.step.cause.group not in said]
        return Optimized(before, state.result, state.source, [*edited, *left], self._changed(state), refused)

    def first_round(self, first: SourceRuns, steps: Mapping[str, Sequence[KeptFix]]) -> Optimized:
        """Edit what `steps` ask for, and ask for no advice on the edited files; other fixes take the place of impossible ones."""
        given = (first.source.overlay if isinstance(first.source, YamlSource) else None) or {}
        state = _State(given, first, first.explained())
        self._keep(state)
        made = _Made(state)
        done: dict[str, Done] = {}
        refused: dict[str, str] = {}
        while True:
            made = self._carried_out(state, steps, made)
            done |= {each.step.fix.key: each for each in made.done}
            new = {key: each.reason for key, each in done.items() if _is_impossible(each) and key not in refused}
            if not new:
                break
            refused |= new
            made = replace(made, done=[each for each in made.done if not each.reason])
            steps = _joined(made.steps, self._advise(first, frozenset(refused)))
        later = frozenset(key for key, each in done.items() if each.reason) - refused.keys()
        files = self._changed(made.now)
        return Optimized(
            state.result, made.now.result, made.now.source, list(done.values()), files, refused, later=later
        )

    def _changed(self, state: _State) -> list[Changed]:
        """Return the files that the edits change."""
        files = [Changed(*self._originals[real], text) for real, text in state.overlay.items()]
        return sorted((file for file in files if file.before != file.after), key=lambda file: file.path)

    def _carried_out(self, state: _State, chains: Mapping[str, Sequence[KeptFix]], begun: _Made | None = None) -> _Made:
        """Return the steps of all groups in the files of `state`; in each group what comes after the last gain is dropped again.
        `begun` has some of the steps already.

        The edits of several steps come from the prompts that these steps make together, as the trial of the advice does. The first
        steps of all groups are run together, then the second ones, and so on. A step may win nothing until the next one is made.
        """
        worth = [step for chain in chains.values() for at, step in enumerate(chain) if worth_it(chain, at)]
        made = begun or _Made(state)
        first = totals_by_name(state.result)
        won = {name: counted_rate(group, first[name]) for name, group in totals_by_name(made.now.result).items()}
        open_: dict[str, set[str]] = {}
        for wanted in zip_longest(*chains.values()):
            before = made
            made = self._made(state, made, [step for step in wanted if step is not None], worth)
            for step in made.steps[len(before.steps) :]:
                open_.setdefault(step.cause.group, set()).add(step.fix.key)
            for name, group in totals_by_name(made.now.result).items():
                if (rate := counted_rate(group, first[name])) > won[name]:
                    won[name] = rate
                    open_.pop(name, None)
        kept = replace(made, steps=[step for step in made.steps if step.fix.key not in open_.get(step.cause.group, ())])
        if not kept.steps:
            kept = replace(kept, now=state)
        elif open_:
            edited = self._edited(state, state.overlay, kept.steps)
            changed = None if isinstance(edited, str) else self._state(edited)
            kept = made if changed is None or self._harm(changed) else replace(kept, now=changed)
        samples = state.result.book(SampleBook)
        names = dict.fromkeys(step.cause.group for step in kept.steps)
        of_groups = {name: [step for step in kept.steps if step.cause.group == name] for name in names}
        as_made = {
            (name, step.fix.key): step.fix
            for name, steps in of_groups.items()
            for step in with_places(steps, samples.of_group(name))
        }
        order = [(step.cause.group, step.fix.key) for chain in chains.values() for step in chain]
        done = [
            replace(each, step=replace(each.step, fix=as_made[each.step.cause.group, each.step.fix.key]))
            if not each.reason and _has_step(kept.steps, each.step)
            else replace(each, reason=each.reason or _NO_GAIN)
            for each in made.done
        ]
        done.sort(key=lambda each: order.index((each.step.cause.group, each.step.fix.key)))
        return replace(kept, done=done)

    def _made(self, state: _State, made: _Made, wanted: Sequence[KeptFix], worth: Sequence[KeptFix]) -> _Made:
        """Return `made` with the edits of steps of several groups, run together; one by one where that costs a group hits."""
        steps, overlay = list(made.steps), made.now.overlay
        refused: list[Done] = []
        for step in wanted:
            if _has_step(steps, step):
                continue
            new, edited = [step], _TOO_LITTLE if step not in worth else self._edited(state, overlay, [*steps, step])
            if isinstance(edited, str) and step in worth:
                ways = _of_all_readers(step, [each for each in worth if not _has_step(steps, each)])
                tried = [(alike, self._edited(state, overlay, [*steps, *alike])) for alike in ways]
                made_so = [(alike, texts) for alike, texts in tried if not isinstance(texts, str)]
                new, edited = min(made_so, key=lambda way: self._changes(overlay, way[1]), default=(new, edited))
            if isinstance(edited, str):
                refused.append(Done(step, edited, step.before, step.after))
            else:
                steps, overlay = [*steps, *new], edited
        added = steps[len(made.steps) :]
        if not added:
            return replace(made, done=[*made.done, *refused])
        changed = self._state(overlay)
        harm = self._harm(changed)
        if harm and len(wanted) > 1:
            for step in wanted:
                made = self._made(state, made, [step], worth)
            return made
        if not harm:
            added = [
                each if each in worth and _is_as_tried(each, made) else _measured(each, made, changed.result)
                for each in added
            ]
            steps = [*made.steps, *added]
        done = [Done(each, harm, _rate(made.now.result, each), _rate(changed.result, each)) for each in added]
        if harm:
            return replace(made, done=[*made.done, *refused, *done])
        self._keep(changed)
        return _Made(changed, steps, [*made.done, *refused, *done])

    def _changes(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
        """Count the files that an edit changes, as few are the easiest to keep, and those whose last newline comes or goes."""
        texts = [(before.get(path, self._originals[path][1]), text) for path, text in after.items()]
        ends = sum(old.endswith("\n") != new.endswith("\n") for old, new in texts)
        return sum(old != new for old, new in texts), ends

    def _texts(self, state: _State) -> dict[str, tuple[str, str]]:
        """Return texts of edited files, by path: as they are on disk, and as they are in `state`."""
        named = ((*self._originals[real], text) for real, text in state.overlay.items() if real in self._originals)
        return {path: (disk, edited) for path, disk, edited in named if disk != edited}

    def _state(self, overlay: Mapping[str, str]) -> _State:
        runs = self._runs.with_files(overlay)
        return _State(overlay, runs, runs.counted())

    def _keep(self, state: _State) -> None:
        for group in state.result.ledger.totals():
            self._best[group.name] = max(group.hit_rate, self._best.get(group.name, 0.0))

    def _harm(self, state: _State) -> str:
        """Return which group an edit costs hits; empty where none."""
        for group in state.result.ledger.totals():
            best = self._best.get(group.name, 0.0)
            if group.hit_rate < best - _WORSE:
                rates = f"{percent(best)} -> {percent(group.hit_rate)}"
                return f"group `{group.name}` would hit less ({rates}), {_DROPPED}"
        return ""

    def _edited(self, state: _State, texts_before: Mapping[str, str], steps: Sequence[KeptFix]) -> dict[str, str] | str:
        """Return the new texts of the files of `state` with these steps, by real path, or why there are none; `texts_before` are
        those without the last step.
        """
        if isinstance(state.source, LogSource):
            origin = steps[-1].cause.origin
            path = "" if origin is None else origin.path
            return _PROMPTS if path.lower().endswith(PLAIN_SUFFIXES) else RECORDED
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
        return overlay if overlay != texts_before else _NOTHING_LEFT


def is_left_to_people(reason: str) -> bool:
    """Return whether a person can still make a step that kvtool did not make for this reason."""
    return not reason.endswith(_POSSIBLE)


def worth_it(steps: Sequence[KeptFix], number: int) -> bool:
    """Return whether a step of a group, with those that it may open the way for, wins enough for what its tier does to text."""
    step = steps[number]
    return steps[-1].after - step.before >= LEAST_GAIN.get(step.fix.tier, 0.0)


def _joined(first: Sequence[KeptFix], more: Mapping[str, Sequence[KeptFix]]) -> dict[str, list[KeptFix]]:
    """Return the steps of each group, and after them those of `more` for other causes."""
    names = dict.fromkeys([*(step.cause.group for step in first), *more])
    joined = {name: [step for step in first if step.cause.group == name] for name in names}
    for name, chain in more.items():
        known = {step.cause.slot for step in joined[name]}
        joined[name] += [step for step in chain if step.cause.slot not in known]
    return joined


def _is_impossible(done: Done) -> bool:
    """Return whether no edit of the files makes a step."""
    return bool(done.reason) and is_left_to_people(done.reason)


def _of_all_readers(step: KeptFix, others: Sequence[KeptFix]) -> Iterator[list[KeptFix]]:
    """Yield what `step` and those of other groups may be as one change of a text that all of them read.

    As each group has it; and moves to the very end of the message, which is one place of a file even where what its readers
    insert is not.
    """
    alike = [each for each in others if _change_of(each) == _change_of(step)]
    if len(alike) > 1:
        yield alike
    moves = [each for each in others if each.fix.at_end and _place_of(each) == _place_of(step)]
    of_groups = {each.cause.group: each for each in reversed(moves)}
    if _has_step(moves, step):
        for number in range(len(step.fix.at_end)):
            yield [
                replace(each, fix=each.fix.at_end[number]) for each in (of_groups | {step.cause.group: step}).values()
            ]


def _change_of(step: KeptFix) -> tuple[object, ...]:
    """Return the same for steps of two groups that are one change of a text which both read."""
    return "move" if step.fix.at_end else step.fix.kind, *_place_of(step)


def _place_of(step: KeptFix) -> tuple[object, ...]:
    slot = step.cause.slot
    return slot.path, slot.line, slot.column, slot.variable, slot.kind, slot.words


def _has_step(steps: Sequence[KeptFix], step: KeptFix) -> bool:
    """Return whether a step is among others, whichever place its text moves to."""
    return any(each.fix.key == step.fix.key for each in steps)


def _is_as_tried(step: KeptFix, made: _Made) -> bool:
    """Return whether a step is made on files that hit what its trial began with: no step before it was left out."""
    return abs(_rate(made.now.result, step) - step.before) <= _SAME


def _measured(step: KeptFix, made: _Made, now: RunResult) -> KeptFix:
    """Return a step whose text moves to another place than advised, or on other files, with what it wins on the edited files."""
    is_first = all(each.cause.group != step.cause.group for each in made.steps)
    after = _rate(now, step)
    return replace(step, before=_rate(made.now.result, step), after=after, alone=after if is_first else step.alone)


def _rate(result: RunResult, step: KeptFix) -> float:
    return totals_by_name(result)[step.cause.group].hit_rate
