"""What to do next about a profile: the first row of a table whose cause the report shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from kvtool.accounting.misses.advised_change import (
    TEXT_CAUSES,
    WORTH,
    AdvisedChange,
    beside_pauses,
    cheaper_ttl,
    costliest_change,
    field_to_compare,
    is_noticeable,
    pauses_cost_less,
)
from kvtool.config.command_line import CommandLine, flag, flags
from kvtool.diagnose.codes import wins
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.results.check import copy_again
from kvtool.results.finding import Finding, noted_place
from kvtool.results.gate_words import gate_limit
from kvtool.results.misses import CacheMisses, MissCause, ServerCache
from kvtool.results.money import marks_in_words
from kvtool.results.next_step import PREVIEW_BEFORE_P3, PREVIEW_EDIT, SEE_CONSENT, SEE_EDITED_REQUEST
from kvtool.results.report import Report
from kvtool.results.worst_loss import worth_of_fix
from kvtool.text.terminal.numbers import capitalized, in_words

_TOGETHER = 0.005
"""By how much more a group's hit rate must rise with another fix, for both to be named."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to say, the command for it where there is one, and what is new in that."""

    todo: str = ""
    command: Sequence[str] = ()
    change: str = ""
    mends: Collection[MissCause] = ()
    """The causes of misses of which it mends one."""


@dataclass(frozen=True)
class Case:
    """A report, the finding to begin with, the command that made it, and the one that edits its inputs."""

    report: Report
    finding: Finding | None
    command: CommandLine
    optimize: Sequence[str]

    @property
    def proven(self) -> list[Finding]:
        """Return the findings whose fix was kept, what wins most first."""
        kept = [each for each in self.report.findings if each.rerun is not None]
        return sorted(kept, key=lambda each: -worth_of_fix(self.report, each))

    @cached_property
    def change(self) -> AdvisedChange | None:
        """Return the change that saves most of what was lost and that no kept fix makes; None where these save more."""
        report, misses = self.report, self.report.misses
        if misses is None or (report.partial and not is_noticeable(misses)):
            return None
        proven, currency = self.proven, "USD" if report.money is None else report.money.currency
        mended = {cause for each in proven for cause in causes_of(each)}
        change = costliest_change(misses, currency, hosted=report.hosted, mended=mended)
        if change is None or not proven:
            return change
        money = report.money
        if change.saved is not None and money is not None and money.predicted and money.with_fixes:
            return change if change.saved > Decimal(money.predicted) - Decimal(money.with_fixes) else None
        rerun = max((each.rerun.total_after - each.rerun.total_before for each in proven if each.rerun), default=0.0)
        return change if change.tokens > rerun * report.totals.prompt_tokens else None

    @property
    def pair(self) -> str:
        """Return the command that shows two requests with the finding; empty where there is none."""
        return "" if self.finding is None or self.finding.example is None else self.finding.example.command


@dataclass(frozen=True, slots=True)
class _Row:
    """A cause, what to say, and the command. `cause` returns what was found, which the others take; a false value is none."""

    cause: Callable[[Case], Any]
    say: Callable[[Any], str]
    command: Callable[[Case, Any], Sequence[str]] = lambda case, _: case.command


def next_step(case: Case) -> NextStep:
    """Return what to do now."""
    of_reports = case.report.misses is not None and (not case.proven or case.change is not None)
    for row in _OF_REPORTS if of_reports else () if case.report.partial else _OF_PROMPTS:
        if found := row.cause(case):
            command = row.command(case, found)
            new = isinstance(command, CommandLine) and " ".join(word for word in command if word not in case.command)
            proven = causes_of(case.proven[0]) if case.proven else ()
            mends = (case.change.cause,) if of_reports and case.change is not None else proven
            return NextStep(row.say(found), command, new or "", mends)
    return NextStep()


def needed_tiers(report: Report) -> list[str]:
    """Return the flag for moves of text, if a report promises any; `kvtool optimize` makes P0 and P1 without one.

    Changes of content (P3) are never the first step: where nothing else wins, that command lists them and names its flag.
    """
    tiers = {each.tier for each in report.findings if each.rerun is not None}
    return list(flags(allow="P2" if "P2" in tiers else None))


def preview_of(report: Report) -> str:
    """Say what `kvtool optimize` shows with these flags; only a second step changes content."""
    tiers = {each.tier for each in report.findings if each.rerun is not None}
    if "P3" not in tiers:
        return PREVIEW_EDIT
    return PREVIEW_BEFORE_P3 if tiers - {"P3"} else SEE_CONSENT


