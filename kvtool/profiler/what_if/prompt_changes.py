"""Changes of prompts that the advisor proposes, beside changes of hardware: each request's own blocks, rewritten."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.config.command_line import flags
from kvtool.diagnose.codes import entry_of
from kvtool.diagnose.findings import place_of
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import SAFE_TIERS, Fix
from kvtool.profiler.advice.advisor import KeptFix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.what_if.planned_change import PlannedChange
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace
from kvtool.workload.logs.logs import locate

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
    places: dict[str, str]
    """By the key of a fix, the file and the line of what it mends."""

    def name(self, fix: Fix) -> str:
        """Return what a table calls it."""
        entry = entry_of(fix.code)
        of = f" in {fix.group}" if len(self.prompt_tokens) > 1 and fix.group else ""
        return f"prompts: {fix.code}" + (f" {entry.name}" if entry is not None else "") + of

    def does(self, fix: Fix) -> str:
        """Return where and what to change."""
        return f"{self.places[fix.key]} ({fix.code}): {fix.what}"

    def chosen(self, names: Collection[str]) -> tuple[Fix, ...]:
        """Return the fixes with these names or codes, or `all`; KvtoolError for a name that no fix has."""
        if ALL_FIXES in names:
            return self.together
        for name in names:
            if not any(_is_named(fix, name) for fix in self.together):
                known = ", ".join(dict.fromkeys(self.option_value(fix) for fix in self.together))
                raise KvtoolError(
                    f"--fixed: there is no fix {name[:40]!a}",
                    hint=f"fixes found: {known}; or --fixed all" if known else "omit --fixed",
                )
        return tuple(fix for fix in self.together if any(_is_named(fix, name) for name in names))

    def option_value(self, fix: Fix) -> str:
        """Return what `--fixed` takes for a fix: its code, or its name where several fixes have that code."""
        return fix.code if sum(each.code == fix.code for each in self.together) == 1 else fix.name


def prompt_fixes(opened: Opened, progress: Progress) -> PromptFixes:
    """Return what the advisor proposes for the prompts and proves by running them again."""
    profiler = opened.profiler(ReportOptions(), progress)
    profiler.plan = replace(
        profiler.plan, use_arrivals=False, concurrency=None
    )  # requests whole, as in rows without a clock
    try:
        result = profiler.explained()
        groups = {group.name: group.prompt_tokens for group in result.ledger.totals()}
        advice = profiler.advised(result)
    except TrialInterruptedError:
        raise KeyboardInterrupt from None
    steps = tuple(step for chain in advice.kept.values() for step in chain)
    places = {step.fix.key: _place(step, opened.name) for step in steps}
    return PromptFixes(steps, tuple(advice.fixes), groups, places)


def edit_command(opened: Opened, fixes: Sequence[Fix]) -> str:
    """Return the command that makes these fixes in a workload, or shows them in a log's requests; empty for several inputs."""
    inputs = opened.options.inputs
    allowed = ",".join(sorted({fix.tier for fix in fixes}.difference(SAFE_TIERS)))
    return shlex.join(["kvtool", "optimize", *inputs, *flags(allow=allowed or None)]) if len(inputs) == 1 else ""


def prompt_changes(found: PromptFixes, today: PlannedChange, rewritten: Rewritten) -> Iterator[PlannedChange]:
    """Yield a row for each fix that wins most by itself, and one for all together."""
    if len(found.together) > 1:
        ordered = sorted(found.steps, key=lambda step: -_alone(step, found))
        for step in ordered[:_SHOWN]:
            if _alone(step, found) > 0:
                yield _changed(
                    today,
                    found.name(step.fix),
                    found.does(step.fix),
                    rewritten([step.fix]),
                    found.option_value(step.fix),
                )
    if found.together:
        first, *others = found.together
        name, does = found.name(first), found.does(first)
        if others:
            name = f"prompts: all {len(found.together)} fixes together"
            told = [f"{found.places[fix.key]} ({fix.code})" for fix in found.together[:_SHOWN]]
            more = f" and {len(found.together) - _SHOWN:,} more" if len(found.together) > _SHOWN else ""
            does = f"fix the prompts: {', '.join(told)}{more}"
        yield _changed(today, name, does, rewritten(found.together), ALL_FIXES)


def _changed(today: PlannedChange, name: str, does: str, trace: BlockTrace, fixed: str) -> PlannedChange:
    return replace(today, kind="prompts", name=name, does=does, trace=trace, flags={"fixed": fixed})


def _is_named(fix: Fix, name: str) -> bool:
    return name == fix.name or name.upper() == fix.code


def _place(step: KeptFix, path: str) -> str:
    """Return the file and the line of what a fix is about."""
    where, line, _ = place_of(step.cause, locate, path)
    return f"{where}:{line}" if line else where


def _alone(step: KeptFix, found: PromptFixes) -> float:
    """Return tokens that a fix wins by itself."""
    group = step.cause.group
    first = next(each.before for each in found.steps if each.cause.group == group)
    return (step.alone - first) * found.prompt_tokens.get(group, 0)
