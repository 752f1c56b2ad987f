"""The terminal view of a check: short where all is well, and where it is not what failed, by how much, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvtool.config.command_line import CommandLine, flag, flags
from kvtool.report.next_steps import needed_tiers, preview_of
from kvtool.report.terminal.findings import print_findings
from kvtool.report.terminal.lines import print_notices, print_sentence, put_head, put_next
from kvtool.report.terminal.next_command import shorten_middle
from kvtool.report.views.checks import worst_status
from kvtool.report.views.facts import run_facts
from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding
from kvtool.results.gate_words import change, dollars, gate_limit, gate_percent
from kvtool.results.report import Group, Report, Totals
from kvtool.results.show_text import ShowText
from kvtool.results.verdict import CLOCKED, Check
from kvtool.text.terminal.console import ascii_only, fold, is_plain, put, sanitize
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40
_MOST_CHECKS = 20
_MOST_FINDINGS = 5
_ALIKE = 0.005
"""Hit rates that differ by less are alike: half a point, as limits are in whole percent."""
_COLUMNS = (
    Column("Workload", "<"),
    Column("requests", keep=1),
    Column("reported"),
    Column("predicted"),
    Column("limit"),
    Column("baseline", keep=2),
    Column("cost of 1,000", keep=3),
    Column("maximum as written", keep=0),
    Column("status", "<"),
)
_STYLES = {"error": "bold red", "warn": "bold yellow"}
_SAID = {"error": "error", "warn": "warning"}


def print_check(
    console: Console,
    result: CheckResult,
    *,
    show_text: ShowText = "snippet",
    command: Sequence[str] = ("check",),
    read_files: bool = True,
    can_tighten: bool = False,
    says_next: bool = True,
) -> None:
    """Print workloads and groups with their limits, missed limits, their findings, the verdict, and what to do next.

    `command` is what followed `kvtool`. `read_files` False shows only lines of prompts that the result itself has.
    `can_tighten`: limits of the configuration are below today's rates. `says_next` False prints no next command.
    """
    plain = ascii_only(console)
    missed = [check for check in result.verdict.checks if check.status in ("fail", "warn")]
    _header(console, result, plain)
    if result.reports:
        put(console)
        _table(console, result, plain)
    for probe in result.probes:
        from kvtool.report.terminal.agent_probe import print_agent_probe

        put(console)
        print_agent_probe(console, probe)
    if missed:
        put(console)
        _missed(console, missed, plain)
    findings = _behind(result, missed)
    if findings:
        put(console)
        print_findings(console, findings, plain=plain, show_text=show_text, read_files=read_files)
    put(console)
    print_notices(console, result.verdict)
    print_sentence(console, result.verdict)
    if says_next:
        _next(console, result, missed, findings, CommandLine(command), plain, can_tighten=can_tighten)


def _header(console: Console, result: CheckResult, plain: bool) -> None:
    parts = [f"kvtool {result.version} check"]
    if result.reports or not (result.inputs or result.probes):
        parts.append(plural(len(result.reports), "workload"))
    if result.inputs:
        parts.append(f"{plural(len(result.inputs), 'file')} read")
    shared = {tuple(run_facts(each)) for each in result.reports}
    if len(shared) == 1:
        parts += [sanitize(fact, ascii_only=plain) for fact in shared.pop()]
    if result.ignored:
        parts.append(f"{plural(result.ignored, 'finding')} ignored")
    put_head(console, parts)


def _table(console: Console, result: CheckResult, plain: bool) -> None:
    """A line for each workload, and under those with something missed a line for each group."""
    rows: list[list[str]] = []
    left_out = 0
    room, whole = max(console.width // 4, 20), is_plain(console)
    for report in result.reports:
        checks = [check for check in result.verdict.checks if check.workload == report.workload]
        of_all = [check for check in checks if check.group is None]
        name = sanitize(report.workload, ascii_only=plain)
        cells = _cells(report, report.totals, of_all)
        limited = len({check.group for check in checks if check.kind == "hit_rate" and check.group and check.limit})
        if limited and not any(check.kind == "hit_rate" and check.limit for check in of_all):
            cells[3] = f"{limited:,} of {plural(len(report.groups), 'group')}"
        rows.append([name, *cells, str(worst_status(checks) or "-")])
        if all(check.status == "pass" for check in checks):
            continue
        by_group: dict[str | None, list[Check]] = {}
        for check in checks:
            by_group.setdefault(check.group, []).append(check)
        known = {group.name for group in report.groups}
        if len(known) == 1 and len(by_group) == 1 and None in by_group:
            continue  # the line above says all of it
        names: list[tuple[str, Group | None]] = [(group.name, group) for group in report.groups]
        names += [(name, None) for name in by_group if name is not None and name not in known]
        for group_name, group in names[:_MOST_GROUPS]:
            label = sanitize(group_name, ascii_only=plain)
            found = by_group.get(group_name, [])
            shown = f"{name}, group {label}" if whole else f"  {shorten_middle(label, room, ascii_only=plain)}"
            rows.append([shown, *_cells(report, group, found), str(worst_status(found) or "-")])
        left_out += max(len(names) - _MOST_GROUPS, 0)
    kept = [place for place in range(len(_COLUMNS)) if place < 2 or any(row[place] for row in rows)]
    put_table(console, [_COLUMNS[place] for place in kept], [[row[place] for place in kept] for row in rows])
    if left_out:
        put(console, f"  and {plural(left_out, 'more group')} (all with --json)", "dim")


def _cells(report: Report, sums: Totals | Group | None, checks: Sequence[Check]) -> list[str]:
    """Requests, reported and predicted hit rate, its limit, the baseline with the change since then, and what is reachable."""
    limits = [check for check in checks if check.kind == "hit_rate" and check.limit is not None]
    limit = next((one for one in limits if one.status != "pass"), limits[0] if limits else None)
    asked = "" if limit is None else f">={percent(limit.limit)}" if limit.limit else "off"
    held = next((check for check in checks if check.baseline is not None), None)
    before = None if held is None else held.baseline
    paid = next((check for check in checks if check.kind == "cost_per_1k_requests" and check.limit is not None), None)
    cost = "" if paid is None or paid.actual is None else "{} (<={})".format(*dollars(paid.actual, paid.limit or 0.0))
    if sums is None:
        return ["0", "", "-", asked, "" if before is None else percent(before), cost, ""]
    was = "" if held is None or before is None else f"{percent(before)} ({change((held.actual or 0.0) - before)})"
    group = sums.name if isinstance(sums, Group) else None
    reported, predicted = report.reported_share(group), report.predicted_rate(group)
    rates = ["" if reported is None else percent(float(reported)), "-" if predicted is None else percent(predicted)]
    return [
        f"{sums.requests:,}",
        *rates,
        asked,
        was,
        cost,
        # Beside a rate of the server's tokens, or where no prompt is long enough, one of kvtool's tokens is no maximum.
        "-"
        if predicted is None
        else percent(sums.reachable_hit_rate)
        if predicted == sums.hit_rate and not report.below_minimum
        else "",
    ]


def _missed(console: Console, missed: Sequence[Check], plain: bool) -> None:
    """One sentence for each check that is not met; what fails goes first."""
    order = sorted(missed, key=lambda check: check.status != "fail")
    for check in order[:_MOST_CHECKS]:
        text = sanitize(f"{check.code} {_SAID[check.level]}: {check.message}", ascii_only=plain)
        for number, line in enumerate(fold(text, console.width, indent=4)):
            put(console, line, None if number else _STYLES[check.level])
    if len(order) > _MOST_CHECKS:
        put(console, f"{len(order) - _MOST_CHECKS:,} more (all with --json)", "dim")


def _behind(result: CheckResult, missed: Iterable[Check]) -> list[Finding]:
    """The costliest findings in what failed, at most five of each workload, in the order of their report."""
    asked: dict[str, set[str | None]] = {}
    for check in missed:
        if check.is_comparable:
            asked.setdefault(check.workload, set()).add(check.group)
    found: list[Finding] = []
    for report in result.reports:
        groups = asked.pop(report.workload, None)
        if groups is not None:
            only = groups - {None}
            mine = [one for one in report.findings if not only or one.group in only]
            found += mine[:_MOST_FINDINGS]
    return found + [one for one in result.findings if not one.group and one.path in asked][:_MOST_FINDINGS]


def _next(
    console: Console,
    result: CheckResult,
    missed: Sequence[Check],
    findings: Sequence[Finding],
    command: CommandLine,
    plain: bool,
    *,
    can_tighten: bool,
) -> None:
    """One thing to do now, as a command that can be copied."""
    verdict = result.verdict
    if verdict.outcome == "partial":
        return
    if result.copies:
        copy = result.copies[0]
        put_next(console, f"{copy.remedy}, or copy all prompts again", copy.copy_again)
        return
    failed = [check.workload for check in missed if check.is_comparable]
    runs = {report.workload: report for report in result.reports}
    workload = next((runs[name].inputs for name in failed if name in runs), None)
    fixable = next((found for found in findings if found.rerun is not None and found.fix_key), None)
    owner = next((report for report in result.reports if fixable is not None and fixable in report.findings), None)
    if workload is not None and all(check.kind in CLOCKED for check in missed):
        words = command.to("what-if", *workload)
        if words.has("slo"):
            put_next(console, "find out what saves GPUs", words)
            return
        todo = f"find out what saves GPUs (add the slo of the file as {flag('slo')})"
        put_next(console, todo, words.with_(use_timestamps=True))
        return
    if workload is not None and fixable is not None and owner is not None:
        if owner.editable:
            words = command.to("optimize", *owner.inputs, *needed_tiers(owner))
            todo = preview_of(owner)
            put_next(console, todo[:1].lower() + todo[1:], words)
            return
        if fixable.in_source and fixable.line:
            todo = f"edit {sanitize(fixable.path, ascii_only=plain)}:{fixable.line}, then run this again"
            put_next(console, todo, command)
            return
    best = next((check for check in missed if _is_best(check, runs)), None)
    if fixable is None and best is not None:
        limit = f"{gate_percent(best.actual or 0.0)}%"
        place = sanitize(f"{best.path}:{best.line}", ascii_only=plain)
        todo = f"set the limit in {place} to {limit}, the maximum of the prompts as written"
        put_next(console, f"{todo}, then run this again", command)
        return
    if workload is not None:
        put_next(console, "see the token breakdown", command.to("profile", *workload))
        return
    if missed:
        if not all(check.is_comparable for check in missed):
            put_next(console, "if this change is intended, record a new baseline", command.with_(update_baseline=True))
        return
    _next_of_passed(console, result, command, can_tighten)


def _is_best(check: Check, runs: Mapping[str, Report]) -> bool:
    """Return whether a hit rate misses a limit that a file sets, though it is all that the prompts as written can reach."""
    report = runs.get(check.workload)
    if check.kind != "hit_rate" or not check.line or report is None or not report.totals.prompt_tokens:
        return False
    sums = next((group for group in report.groups if group.name == check.group), report.totals)
    return (check.actual or 0.0) >= sums.reachable_hit_rate - _ALIKE


def _next_of_passed(console: Console, result: CheckResult, command: CommandLine, can_tighten: bool) -> None:
    """What to do where nothing failed: better limits first, then what no limit is about."""
    verdict, lossy = result.verdict, _ungated(result.reports)
    if can_tighten:
        put_next(console, "raise the limits to today's rates", command.without("update_baseline").with_(tighten=True))
    elif any(check.baseline is not None and (check.actual or 0) > check.baseline for check in verdict.checks):
        put_next(console, "record the better rates as the baseline", command.with_(update_baseline=True))
    elif verdict.outcome in ("pass", "none") and lossy is not None:
        todo = (
            f"see the errors and their fixes (to fail on errors, add {' '.join(flags(error_on='error'))} to the check)"
        )
        put_next(console, todo, command.to("profile", *lossy.inputs))
    elif verdict.outcome == "none" and result.reports:
        least = gate_limit(min(report.known_hit_rate for report in result.reports))
        if least:
            put_next(console, "fail the build if the hit rate drops", command.with_(min_hit_rate=least))


def _ungated(reports: Iterable[Report]) -> Report | None:
    """Return the report with the costliest error, which the verdict names first; None without an error."""
    costs = [
        (max(one.tokens_lost for one in errors), report)
        for report in reports
        if (errors := [one for one in report.findings if one.severity == "error"])
    ]
    return max(costs, key=lambda pair: pair[0])[1] if costs else None
