"""What all checks together come to: the one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kvtool.results.finding import Finding
from kvtool.results.gate_words import brief, subject
from kvtool.results.report import Report
from kvtool.results.verdict import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOT_COMPARABLE, Check, Verdict
from kvtool.text.terminal.numbers import plural

PARTIAL = "PARTIAL: interrupted; the figures are those of the work done up to there, and there is no verdict"
NOTHING = "NO GATE: no limit is set"
_MOST_TOLD = 4
"""Checks named in one line."""


def verdict_of(
    checks: Sequence[Check],
    notices: Iterable[str] = (),
    *,
    partial: bool = False,
    ungated: Sequence[Finding] = (),
    copied: Sequence[str] = (),
    reports: Sequence[Report] = (),
) -> Verdict:
    """What all checks together come to. `partial`: the run was interrupted, and nothing is judged.

    `ungated` are findings of severity error that no check is about, `copied` the files whose prompts a workload contains
    otherwise. A verdict that passes names both, one that fails the files. Each says of which `reports` no fix is advised.
    """
    failed = [check for check in checks if check.status == "fail"]
    warned = [check for check in checks if check.status == "warn"]
    off = len(_cannot_fail(checks, reports))
    passed = sum(check.status == "pass" and not _is_off(check) for check in checks)
    still_open = sum(check.status == "open" for check in checks)
    notices = list(notices)
    if partial:
        return Verdict(
            outcome="partial", exit_code=EXIT_INTERRUPTED, sentence=PARTIAL, checks=list(checks), notices=notices
        )
    waiting = f", {still_open:,} open" if still_open else ""
    several = len({check.workload for check in checks}) > 1
    withheld = _withheld(reports)
    others = f"{_named(ungated, copied)}{withheld}"
    if failed:
        code = EXIT_NOT_COMPARABLE if not all(check.is_comparable for check in failed) else EXIT_FAILED
        more = f", {plural(len(warned), 'warning')}" if warned else ""
        sentence = f"FAIL {plural(len(failed), 'gate')}{more}{waiting} ({_which(failed, several)}){_named((), copied)}{withheld}"
        return Verdict(outcome="fail", exit_code=code, sentence=sentence, checks=list(checks), notices=notices)
    if warned:
        more = (f", {passed:,} passed" if passed else "") + _off(off)
        sentence = f"WARN {plural(len(warned), 'gate')}{more}{waiting} ({_which(warned, several)}){others}"
        return Verdict(outcome="warn", exit_code=0, sentence=sentence, checks=list(checks), notices=notices)
    sentence = f"PASS {plural(passed, 'gate')}{_covered(checks)}{_off(off, passed)}{waiting}"
    if not passed:
        sentence = f"PASS{_off(off)}{waiting}" if off else f"OPEN {plural(still_open, 'gate')}"
    outcome = "pass" if passed or off else "none"
    sentence = (sentence if checks else NOTHING) + others
    return Verdict.model_validate(
        {"outcome": outcome, "exit_code": 0, "sentence": sentence, "checks": list(checks), "notices": notices}
    )


def _covered(checks: Sequence[Check]) -> str:
    """Say what the gates that pass are about, where a table with a row for each workload does not show all of them."""
    about = Counter(
        "findings" if check.kind == "findings" else "all requests" if check.group is None else "groups"
        for check in checks
        if check.status == "pass" and not _is_off(check)
    )
    return f" ({', '.join(f'{count:,} of {what}' for what, count in about.items())})" if len(about) > 1 else ""


def _off(count: int, passed: int = 0) -> str:
    """Return how many gates cannot fail, for the end of a sentence; `passed` gates are named before."""
    return f", {f'{count:,} more' if passed else plural(count, 'gate')} cannot fail (limit 0%)" if count else ""


def _is_off(check: Check) -> bool:
    """Return whether a check cannot fail, as it demands a hit rate of 0 %."""
    return (check.kind, check.limit, check.status) == ("hit_rate", 0, "pass")


def _held(checks: Iterable[Check]) -> set[tuple[str, str | None]]:
    """Return the workloads and groups whose hit rate has a limit that can fail."""
    return {(check.workload, check.group) for check in checks if check.kind == "hit_rate" and check.limit}


def _cannot_fail(checks: Sequence[Check], reports: Iterable[Report]) -> list[Check]:
    """Return the limits of 0 %, without those of a workload each of whose groups has a limit that can fail."""
    held = _held(checks)
    groups = {report.workload: [group.name for group in report.groups] for report in reports}
    return [
        check
        for check in checks
        if _is_off(check)
        and (check.group or not held.issuperset((check.workload, name) for name in groups.get(check.workload, [None])))
    ]


def _named(ungated: Sequence[Finding], copied: Sequence[str]) -> str:
    """Return the errors that no gate is about, and how copies differ from code, for the end of a sentence."""
    others = f" and {len(copied) - 1:,} more" if len(copied) > 1 else ""
    differ = f", {copied[0]}{others}" if copied else ""
    if not ungated:
        return differ
    places = Counter(f"{one.code} at {one.path}{f':{one.line}' if one.line else ''}" for one in ungated)
    named = [f"{place} ({count:,} times)" if count > 1 else place for place, count in places.items()][:_MOST_TOLD]
    left = sum(list(places.values())[_MOST_TOLD:])
    more = f" and {left:,} more" if left else ""
    return f", {plural(len(ungated), 'error')} allowed: {', '.join(named)}{more}{differ}"


def _withheld(reports: Sequence[Report]) -> str:
    """Return of which workloads no fix is advised, for the end of a sentence."""
    found = [
        (each.workload, why)
        for each in reports
        if each.misses is not None and (why := each.misses.calibration.withheld)
    ]
    more = f" and {len(found) - _MOST_TOLD:,} more" if len(found) > _MOST_TOLD else ""
    said = [f"{f'{name}: ' if len(reports) > 1 else ''}{why}" for name, why in found[:_MOST_TOLD]]
    return "".join(f"; {each}" for each in said) + more


def limits_that_cannot_fail(checks: Sequence[Check], reports: Sequence[Report]) -> list[str]:
    """Return a notice that names each place with a demanded hit rate of 0 %; none where each prompt has a limit that can fail."""
    off = _cannot_fail(checks, reports)
    if not off:
        return []
    places = dict.fromkeys(
        f"{check.path}:{check.line}:{check.column}"
        if check.line
        else subject(check.group, check.workload, check.covered)
        for check in off
    )
    named = list(places)[:_MOST_TOLD]
    more = f" and {len(places) - _MOST_TOLD:,} more" if len(places) > _MOST_TOLD else ""
    too_short = {report.workload: report.minimum_in_words for report in reports if report.below_minimum}
    lowest = min(off, key=lambda check: (check.workload in too_short, check.actual or 0.0))
    held = _held(checks)
    groups = next((report.groups for report in reports if report.workload == lowest.workload), [])
    open_ones = [group for group in groups if (lowest.workload, group.name) not in held]
    which = lowest.group or lowest.workload
    if lowest.group is None and len(groups) > 1:
        which = f"{min(open_ones, key=lambda group: group.hit_rate).name} in {which}"
    todo = f"Fix the prompts of {which}, then run `kvtool check --tighten`."
    if lowest.workload in too_short:
        todo = f"{lowest.workload}: {too_short[lowest.workload]}."
    return [f"{plural(len(off), 'gate')} cannot fail (limit 0%): {', '.join(named)}{more}. {todo}"]


def judged(report: Report, gates: Sequence[Check], notices: Sequence[str] = (), *, partial: bool = False) -> Report:
    """Return the report with these checks and notices; `partial`: the work was interrupted, if not the run itself."""
    partial = partial or report.partial
    verdict = verdict_of(gates, notices, partial=partial)
    return report.model_copy(
        update={"gates": verdict.checks, "notices": verdict.notices, "verdict": verdict.outcome, "partial": partial}
    )


def verdict_on(report: Report) -> Verdict:
    """What the gates of a report come to: exit code, last line and every format read this."""
    return verdict_of(report.gates, report.notices, partial=report.partial, reports=[report])


def _which(checks: Sequence[Check], several: bool) -> str:
    """The first checks with what they are about and by how much they miss; with `several` workloads with the workload, too."""
    told = []
    for check in checks[:_MOST_TOLD]:
        where = f"{check.workload}: " if several else ""
        what = brief(check)
        whole = check.kind == "audit" or (check.kind == "findings" and check.group is None)
        told.append(where + (what if whole else f"{subject(check.group, None, check.covered)} {what}"))
    if len(checks) > _MOST_TOLD:
        told.append(f"and {len(checks) - _MOST_TOLD:,} more")
    return ", ".join(told)
