"""Advice: the fixes that are kept, what they give, and the causes that no fix removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.fixes.fix import Fix, Tier, Transform
from kvtool.profiler.advice.trials import steady_first
from kvtool.profiler.run.run_result import RunResult
from kvtool.workload.turn import Turn


@dataclass(frozen=True, slots=True)
class KeptFix:
    """A fix that is kept. The rates are the group's: before it, with it and all steps before it, and with nothing but it.

    `predicted` is the rate that the alignment of the prompts promised for the steps up to here, before anything was run.
    """

    fix: Fix
    cause: SlotCause
    before: float
    after: float
    alone: float
    predicted: float
    costs: tuple[Decimal, Decimal] | None = None
    """What the group's prompts cost before it and with it; None where no prices are known."""


def with_places(steps: Sequence[KeptFix], samples: Sequence[Turn]) -> list[KeptFix]:
    """Return the steps of a group, each with the place to which the text moves where all of them are made."""
    whats: dict[str, str] = {}
    makes: list[Callable[[], Transform]] = []
    for fix in steady_first(step.fix for step in steps):
        if fix.words is not None:
            whats[fix.key] = fix.words(_changed(samples, makes))
        if fix.make is not None:
            makes.append(fix.make)
    return [
        step
        if whats.get(step.fix.key, step.fix.what) == step.fix.what
        else replace(step, fix=replace(step.fix, what=whats[step.fix.key]))
        for step in steps
    ]


def _changed(samples: Sequence[Turn], makes: Sequence[Callable[[], Transform]]) -> Iterator[Turn]:
    """Yield the samples with these changes, as many as are asked for."""
    turns = iter(samples)
    for make in makes:
        turns = map(make(), turns)
    return turns


@dataclass(frozen=True, slots=True)
class StuckCause:
    """A cause that no fix removed: `tried` won nothing (None: there was none to try), and `advice` is for people only."""

    cause: SlotCause
    tried: Fix | None = None
    advice: str = ""
    asked: bool = False
    """Whether it is what requests ask, which varies by its nature."""


@dataclass(slots=True)
class Advice:
    """Fixes that are worth it, by group in the order of marginal value, and the run that proves all of them together."""

    kept: dict[str, list[KeptFix]] = field(default_factory=dict)
    stuck: list[StuckCause] = field(default_factory=list)
    """The first cause of each group in which no fix won anything, and all others that must be told."""
    proof: RunResult | None = None
    tried: frozenset[Tier] = frozenset()
    """The tiers of all fixes that were tried: with only these allowed, the advice is the same."""
    idle: Sequence[Sequence[Fix]] = ()
    """The fixes that were piled up and not kept, each with the others of its cause: they won nothing."""

    def after(self, followed: Advice) -> Advice:
        """Return this advice with the steps of the one that was followed first, and of this one for other causes."""
        if followed is self:
            return self
        kept = {name: list(followed.kept.get(name, ())) for name in {**followed.kept, **self.kept}}
        for name, chain in self.kept.items():
            known = {step.cause.slot for step in kept[name]}
            kept[name] += [step for step in chain if step.cause.slot not in known]
        handled = {(name, step.cause.slot) for name, chain in kept.items() for step in chain}
        stuck = [each for each in self.stuck if (each.cause.group, each.cause.slot) not in handled]
        return replace(self, kept=kept, stuck=stuck)

    @property
    def steps(self) -> list[KeptFix]:
        """Return what is kept in all groups."""
        return [step for chain in self.kept.values() for step in chain]

    @property
    def fixes(self) -> list[Fix]:
        """Return all that is kept, in the order in which it was made."""
        return [fix for chain in self.kept.values() for fix in steady_first(one.fix for one in chain)]
