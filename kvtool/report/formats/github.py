"""Annotations of GitHub Actions: workflow commands on standard output, read by the runner.

Each command is one line and is made here; text from users only ever comes after its `::`, with line ends and
control characters made visible, so that it cannot begin a command.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.diagnose.finding_cost import by_cost
from kvtool.report.markdown import comment
from kvtool.report.places import OutputPlace, Places
from kvtool.report.views.findings import sentences, title_of
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.verdict import Outcome
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import in_words, plural
from kvtool.text.terminal.runner_commands import blunt

_MOST = 10
"""GitHub shows so many errors and so many warnings of a step."""
_MOST_SUMMARY = 1_000_000
"""Bytes; GitHub takes 1 MiB for a step."""
_LEVELS = {"error": "error", "warning": "warning", "info": "notice", "fail": "error", "warn": "warning"}
_VERDICTS: dict[Outcome, str] = {
    "pass": "notice",
    "none": "notice",
    "warn": "warning",
    "fail": "error",
    "partial": "error",
}


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return checks that are not met, the ten costliest findings, how many more there are, and the verdict."""
    return "".join(f"{line}\n" for line in _lines(result, options))


def step_summary(result: CheckResult, options: WriteOptions) -> str:
    """Return the same result as Markdown, for the file that GITHUB_STEP_SUMMARY names: at most 1 MB of UTF-8."""
    return comment.document(result, options, limit=_MOST_SUMMARY, size=lambda text: len(text.encode(errors="replace")))


def _lines(result: CheckResult, options: WriteOptions) -> Iterator[str]:
    places = Places(result, options.root)
    unmet = [check for check in result.verdict.checks if check.status in ("fail", "warn")]
    for check in unmet[:_MOST]:
        yield _command(_LEVELS[check.status], title_of(check.code), check.message, spot=places.of_check(check))
    findings = by_cost(result.findings)
    for finding in findings[:_MOST]:
        spot = places.of_finding(finding)
        level = _LEVELS[finding.severity]
        yield _command(
            # A step that succeeds shows no errors: what a gate lets pass is no more than a warning.
            level if level != "error" or result.verdict.exit_code else "warning",
            title_of(finding.code),
            *sentences(finding),
            *places.in_log(finding),
            *places.elsewhere(finding),
            spot=spot,
        )
    for notice in result.verdict.notices:
        yield _command("warning", "kvtool", notice)
    left = [
        plural(count, noun)
        for count, noun in ((len(unmet) - _MOST, "check"), (len(findings) - _MOST, "finding"))
        if count > 0
    ]
    if left:
        yield _command("notice", "kvtool", f"{in_words(left)} more in the other reports")
    yield _command(_VERDICTS[result.verdict.outcome], "kvtool", result.verdict.sentence)


def _command(level: str, title: str, *lines: str, spot: OutputPlace | None = None) -> str:
    """Return one workflow command; its message is `lines`."""
    properties: dict[str, str | int] = {}
    if spot is not None:
        properties["file"] = spot.path
        if spot.line:
            properties["line"] = spot.line
        if spot.line and spot.column:
            properties["col"] = spot.column
            if spot.width:
                properties["endColumn"] = spot.column + spot.width
    properties["title"] = title
    written = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{level} {written}::{'%0A'.join(_data(line) for line in lines)}"


def _data(text: str) -> str:
    """Part of a message; the runner reads %, CR and LF as escapes, of which only the first is left by now."""
    return blunt(sanitize(text)).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
