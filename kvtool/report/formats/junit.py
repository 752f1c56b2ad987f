"""JUnit XML, which every CI shows: a suite for each workload, a test case for each demand.

There is no standard; this is the part that Jenkins, GitLab and GitHub's reporters agree on. A demand of the level `warn` that is
not met is a skipped test: those show a skipped test with its message and do not fail for it, while the output of a passed test
is shown by none of them without asking. Written with the standard library: all of it is a few nested elements, and no reading of
foreign XML is involved.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from kvtool.report.places import OutputPlace, Places
from kvtool.report.views.findings import sentences, title_of
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.results.verdict import Check
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.runner_commands import blunt_xml

_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
_READ = "files"
_COUNTED = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the whole file; what XML 1.0 has no character for is an escape that people can read."""
    places = Places(result, options.root)
    root = ET.Element("testsuites", name="kvtool")
    checks: dict[str, list[Check]] = {}
    for check in result.verdict.checks:
        checks.setdefault(check.workload, []).append(check)
    for report in result.reports:
        _add_report(root, report, checks.pop(report.workload, ()), places)
    for workload, own in checks.items():
        suite = _suite(root, workload)
        for check in own:
            _add_check(suite, check, places)
    read = result.loose_findings()
    if read or not result.reports:
        _add_findings(root, read, places, judged=not result.reports)
    _add_verdict(root, result)
    for suite in root:
        _count(suite, [suite])
    _count(root, root)
    ET.indent(root)
    return f"{_DECLARATION}{blunt_xml(ET.tostring(root, encoding='unicode'))}\n"


def _add_report(root: ET.Element, report: Report, checks: Iterable[Check], places: Places) -> None:
    suite = _suite(root, report.workload)
    totals = report.totals
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("hit_rate", totals.hit_rate),
        ("reachable_hit_rate", totals.reachable_hit_rate),
        ("requests", totals.requests),
        ("prompt_tokens", totals.prompt_tokens),
    ):
        ET.SubElement(properties, "property", name=name, value=str(value))
    profiled = _case(suite, "profiled", report.workload, None)
    if report.partial:
        _outcome(profiled, "error", "interrupted: no verdict", "interrupted")
    else:
        said = f"{percent(totals.hit_rate)} of the prompt tokens hit, {percent(totals.reachable_hit_rate)} maximum as written"
        lines = [line for finding in report.findings for line in (title_of(finding.code), *sentences(finding))]
        ET.SubElement(profiled, "system-out").text = _text("\n".join([said, *lines]))
    for check in checks:
        _add_check(suite, check, places)


def _add_check(suite: ET.Element, check: Check, places: Places) -> None:
    name = check.id.removeprefix(f"{check.workload}/")
    spot = places.of_check(check)
    case = _case(suite, name, check.workload, spot)
    where = f" ({_where(spot)})" if spot is not None else ""
    message = f"{check.code}: {check.message}"
    if check.status == "fail":
        _outcome(case, "failure", message + where, check.code)
    elif check.status == "warn":
        _outcome(case, "skipped", f"warning: {message}{where}")
    elif check.status == "open":
        _outcome(case, "skipped", "no verdict: the run was interrupted")


def _add_findings(root: ET.Element, findings: Iterable[Finding], places: Places, *, judged: bool) -> None:
    """Add a test case for each finding in files that were only read.

    Where findings alone are `judged` (lint), errors are failures and warnings are skipped tests; beside gates, they are told.
    """
    suite = _suite(root, _READ)
    _case(suite, "read", _READ, None)
    for finding in findings:
        spot = places.of_finding(finding)
        where = _where(spot) if spot is not None else "no file"
        case = _case(suite, f"{finding.code} {where}", _READ, spot)
        message, *rest = [*sentences(finding), *places.in_log(finding), *places.elsewhere(finding)]
        message = f"{title_of(finding.code)}: {message}"
        if judged and finding.severity == "error":
            _outcome(case, "failure", message, finding.code, "\n".join(rest))
        elif judged and finding.severity == "warning":
            _outcome(case, "skipped", f"warning: {message}")
        else:
            ET.SubElement(case, "system-out").text = _text("\n".join([message, *rest]))


def _add_verdict(root: ET.Element, result: CheckResult) -> None:
    """Add a test case for a verdict that no other one shows, so that the file never says less than the exit code."""
    failed, broken = root.find(".//failure") is not None, root.find(".//error") is not None
    verdict = result.verdict
    if verdict.outcome == "fail" and not failed:
        _outcome(_case(_suite(root, "verdict"), "verdict", "verdict", None), "failure", verdict.sentence, "verdict")
    if verdict.outcome == "partial" and not broken:
        _outcome(_case(_suite(root, "verdict"), "verdict", "verdict", None), "error", verdict.sentence, "interrupted")


def _suite(root: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", name=_line(name))


def _case(suite: ET.Element, name: str, workload: str, spot: OutputPlace | None) -> ET.Element:
    case = ET.SubElement(suite, "testcase", classname=_line(f"kvtool.{workload}"), name=_line(name))
    if spot is not None:
        case.set("file", _line(spot.path))
        if spot.line:
            case.set("line", str(spot.line))
    return case


def _outcome(case: ET.Element, tag: str, message: str, kind: str = "", text: str = "") -> None:
    element = ET.SubElement(case, tag, message=_line(message))
    if kind:
        element.set("type", _line(kind))
        element.text = _text(f"{sanitize(message)}\n{text}".rstrip("\n"))


def _where(spot: OutputPlace) -> str:
    return f"{spot.path}:{spot.line}:{spot.column}" if spot.line else spot.path


def _count(element: ET.Element, suites: Iterable[ET.Element]) -> None:
    suites = list(suites)
    element.set("tests", str(sum(len(suite.findall("testcase")) for suite in suites)))
    for name, tag in _COUNTED:
        element.set(name, str(sum(len(suite.findall(f"testcase/{tag}")) for suite in suites)))


def _line(text: str) -> str:
    """Return one line that XML can contain: control characters and half surrogate pairs as escapes."""
    return sanitize(text)


def _text(text: str) -> str:
    return sanitize(text, newlines=False)
