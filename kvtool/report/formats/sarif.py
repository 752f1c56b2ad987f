"""SARIF 2.1.0, for code scanning: findings and checks that are not met, as results of one run.

Paths are relative to the root (`%SRCROOT%`). What lies outside of it is shown at the file of its workload; where that is outside,
too, it becomes a notification of the run, for GitHub refuses a whole file because of one result without a file.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from kvtool.diagnose.codes import CodeEntry, entry_of
from kvtool.report.markdown.text import block
from kvtool.report.places import OutputPlace, Places, check_fingerprint, fingerprints
from kvtool.report.views.findings import name_of, sentences
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import ExamplePair, Finding
from kvtool.results.verdict import Check
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.runner_commands import blunt_json

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "kvtool/v1"
_LEVELS = {"error": "error", "warning": "warning", "info": "note", "fail": "error", "warn": "warning"}
_FINISHED = (0, 1)
"""Exit codes of runs that came to a judgement."""
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_LINK = re.compile(r"\](?=\()")
"""`[text](target)` is a link in the messages of SARIF."""


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the whole log, with one run."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result, options)]}
    return blunt_json(json.dumps(log, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)) + "\n"


def _run(result: CheckResult, options: WriteOptions) -> dict[str, Any]:
    places = Places(result, options.root)
    checks = [check for check in result.verdict.checks if check.status in ("fail", "warn")]
    codes = sorted({check.code for check in checks} | {finding.code for finding in result.findings})
    numbers = {code: number for number, code in enumerate(codes)}
    results: list[dict[str, Any]] = []
    homeless: list[dict[str, Any]] = []
    for check in checks:
        spot = places.of_check(check)
        (homeless if spot is None else results).append(_check(check, check_fingerprint(check, options.root), spot))
    for finding, fingerprint in zip(result.findings, fingerprints(result.findings, options.root), strict=True):
        spot = places.of_finding(finding)
        lines = [*sentences(finding), *places.in_log(finding), *places.elsewhere(finding)]
        (homeless if spot is None else results).append(_finding(finding, "\n".join(lines), fingerprint, spot))
    for each in results:
        each["ruleIndex"] = numbers[each["ruleId"]]
        each["ruleId"] = sanitize(each["ruleId"])
    driver: dict[str, Any] = {
        "name": "kvtool",
        "version": sanitize(result.version),
        "rules": [_rule(code) for code in codes],
    }
    if _SEMANTIC.fullmatch(result.version):
        driver["semanticVersion"] = result.version
    return {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(result, homeless)],
        "results": results,
        "properties": {"verdict": result.verdict.outcome, "sentence": sanitize(result.verdict.sentence)},
    }


def _invocation(result: CheckResult, homeless: list[dict[str, Any]]) -> dict[str, Any]:
    verdict = result.verdict
    notifications = [_notification("warning", sanitize(notice)) for notice in verdict.notices]
    if verdict.outcome == "partial":
        notifications.append(_notification("error", verdict.sentence))
    for each in homeless:
        notification = _notification(each["level"], each["message"]["text"])
        notifications.append({**notification, "associatedRule": {"id": sanitize(each["ruleId"])}})
    invocation: dict[str, Any] = {
        "executionSuccessful": verdict.exit_code in _FINISHED,
        "exitCode": verdict.exit_code,
    }
    return {**invocation, "toolExecutionNotifications": notifications} if notifications else invocation


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": sanitize(text, newlines=False)}}


def _rule(code: str) -> dict[str, Any]:
    entry = entry_of(code)
    if entry is None:  # of a result that a newer kvtool has written
        return {"id": sanitize(code)}
    return {
        "id": code,
        "shortDescription": {"text": entry.name},
        "fullDescription": {"text": f"{entry.what} {entry.why}"},
        "help": {"text": _help(entry), "markdown": _help_markdown(entry)},
        "properties": {"tags": ["performance", "prefix-cache"]},
    }


def _help(entry: CodeEntry) -> str:
    ways = "\n".join(f"- {remedy.what}" for remedy in entry.remedies)
    examples = f"Before:\n{entry.before}\n\nAfter:\n{entry.after}"
    return f"{entry.what}\n{entry.why}\n\n{examples}\n\n{ways}\n\nIgnore it when: {entry.ignore}"


def _help_markdown(entry: CodeEntry) -> str:
    ways = "\n".join(f"- {remedy.what}{f' ({remedy.tier})' if remedy.tier else ''}" for remedy in entry.remedies)
    before, after = block(entry.before), block(entry.after)
    return f"{entry.what} {entry.why}\n\nBefore:\n\n{before}\n\nAfter:\n\n{after}\n\n{ways}\n\n*Ignore it when:* {entry.ignore}\n"


def _check(check: Check, fingerprint: str, spot: OutputPlace | None) -> dict[str, Any]:
    return _result(
        check.code,
        _LEVELS[check.status],
        sanitize(check.message),
        spot,
        fingerprint,
        {"check": sanitize(check.id), "kind": check.kind, "limit": check.limit, "actual": check.actual},
    )


def _finding(finding: Finding, text: str, fingerprint: str, spot: OutputPlace | None) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "group": sanitize(finding.group),
        "tokensLost": finding.tokens_lost,
        "points": finding.points,
        "confidence": finding.confidence,
        "tier": finding.tier if finding.tier is None else sanitize(finding.tier),
        "fix": sanitize(finding.fix),
        "gain": finding.rerun.model_dump() if finding.rerun is not None else None,
        "logged": None if finding.logged is None else _plain(finding.logged.model_dump()),
        "example": None if finding.example is None else _pair(finding.example),
        "patch": finding.patch if finding.patch is None else sanitize(finding.patch, newlines=False),
    }
    result = _result(finding.code, _LEVELS[finding.severity], text, spot, fingerprint, properties)
    if spot is not None and finding.logged is not None:
        named = {"fullyQualifiedName": sanitize(finding.named_record)}
        result["locations"][0]["logicalLocations"] = [named]
    if spot is not None and spot.line and finding.in_source and finding.snippet is not None:
        shown = {"text": sanitize(finding.snippet.text)}
        result["locations"][0]["physicalLocation"]["contextRegion"] = {"startLine": spot.line, "snippet": shown}
    return result


def _pair(example: ExamplePair) -> dict[str, Any]:
    """Return the lines of a pair, with their files where these are below the root."""
    lines = {"was": example.was_line, "now": example.now_line}
    return {name: sanitize(line.text) for name, line in lines.items() if line is not None}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: sanitize(value) if isinstance(value, str) else value for name, value in values.items()}


def _result(
    code: str, level: str, text: str, spot: OutputPlace | None, fingerprint: str, properties: dict[str, Any]
) -> dict[str, Any]:
    name = name_of(code)
    result: dict[str, Any] = {
        "ruleId": code,
        "level": level,
        "message": {"text": _LINK.sub("] ", f"{name}\n{text}" if name else text)},
        "partialFingerprints": {_FINGERPRINT: fingerprint},
        "properties": {name: value for name, value in properties.items() if value not in (None, {})},
    }
    if spot is None:
        return result
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(spot.path), "uriBaseId": _ROOT}}
    if spot.line:
        place["region"] = _region(spot)
    return {**result, "locations": [{"physicalLocation": place}]}


def _region(spot: OutputPlace) -> dict[str, int]:
    region = {"startLine": spot.line}
    if spot.column:
        region["startColumn"] = spot.column
        if spot.width:
            region["endColumn"] = spot.column + spot.width
    return region


def _uri(path: str) -> str:
    """Return a relative reference (RFC 3986) to the path, byte for byte."""
    try:
        return quote(path.encode(errors="surrogateescape"))
    except UnicodeEncodeError:  # no file has such a name
        return quote(path.encode(errors="replace"))
