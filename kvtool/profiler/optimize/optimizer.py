"""Fixes carried out in the user's own files, in memory, and proven by running the edited files again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import realpath
from pathlib import Path

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.diagnose.causes import SlotCause
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edits import edits_for
from kvtool.fixes.fix import ALL_TIERS, Fix, Tier
from kvtool.fixes.propose import propose
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.opening import Opened
from kvtool.profiler.passes import PassResult
from kvtool.profiler.profiler import ReportOptions
from kvtool.text.files.text_files import read_source
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.plain import PLAIN_SUFFIXES
from kvtool.workload.yaml.yaml_source import YamlSource

Load = Callable[[Mapping[str, str]], YamlSource]
"""Reads the workload again with the text of some files, by their real paths, replaced."""
Account = Callable[[YamlSource | LogSource], PassResult]
"""Runs a source through the engine, looking for causes. Raises TrialInterruptedError."""
Advise = Callable[[YamlSource | LogSource, PassResult], Mapping[str, Sequence[KeptFix]]]
"""The steps that are worth doing in a source that was run, by group. Raises TrialInterruptedError."""
Choose = Callable[[YamlSource | LogSource, PassResult, Advice], Mapping[str, Sequence[KeptFix]]]
"""Which steps of the advice on a source that was run may be taken, by group."""

_WORSE = 0.005
"""By how much a group's hit rate may fall for an edit that wins hits elsewhere."""
_LEAST: dict[Tier, float] = {"P2": 0.01, "P3": 0.05}
"""What a group's hit rate must win for text to be moved (as much as makes a warning), and to be changed (an error)."""
_MOST_ROUNDS = 8
_LOGS = "logs are records of what was sent: change what writes them"
_PROMPTS = "prompts are edited as files of a workload: name them in one"
_NO_GAIN = "the edited files hit no more than before, so the edit was dropped"
_TOO_LITTLE = "too little is won for a change of what prompts say"
_NOTHING_LEFT = "with the steps before it there is nothing left to change"


@dataclass(frozen=True, slots=True)
class Done:
    """A step and what came of it in the files: `reason` says why they were not edited; empty where they were.

    `before` and `rate` are hit rates of the step's group, without it and with it: measured on the edited files or, where those
    were not edited, on changed prompts.
    """

    step: KeptFix
    reason: str
    before: float
    rate: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A file's text before and after; `path` is as the user knows it."""

    path: str
    before: str
    after: str


@dataclass(slots=True)
class Optimized:
    """The edits and their proof: the runs of the files as they are and as they would be, and the source of the latter."""

    before: PassResult
    after: PassResult
    source: YamlSource | LogSource
    done: list[Done] = field(default_factory=list)
    files: list[Changed] = field(default_factory=list)

    @property
    def rates(self) -> tuple[float, float]:
        """Hit rates of all groups together, before and after."""
        return total_rate(self.before), total_rate(self.after)

    @property
    def edited(self) -> list[Done]:
        """The steps that were carried out in files."""
        return [each for each in self.done if not each.reason]


@dataclass(frozen=True, slots=True)
class _State:
    """Files with some edits: their new texts by real path, the workload that they make, and its run."""

    overlay: Mapping[str, str]
    source: YamlSource | LogSource
    result: PassResult


