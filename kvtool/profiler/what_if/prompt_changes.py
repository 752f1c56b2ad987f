"""What the advisor would change in the prompts, as changes beside those of hardware: each requests' own blocks, rewritten."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.diagnose.codes import entry_of
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.what_if.planned_change import PlannedChange
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace

ALL_FIXES = "all"
_SHOWN = 3
"""Fixes with rows of their own: those that win most by themselves. All together always have one."""

Rewritten = Callable[[Sequence[Fix]], BlockTrace]
"""The requests with these fixes, in blocks of the plan."""


@dataclass(frozen=True, slots=True)
class PromptFixes:
    """The advice on a workload's prompts, and how many requests of each group it is about."""

    steps: tuple[KeptFix, ...]
    together: tuple[Fix, ...]
    """In the order in which they are made."""
    prompt_tokens: dict[str, int]
    """By group."""

    def chosen(self, names: Collection[str]) -> tuple[Fix, ...]:
        """The fixes of these names, or `all`; KvtoolError for a name that none has."""
        if ALL_FIXES in names:
            return self.together
        known = {fix.name for fix in self.together}
        for name in names:
            if name not in known:
                raise KvtoolError(
                    f"--fixed: no fix {name[:40]!a} was found",
                    hint="kvtool what-if names those that win; or say --fixed all",
                )
        return tuple(fix for fix in self.together if fix.name in names)


def prompt_fixes(opened: Opened, progress: Progress) -> PromptFixes:
    """What the advisor proposes for the prompts and proves by running them again. Raises TrialInterruptedError."""
    profiler = opened.profiler(ReportOptions(), progress)
    profiler.plan = replace(profiler.plan, use_arrivals=False, concurrency=None)  # whole requests, as rows without a clock
    result = profiler.explained()
    groups = {group.name: group.prompt_tokens for group in result.ledger.totals()}
    advice: Advice = profiler.advised(result)
    steps = tuple(step for chain in advice.kept.values() for step in chain)
    return PromptFixes(steps, tuple(advice.fixes), groups)


def prompt_changes(found: PromptFixes, today: PlannedChange, rewritten: Rewritten) -> Iterator[PlannedChange]:
    """A row for each fix that wins most by itself, and one for all together."""
    several = len(found.prompt_tokens) > 1
    ordered = sorted(found.steps, key=lambda step: -_alone(step, found))
    shown = [step for step in ordered if _alone(step, found) > 0][:_SHOWN]
    if len(found.together) > 1:
        for step in shown:
            fix = step.fix
            entry = entry_of(fix.code)
            yield replace(
                today,
                kind="prompts",
                name=f"prompts: {fix.code} {entry.name}" + (f" in {fix.group}" if several and fix.group else ""),
                does=fix.what,
                trace=rewritten([fix]),
                flags=(("--fixed", fix.name),),
            )
    if found.together:
        single = found.together[0] if len(found.together) == 1 else None
        yield replace(
            today,
            kind="prompts",
            name="prompts: all fixes together" if single is None else f"prompts: {single.code} {entry_of(single.code).name}",
            does=f"make the {plural(len(found.together), 'fix').replace('fixs', 'fixes')} that the profile proposes"
            if single is None
            else single.what,
            trace=rewritten(found.together),
            flags=(("--fixed", ALL_FIXES),),
        )


def _alone(step: KeptFix, found: PromptFixes) -> float:
    """Tokens that a fix wins by itself."""
    group = step.cause.group
    first = next(each.before for each in found.steps if each.cause.group == group)
    return (step.alone - first) * found.prompt_tokens.get(group, 0)
