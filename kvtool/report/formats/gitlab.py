"""GitLab's code quality report: findings and checks that are not met, in the widget of a merge request."""

from __future__ import annotations

import json
from typing import Any

from kvtool.report.places import OutputPlace, Places, check_fingerprint, fingerprints
from kvtool.report.views.findings import sentences, title_of
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.runner_commands import blunt_json

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}
_STATUSES = {"fail": "critical", "warn": "minor"}
"""A gate that fails weighs more than anything that is found."""
_ROOT = "."
"""The path of what is in no file of the repository: GitLab leaves out what has none."""


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return an array of issues, checks first."""
    places = Places(result, options.root)
    issues = [
        _issue(
            check.code,
            check.message,
            _STATUSES[check.status],
            check_fingerprint(check, options.root),
            places.of_check(check),
        )
        for check in result.verdict.checks
        if check.status in _STATUSES
    ]
    for finding, fingerprint in zip(result.findings, fingerprints(result.findings, options.root), strict=True):
        text = "; ".join([*sentences(finding), *places.in_log(finding), *places.elsewhere(finding)])
        severity = _SEVERITIES[finding.severity]
        issues.append(_issue(finding.code, text, severity, fingerprint, places.of_finding(finding)))
    return blunt_json(json.dumps(issues, indent=2, sort_keys=True, ensure_ascii=False)) + "\n"


def _issue(code: str, message: str, severity: str, fingerprint: str, spot: OutputPlace | None) -> dict[str, Any]:
    return {
        "type": "issue",
        "check_name": sanitize(code),
        "description": f"{sanitize(title_of(code))}: {sanitize(message)}",
        "severity": severity,
        "fingerprint": fingerprint,
        "categories": ["Performance"],
        "location": {
            "path": sanitize(spot.path) if spot is not None else _ROOT,
            "lines": {"begin": max(spot.line, 1) if spot is not None else 1},
        },
    }
