"""Steps that set a cache breakpoint in a workload, for a provider that stores nothing without one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import Fix, Tier, combined
from kvtool.fixes.marked_head import MISSING_MARK, lacks_mark, marked_head, marked_messages
from kvtool.profiler.advice.kept_fixes import KeptFix
from kvtool.profiler.advice.made_steps import made_marks
from kvtool.profiler.advice.trials import Chain, Trials, steady_first
from kvtool.profiler.optimize.edited_files import Optimized
from kvtool.profiler.optimize.edited_runs import SourceRuns
from kvtool.profiler.optimize.request_diff import RequestEdit
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.finding import TRIED_WITH_MARK
from kvtool.text.traced import Origin
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.yaml_source import YamlSource

_MARK = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
"""The shortest time to live: a longer one costs more where nothing expires."""


def with_missing_marks(
    of: SourceRuns, kept: Mapping[str, Sequence[KeptFix]], tiers: Collection[Tier], without: Collection[str]
) -> Mapping[str, Sequence[KeptFix]]:
    """Return the steps with a breakpoint first where that wins most: alone, or with the moves that win only with one.

    Other steps of a group are made before a breakpoint is tried. Raises TrialInterruptedError.
    """
    source, result = of.source, of.explained()
    if not isinstance(source, YamlSource):
        return kept
    fixes_of = of.profiler.advising.tried_on(result).fixes_of
    moves = {name: _moves(steps, fixes_of, tiers) for name, steps in kept.items()}
    groups = [
        group
        for group in result.ledger.totals()
        if (moves[group.name] if group.name in kept else lacks_mark(group, of.profiler.plan))
    ]
    samples = result.book(SampleBook)
    offered: dict[str, list[Chain]] = {}
    for group in groups:
        turns = samples.of_group(group.name)
        head = marked_head(group.name, turns, locate, _MARK)
        for fix in [*marked_messages(group.name, turns, _MARK), *([] if head is None else [head])]:
            cause = None if fix.key in without or fix.tier not in tiers else _cause_of(fix, turns, source)
            if cause is None:
                continue
            marked = replace(fix, cause=cause)
            offered.setdefault(group.name, []).extend(
                [(marked,), *((marked, *each) for each in moves.get(group.name, ()))]
            )
    if not offered:
        return kept
    trials = Trials(result, of.profiler.runs.tried)
    for each in zip_longest(*offered.values()):
        trials.weigh({name: chain for name, chain in zip(offered, each, strict=True) if chain is not None})
    found = dict(kept)
    for name, chains in offered.items():
        worths = [trials.worth(name, chain) or 0.0 for chain in chains]
        least = trials.least(name, _LEAST)
        alike = [chain for chain, worth in zip(chains, worths, strict=True) if worth >= max(worths) - least]
        if max(worths) > (trials.worth(name, ()) or 0.0) + least:
            best = min(alike, key=lambda chain: (len(chain), sum(len(fix.warnings) for fix in chain)))
            found[name] = _steps(name, best, trials)
    return found


_LEAST = 0.005
"""A breakpoint that wins less of a group's prompts is none to advise."""


def marked_request(edits: Optimized) -> RequestEdit | None:
    """Return one request of the first group that gets a breakpoint, before and after its steps; None where none does."""
    for name in made_marks(edits):
        fixes = steady_first(each.step.fix for each in edits.edited if each.step.cause.group == name)
        turns = edits.before.book(SampleBook).of_group(name)
        change = combined(fixes)
        pairs = ((turn, change(turn)) for turn in turns)
        found = next(((turn, after) for turn, after in pairs if after is not turn), None)
        if found is not None:
            return RequestEdit("", 0, None, None, *found)
    return None


def together(mark: KeptFix, step: KeptFix) -> KeptFix:
    """Return a step that wins only with a breakpoint as one with it."""
    what = f"{mark.fix.what}; then {step.fix.what}"
    return replace(step, fix=replace(step.fix, what=what, words=None), before=mark.before, alone=step.after)


def _moves(
    steps: Sequence[KeptFix], fixes_of: Callable[[SlotCause], Sequence[Fix]], tiers: Collection[Tier]
) -> list[Chain]:
    """Return the moves that win only with a breakpoint, to each place where all of them can go."""
    causes = [step.cause for step in steps if TRIED_WITH_MARK in step.fix.warnings]
    by_kind = [{fix.kind: fix for fix in reversed(fixes_of(cause)) if fix.tier in tiers} for cause in causes]
    kinds = dict.fromkeys(kind for known in by_kind for kind in known if all(kind in each for each in by_kind))
    return [tuple(known[kind] for known in by_kind) for kind in kinds]


def _cause_of(fix: Fix, turns: Sequence[Turn], source: YamlSource) -> SlotCause | None:
    """Return the message of the workload that lacks the mark; None where the file contains no such message."""
    number, spec = next((at, each) for at, each in enumerate(source.spec.groups) if each.name == fix.group)
    assert fix.make is not None
    change = fix.make()
    pairs = ((turn.messages or [], change(turn).messages or []) for turn in turns)
    at = next((at for one, other in pairs for at in range(len(one)) if one[at] != other[at]), None)
    if at is None or spec.messages is None or at >= len(spec.messages):
        return None
    place = source.document.place(("groups", number, "messages", at))
    origin = Origin(source.path, place.line or 0, place.column or 1, verbatim=False)
    slot = Slot(source.path, origin.line, origin.column, part=f"messages[{at}]", kind=MISSING_MARK.key)
    return SlotCause(spec.name, slot, MISSING_MARK, origin, 0, "", 0, 0, 0, structural=True)


def _steps(name: str, chain: Chain, trials: Trials) -> list[KeptFix]:
    steps: list[KeptFix] = []
    before = trials.measure({name: ()})[name]
    for length, fix in enumerate(chain, 1):
        assert fix.cause is not None
        after = trials.measure({name: chain[:length]})[name]
        steps.append(KeptFix(fix, fix.cause, before, after, trials.measure({name: (fix,)})[name], after))
        before = after
    return steps
