"""The terminal and machine views of an optimization."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.findings import place_of as find_place
from kvtool.fixes.edits.patch import unified_patch
from kvtool.profiler.advice.advisor import AdviceStep
from kvtool.profiler.optimize.breakpoint_plan import BreakpointPlan
from kvtool.profiler.optimize.log_order import RequestOrder
from kvtool.profiler.optimize.optimizer import Done, Optimized
from kvtool.profiler.optimize.write_edits import undo_command
from kvtool.report.terminal.breakpoints import breakpoints_json, print_breakpoints
from kvtool.report.terminal.diff import shown_path
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.patch import put_patch
from kvtool.text.terminal.console import ascii_only, cell_width, fold, pack, put, put_field, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.runner_commands import blunt_json
from kvtool.text.terminal.table import Column, put_table
from kvtool.workload.logs.logs import locate

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "kvtool.optimize/1"
_COLUMNS = (
    Column("Step", "<"),
    Column("tier", "<"),
    Column("code", "<"),
    Column("group", "<"),
    Column("before", keep=2),
    Column("predicted"),
    Column("measured"),
    Column("alone", keep=1),
)
_GROUP_COLUMNS = (Column("Group", "<"), Column("requests", keep=1), Column("before"), Column("after"), Column("points"))


@dataclass(slots=True)
class OptimizeReport:
    """What was asked and what came of it.

    `forbidden` are steps that need a tier that was not allowed, with what they would give on top. `order` is an order of a log's
    requests that wins, `breakpoints` those of each group (None: nobody asked). The last two say where the undo patch and the log
    in its new order were written; None where they were not.
    """

    name: str
    tiers: tuple[str, ...]
    block_size: int
    optimized: Optimized
    forbidden: tuple[AdviceStep, ...] = ()
    order: RequestOrder | None = None
    breakpoints: Sequence[BreakpointPlan] | None = None
    undo_path: str | None = None
    output: str | None = None

    @property
    def requests(self) -> int:
        return sum(group.requests for group in self.optimized.before.ledger.totals())

    @property
    def groups(self) -> list[tuple[GroupTotals, GroupTotals]]:
        """Each group before and after."""
        before, after = self.optimized.before.ledger.totals(), self.optimized.after.ledger.totals()
        return list(zip(before, after, strict=True))


def print_optimize(console: Console, report: OptimizeReport, *, show_diff: bool, next_command: Sequence[str]) -> None:
    """Rates, steps in the order of marginal value, what would need consent, the diff, and the next command."""
    plain = ascii_only(console)
    _head(console, report, plain)
    _steps(console, report, plain)
    _forbidden(console, report, plain)
    if report.breakpoints is not None:
        print_breakpoints(console, report.breakpoints, plain=plain)
    patch = unified_patch(report.optimized.files)
    if show_diff and patch:
        put(console)
        put_patch(console, patch, plain=plain)
    put(console)
    _end(console, report, plain)
    if next_command:
        put(console)
        put(console, "Next:")
        for line in shell_lines(["kvtool", *next_command], console.width, plain):
            put(console, line)


def _head(console: Console, report: OptimizeReport, plain: bool) -> None:
    parts = [
        "kvtool optimize",
        sanitize(report.name, ascii_only=plain),
        plural(report.requests, "request"),
        f"block {report.block_size}",
        f"tiers {', '.join(report.tiers)}",
    ]
    for line in pack(parts, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    put(console)
    before, after = report.optimized.rates
    rates: list[tuple[str, float, str, str | None]] = [("Hit rate", before, "now", None)]
    if report.optimized.files:
        rates.append(("Optimized", after, "measured by running the edited files", "bold"))
    if report.order is not None:
        rates.append(("Reordered", report.order.after, "measured by running the log in another order", None))
    for label, rate, text, style in rates:
        put_field(console, label, f"{percent(rate):>6}", text, size=11, hang=2, style=style)
    if report.optimized.files and len(report.groups) > 1:
        rows = [
            (
                sanitize(group.name, ascii_only=plain),
                f"{group.requests:,}",
                percent(group.hit_rate),
                percent(other.hit_rate),
                f"{100 * (other.hit_rate - group.hit_rate):+.1f}",
            )
            for group, other in report.groups
        ]
        put(console)
        put_table(console, _GROUP_COLUMNS, rows)


def _steps(console: Console, report: OptimizeReport, plain: bool) -> None:
    done = report.optimized.done
    if not done and report.order is None:
        return
    put(console)
    rows = [_row(number, each, plain) for number, each in enumerate(done, 1)]
    if report.order is not None:
        fix, rates = report.order.fix, (percent(report.order.before), "-", *[percent(report.order.after)] * 2)
        rows.append((str(len(rows) + 1), fix.tier, fix.code, "all", *rates))
    put_table(console, _COLUMNS, rows)
    put(console)
    for number, each in enumerate(done, 1):
        _told(console, f"{number}. {_what(each.step, plain)}")
        if each.reason:
            _told(console, f"   not edited: {sanitize(each.reason, ascii_only=plain)}", "yellow")
        _warnings(console, each.step, plain, indent="   ")
    if report.order is not None:
        _told(console, f"{len(rows)}. {report.order.fix.what}")
        if report.output is None:
            _told(console, "   not edited: -o FILE writes the log in this order")


def _row(number: int, done: Done, plain: bool) -> tuple[str, ...]:
    step = done.step
    group = sanitize(step.cause.group, ascii_only=plain)
    rates = (done.before, step.predicted, done.rate, step.alone)
    return (str(number), step.fix.tier, step.fix.code, group, *map(percent, rates))


def _what(step: AdviceStep, plain: bool) -> str:
    path, line, column = place_of(step)
    place = f"{shown_path(path, plain)}:{line}:{column}: " if line else ""
    return f"{place}{sanitize(step.fix.what, ascii_only=plain)}"


def _told(console: Console, text: str, style: str | None = None) -> None:
    """A sentence under the tables; what does not fit goes on behind its number."""
    for line in fold(f"  {text}", console.width, indent=5):
        put(console, line, style)


def _warnings(console: Console, step: AdviceStep, plain: bool, *, indent: str) -> None:
    for warning in step.fix.warnings:
        _told(console, f"{indent}look: {sanitize(warning, ascii_only=plain)}", "yellow")


def _forbidden(console: Console, report: OptimizeReport, plain: bool) -> None:
    if not report.forbidden:
        return
    put(console)
    needed = ",".join(sorted({step.fix.tier for step in report.forbidden}))
    put(console, f"  Needs consent: --allow {needed}", "bold")
    for step in report.forbidden:
        group = sanitize(step.cause.group, ascii_only=plain)
        rates = f"{percent(step.before)} -> {percent(step.after)} (measured by running again)"
        _told(console, f"{step.fix.tier} {step.fix.code} {group}: {_what(step, plain)}: {rates}")
        _warnings(console, step, plain, indent="   ")


def _end(console: Console, report: OptimizeReport, plain: bool) -> None:
    """What was written, or that nothing was."""
    files = report.optimized.files
    if report.output is not None:
        say(console, f"written in the new order: {shown_path(report.output, plain)}", indent=0)
    if report.undo_path is not None:
        say(console, f"{plural(len(files), 'file')} written; undo with:", indent=0)
        command = sanitize(undo_command(files, report.undo_path), ascii_only=plain)
        head, _, file = command.rpartition("< ")
        if cell_width(command) + 2 <= console.width:
            put(console, f"  {command}")
        else:
            put(console, f"  {head}\\")
            put(console, f"    < {file}")
    elif files:
        say(console, f"Nothing was written: {plural(len(files), 'file')} would change", indent=0)
    elif report.optimized.done:
        say(console, "Nothing was written: no file can be edited for this", indent=0)
    elif report.order is not None:
        say(console, "The prompts can stay as they are", indent=0)
    elif report.forbidden:
        say(console, f"Nothing to change in the tiers {', '.join(report.tiers)}", indent=0)
    else:
        say(console, "Nothing to change: no fix that was tried wins hits", indent=0)


def place_of(step: AdviceStep) -> tuple[str, int, int]:
    """Path, line and column of what a step is about; line 0 where it has no place in a file."""
    return find_place(step.cause, locate, "")


def document(report: OptimizeReport) -> dict[str, Any]:
    """The report as plain data, without prompt text."""
    before, after = report.optimized.rates
    order = report.order
    return {
        "schema": SCHEMA,
        "input": report.name,
        "tiers": list(report.tiers),
        "block_size": report.block_size,
        "requests": report.requests,
        "hit_rate": {"before": before, "after": after},
        "groups": [
            {
                "name": group.name,
                "requests": group.requests,
                "hit_rate": {"before": group.hit_rate, "after": other.hit_rate},
            }
            for group, other in report.groups
        ],
        "steps": [
            {
                **_step(done.step),
                "edited": not done.reason,
                "reason": done.reason or None,
                "files_hit_rate": {"before": done.before, "after": done.rate},
            }
            for done in report.optimized.done
        ],
        "needs_consent": [_step(step) for step in report.forbidden],
        "request_order": None
        if order is None
        else {"fix": order.fix.what, "hit_rate": {"before": order.before, "after": order.after}},
        "files": [changed.path for changed in report.optimized.files],
        "undo": report.undo_path,
        "output": report.output,
        "breakpoints": None if report.breakpoints is None else breakpoints_json(report.breakpoints),
    }


def _step(step: AdviceStep) -> dict[str, Any]:
    path, line, column = place_of(step)
    return {
        "code": step.fix.code,
        "tier": step.fix.tier,
        "group": step.fix.group,
        "path": path or None,
        "line": line or None,
        "column": column or None,
        "fix": step.fix.what,
        "warnings": list(step.fix.warnings),
        "hit_rate": {"before": step.before, "after": step.after, "alone": step.alone, "predicted": step.predicted},
    }


def dump(report: OptimizeReport) -> str:
    """One JSON document with sorted keys."""
    return blunt_json(json.dumps(document(report), indent=2, sort_keys=True, allow_nan=False)) + "\n"