def place_of_finding(finding: Finding) -> str:
    """Return the place of a finding: the file, with its line, or in a log the record and the place in it."""
    if finding.logged is not None:
        return f"{finding.path}:{finding.logged.record}, {finding.logged.told}"
    return f"{finding.path}:{finding.line}" if finding.line else finding.path


def _part_of_record(finding: Finding) -> str:
    """Return the same with the part of a request first: what code writes."""
    logged = finding.logged
    return place_of_finding(finding) if logged is None else f"{logged.told} in {finding.path}:{logged.record}"


def _fixes_by_hand(case: Case) -> list[Finding]:
    """Return the first fix in a file, and with it those of its group without which it does not win what is promised."""
    fixes = [each for each in case.proven if each.in_source]
    first = fixes[0].rerun if fixes else None
    if first is None or first.group_alone is None or first.group_alone >= first.group_after - _TOGETHER:
        return fixes[:1]
    return [each for each in fixes if each.group == fixes[0].group]


def _by_hand_in_words(fixes: Sequence[Finding]) -> str:
    first, *others = dict.fromkeys(map(place_of_finding, fixes))
    if fixes[0].example is not None:  # each request is a file of its own
        return f"Apply the fix below in every file with this line, such as {first}. Then run again"
    path = fixes[0].path
    places = in_words([first, *(place.removeprefix(f"{path}:") for place in others)])
    return f"Make the fix{'es' if others else ''} below at {places}{' together' if others else ''}. Then run again"


def _larger(case: Case) -> CommandLine | None:
    """Return the command with twice the capacity, where the cache evicted text before its reuse."""
    capacity = case.report.config.get("capacity_blocks")
    if not case.report.fates.get("evicted") or not isinstance(capacity, int) or not capacity:
        return None
    return case.command.without("num_gpu_blocks", "gpu_memory", "gpu_memory_utilization").with_(capacity=2 * capacity)


def _better_setting(case: Case) -> CommandLine | None:
    """Return the command with the options with which the fix of the finding was tried."""
    finding = case.finding
    tried = () if finding is None or finding.tried is None else finding.flags
    return case.command.with_flags(tried) if tried else None


def _tried_by_hand(case: Case) -> bool:
    """Return whether the fix of the finding won where prompts were changed, which no command does."""
    finding = case.finding
    return finding is not None and finding.tried is not None and not finding.flags and finding.tier != "P0"


def _unfixed_error(case: Case) -> str | None:
    """Return the code of an error that no fix mends: a gate at today's rate would keep what it loses."""
    return case.finding.code if case.finding is not None and case.finding.severity == "error" else None


def _untried_fix(case: Case) -> str:
    finding = case.finding
    untried = finding is not None and finding.tried is None and not finding.no_gain
    return capitalized(finding.fix) if finding is not None and untried else ""


def _broken_pair(case: Case) -> str | None:
    """Return the command that shows the costliest step that breaks."""
    steps = case.report.steps
    return None if steps is None else next((each.command for each in steps.breaks if each.command), None)


def _gate(case: Case) -> CommandLine | None:
    """Return the command with a gate just below today's rate, where there is none."""
    least = "" if case.report.gates else gate_limit(case.report.known_hit_rate)
    return case.command.with_(min_hit_rate=least) if least else None


def _by_field(case: Case) -> CommandLine | None:
    misses = case.report.misses
    field = "" if misses is None or flag("group_by") in case.command else field_to_compare(misses)
    return case.command.with_(group_by=field) if field else None


def _ticket(case: Case) -> CommandLine | None:
    """Return the command that lists the misses for the provider, where nothing in the requests explains the costliest."""
    misses = case.report.misses
    first = None if misses is None else next(iter(misses.by_cause), None)
    asked = first == "provider" and not case.report.partial and case.report.hosted
    return case.command.with_flags(["-o", "ticket"]) if asked else None


def _change_of_requests(case: Case) -> str:
    """Return what to change about misses, or that nothing is to be changed."""
    report, misses, finding = case.report, case.report.misses, case.finding
    assert misses is not None, "only rows of logs with reported usage ask"
    from kvtool.report.reported_answer import verdict_of_healthy

    if change := _cheaper_marks(report, misses):
        return change
    currency = report.money.currency if report.money else "USD"
    change, cause = ("", None) if case.change is None else (case.change.text, case.change.cause)
    if cause in TEXT_CAUSES and finding is not None and "cosmetic" in wins(finding.code) and finding.tried is None:
        change = capitalized(finding.fix.partition(". ")[0])
    key = next((each for each in report.findings if each.code == KV302.code), None)
    if key is not None and cause == "key_changed":
        change += f": {key.gain}" if key.gain else ""
    if report.partial:
        return change
    if change:
        return beside_pauses(change, misses, currency)
    kept = pauses_cost_less(misses, currency)
    return verdict_of_healthy(report, misses) or (f"Nothing to change: {kept}" if kept else "")