class Optimizer:
    """Applies advice to files step by step; what an edited state hits is measured before the next step, and decides."""

    def __init__(
        self,
        load: Load,
        account: Account,
        advise: Advise,
        *,
        block_size: int,
        originals: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        """`originals` (by real path: a file's name and its text on disk) is shared by those that edit one set of files."""
        self._load = load
        self._account = account
        self._advise = advise
        self._block_size = block_size
        self._originals = {} if originals is None else originals
        self._best: dict[str, float] = {}
        """The highest hit rate of each group in any state that was kept: no later edit may take it back."""

    def run(self, source: YamlSource | LogSource, before: PassResult) -> Optimized:
        """Edit what can be edited, and ask for advice on the edited files until it changes nothing more.

        So a second run, on the files as they were written, finds nothing to do.
        """
        given = (source.overlay if isinstance(source, YamlSource) else None) or {}
        state = _State(given, source, before)
        self._keep(state)
        edited: list[Done] = []
        left: list[Done] = []
        for _ in range(_MOST_ROUNDS):
            last, left = state, []
            for steps in self._advise(state.source, state.result).values():
                state, done = self._chain(state, steps)
                edited += [each for each in done if not each.reason]
                left += [each for each in done if each.reason]
            if state is last:
                break
        files = [Changed(*self._originals[real], text) for real, text in state.overlay.items()]
        files = sorted((file for file in files if file.before != file.after), key=lambda file: file.path)
        return Optimized(before, state.result, state.source, [*edited, *left], files)

    def _chain(self, state: _State, steps: Sequence[KeptFix]) -> tuple[_State, list[Done]]:
        """The steps of one group, each on top of those before it; what stands behind the last gain is dropped again.

        A step may win nothing until the next one is made: a state is kept when its files hit more than the last that was kept.
        """
        kept = now = state
        done: list[Done] = []
        open_: list[int] = []
        for number, step in enumerate(steps):
            edited = self._edited(now, step) if worth_it(steps, number) else _TOO_LITTLE
            if isinstance(edited, str):
                done.append(Done(step, edited, step.before, step.after))
                continue
            source = self._load(edited)
            changed = _State(edited, source, self._account(source))
            rate, other = _rate(now.result, step), _rate(changed.result, step)
            harm = self._harm(changed)
            done.append(Done(step, harm, rate, other))
            if harm:
                continue
            now = changed
            open_.append(len(done) - 1)
            if _wins(now.result, kept.result):
                kept = now
                open_.clear()
                self._keep(kept)
        for index in open_:
            done[index] = replace(done[index], reason=_NO_GAIN)
        return kept, done

    def _keep(self, state: _State) -> None:
        for group in state.result.ledger.totals():
            self._best[group.name] = max(group.hit_rate, self._best.get(group.name, 0.0))

    def _harm(self, state: _State) -> str:
        """Which group an edit costs hits; empty where none."""
        for group in state.result.ledger.totals():
            best = self._best.get(group.name, 0.0)
            if group.hit_rate < best - _WORSE:
                rates = f"{percent(best)} -> {percent(group.hit_rate)}"
                return f"group `{group.name}` would hit less ({rates}), so the edit was dropped"
        return ""

    def _edited(self, state: _State, step: KeptFix) -> dict[str, str] | str:
        """The new texts of all files with a step, by real path, or why there are none."""
        if isinstance(state.source, LogSource):
            path = "" if step.cause.origin is None else step.cause.origin.path
            return _PROMPTS if path.lower().endswith(PLAIN_SUFFIXES) else _LOGS
        fix = self._found_again(state.result, step)
        if fix is None:
            return _NOTHING_LEFT
        edits = edits_for(fix, state.source)
        if isinstance(edits, str):
            return edits
        texts: dict[str, str] = {}
        for path in dict.fromkeys(edit.path for edit in edits):
            real = realpath(path)
            if real not in self._originals:
                self._originals[real] = path, read_source(Path(real), shown=path)
            texts[path] = state.overlay.get(real, self._originals[real][1])
        changed = apply_edits(texts, edits)
        if not changed:
            return _NOTHING_LEFT
        return {**state.overlay, **{realpath(path): text for path, text in changed.items()}}

    def _found_again(self, result: PassResult, step: KeptFix) -> Fix | None:
        """The step's fix for the files as they are by now: earlier edits may have moved its lines."""
        cause = same_cause(step.cause, result.causes.of_group(step.cause.group))
        if cause is None:
            return None
        samples = result.samples.of_group(step.cause.group)
        proposed: Sequence[Fix] = propose(cause, samples, block_size=self._block_size)
        return next((fix for fix in proposed if fix.tier == step.fix.tier and fix.kind == step.fix.kind), None)


def worth_it(steps: Sequence[KeptFix], number: int) -> bool:
    """Whether a step of a group, with those that it may open the way for, wins enough for what its tier does to text."""
    step = steps[number]
    return steps[-1].after - step.before >= _LEAST.get(step.fix.tier, 0.0)


def same_cause(cause: SlotCause, causes: Sequence[SlotCause]) -> SlotCause | None:
    """The cause itself or, where an edit has moved its line, the one of the same variable, part and kind."""
    for other in causes:
        if other.slot == cause.slot:
            return other
    mine = cause.slot
    for other in causes:
        slot = other.slot
        if (slot.path, slot.variable, slot.part, slot.kind) == (mine.path, mine.variable, mine.part, mine.kind):
            return other
    return None


def _wins(result: PassResult, before: PassResult) -> bool:
    """Whether more is hit: not only a larger part, as a prompt that loses text has, but more tokens, too."""
    now, then = (TokenTotals.of(each.ledger.totals()) for each in (result, before))
    return now.hit_rate > then.hit_rate and now.hit_tokens > then.hit_tokens


def _rate(result: PassResult, step: KeptFix) -> float:
    return next(group.hit_rate for group in result.ledger.totals() if group.name == step.cause.group)


def optimize(
    opened: Opened,
    tiers: Collection[Tier],
    progress: Progress,
    *,
    choose: Choose | None = None,
    given: Sequence[Changed] = (),
) -> Optimized:
    """The edits that win within the tiers, proven. Raises TrialInterruptedError where Ctrl-C came in between.

    `given` are files that are to be changed already; they are among the files of the result.
    """
    source = opened.source
    if given:
        source = opened.reloaded({realpath(file.path): file.after for file in given})
    originals = {realpath(file.path): (file.path, file.before) for file in given}

    def account(source: YamlSource | LogSource) -> PassResult:
        return opened.profiler(ReportOptions(), progress, source=source).explained()

    def advise(source: YamlSource | LogSource, result: PassResult) -> Mapping[str, Sequence[KeptFix]]:
        advice = opened.profiler(ReportOptions(), progress, source=source).advised(result, tiers)
        return advice.kept if choose is None else choose(source, result, advice)

    block_size = opened.planned.plan.engine.block_size
    optimizer = Optimizer(opened.reloaded, account, advise, block_size=block_size, originals=originals)
    return optimizer.run(source, account(source))


def needing_consent(opened: Opened, tiers: Collection[Tier], progress: Progress, optimized: Optimized) -> list[KeptFix]:
    """What would win on top of what was done, were all tiers allowed. Raises TrialInterruptedError."""
    if set(tiers) >= ALL_TIERS:
        return []
    advice = opened.profiler(ReportOptions(), progress, source=optimized.source).advised(optimized.after)
    return [step for steps in advice.kept.values() for step in steps if step.fix.tier not in tiers]