def _cheaper_marks(report: Report, misses: CacheMisses) -> str:
    """Return which cache breakpoints cost less than any time to live, where nothing but expired text was lost."""
    money, life = report.money, None if misses.ttl is None else cheaper_ttl(misses.ttl)
    if money is None or money.predicted is None or money.with_fixes is None or not money.marks:
        return ""
    least = WORTH * Decimal(money.predicted) if life is None else life[1]
    saved = Decimal(money.predicted) - Decimal(money.with_fixes)
    if saved <= least or not misses.calibration.advises or not {"expired"}.issuperset(misses.by_cause):
        return ""
    from kvtool.accounting.prices.bill import shown_money

    return f"{capitalized(marks_in_words(money.marks))}. Saves {shown_money(saved, money.currency)}"


def causes_of(finding: Finding) -> Collection[MissCause]:
    """Return the causes of misses that a fix at the place of a finding mends."""
    part = "" if finding.logged is None else finding.logged.part
    causes: list[MissCause] = ["prompt_changed", "system_changed" if "system" in part else "history_edited"]
    return ["tools_changed"] if part.startswith("tools") else causes


def _with_cache(case: Case, cache: ServerCache) -> Sequence[str]:
    """Return the command with a cache that is enough; none where it was that command."""
    if set(flags(num_gpu_blocks=cache.enough)) <= set(case.command):
        return ()
    line = case.command.without("capacity", "gpu_memory", "gpu_memory_utilization")
    return line.with_(block_size=cache.block_size, num_gpu_blocks=cache.enough)


def _shell(command: str) -> Sequence[str]:
    return shlex.split(command)[1:]


def _optimize(case: Case, _: object) -> Sequence[str]:
    return [*case.optimize, *needed_tiers(case.report)]


def _itself(_: Case, command: CommandLine) -> CommandLine:
    return command


_TOO_SHORT = _Row(
    lambda case: case.report.below_minimum,
    lambda least: f"Nothing to change: the provider caches only prompts of {least:,} tokens or more",
    lambda _, __: (),
)
_OF_PROMPTS = (
    _TOO_SHORT,
    _Row(lambda case: case.report if case.report.editable else None, preview_of, _optimize),
    _Row(_fixes_by_hand, _by_hand_in_words),
    _Row(
        lambda case: next((each for each in case.proven if each.logged or each.example), None),
        lambda shown: f"Fix the code that writes {_part_of_record(shown)}. {SEE_EDITED_REQUEST}",
        _optimize,
    ),
    _Row(
        lambda case: next((each for each in case.proven if noted_place(each.warnings)), None),
        lambda copy: f"Make the fix in {noted_place(copy.warnings)}. Then copy the prompts again",
        lambda _, copy: copy_again(copy.path or ""),
    ),
    _Row(
        lambda case: case.proven,
        lambda _: "Fix the code that writes this line. Then profile a new log",
        lambda _, __: (),
    ),
    _Row(_larger, lambda _: "Double the cache", _itself),
    _Row(_better_setting, lambda _: "Run again with the setting that helped", _itself),
    _Row(_tried_by_hand, lambda _: "Make the fix below by hand. Then run again"),
    _Row(_untried_fix, lambda fix: f"{fix}. Then run again"),
    _Row(_broken_pair, lambda _: "Compare the two requests of this step", lambda _, pair: _shell(pair)),
    _Row(_unfixed_error, lambda code: f"Read what causes {code}", lambda _, code: ("explain", code)),
    _Row(_gate, lambda _: "Fail the build if the hit rate drops below today's", _itself),
)
"""Prompts that were run: cause, what to say, next step."""
_OF_REPORTS = (
    _TOO_SHORT,
    _Row(_by_field, lambda _: "Compare the hit rates by this field", _itself),
    _Row(
        lambda case: (
            case.change if case.change and case.change.cache and _with_cache(case, case.change.cache) else None
        ),
        lambda change: f"{change.text}. Run the prediction",
        lambda case, change: _with_cache(case, change.cache),
    ),
    _Row(
        lambda case: (
            case.pair and (case.change is None or case.change.cause in TEXT_CAUSES) and _change_of_requests(case)
        ),
        lambda change: f"{change}. Compare two such requests",
        lambda case, _: _shell(case.pair),
    ),
    _Row(_change_of_requests, str, lambda _, __: ()),
    _Row(_ticket, lambda _: "List these misses for the provider's support", _itself),
)
"""The same for a log with reported usage, where no fix was verified."""
