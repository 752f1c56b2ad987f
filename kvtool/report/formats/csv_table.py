"""CSV as RFC 4180 has it: a row for each group and one for all of its workload, for spreadsheets and data frames.

Names of groups and files are text of others, and a spreadsheet runs what begins like a formula: such a cell gets an apostrophe in
front, as does one that begins with an apostrophe, so that it can be taken away again.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding
from kvtool.results.report import Fates, Group, Report, Totals, lost_tokens
from kvtool.results.run_times import Quantiles
from kvtool.results.verdict import Check, Status
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.runner_commands import blunt

COLUMNS = {
    "workload": "what reports call the input",
    "row": "`group`, or `total` for all groups of the workload together",
    "group": "its name; empty in the row of the total",
    "partial": "`true` where the run was interrupted",
    "requests": "",
    "prompt_tokens": "",
    "hit_tokens": "prompt tokens that came from the cache",
    "lost_tokens": "the others",
    "hit_rate": "a ratio from 0 to 1",
    "mean_request_hit_rate": "the mean of the requests' own ratios",
    "reachable_tokens": "hit tokens of an unlimited cache",
    "reachable_hit_rate": "the same as a ratio",
    "predicted_ttft_p50": "seconds, with the cache; empty where nothing is predicted",
    "predicted_ttft_p90": "",
    "predicted_ttft_p99": "",
    "gate": "the worst of its demands: `fail`, `warn`, `open` or `pass`; empty where there is none",
    "findings": "how many, without those that comments silence",
    "worst_code": "code of the most severe finding; of several, the one with the largest loss",
    "worst_severity": "`error`, `warning` or `info`",
}
"""Name and meaning of each column; behind them stands `fate_NAME` for each fate, in tokens."""
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_QUOTE = "'"
_STATUSES: tuple[Status, ...] = ("fail", "warn", "open", "pass")
_SEVERITIES = ("error", "warning", "info")


def write(result: CheckResult, _options: WriteOptions) -> str:
    """Return the whole file, lines ended by CR LF; only its head where nothing was profiled. It never quotes a prompt."""
    names = list(FATES)
    names += sorted({name for report in result.reports for name in report.fates} - set(names))
    file = StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([*COLUMNS, *(cell_text(f"fate_{name}") for name in names)])
    told = {finding.identity for finding in result.findings}
    for report in result.reports:
        kept = [finding for finding in report.findings if not result.ignored or finding.identity in told]
        checks = {check.id: check for check in report.gates}
        checks |= {check.id: check for check in result.verdict.checks if check.workload == report.workload}
        writer.writerows(_rows(report, kept, list(checks.values()), names))
    return file.getvalue()


def _rows(
    report: Report, findings: Sequence[Finding], checks: Sequence[Check], names: Sequence[str]
) -> Iterator[list[str]]:
    for group in report.groups:
        yield [
            *_head(report, "group", group.name),
            *_sums(group, group.predicted_ttft),
            *_judged(
                [check for check in checks if check.group == group.name],
                [finding for finding in findings if finding.group == group.name],
            ),
            *_fates(group.fates, names),
        ]
    yield [
        *_head(report, "total", ""),
        *_sums(report.totals, report.ttft.predicted.on),
        *_judged(checks, findings),
        *_fates(report.fates, names),
    ]


def _head(report: Report, row: str, group: str) -> list[str]:
    return [cell_text(report.workload), row, cell_text(group), "true" if report.partial else "false"]


def _sums(sums: Group | Totals, ttft: Quantiles | None) -> list[str]:
    times = ("", "", "") if ttft is None else (repr(ttft.p50), repr(ttft.p90), repr(ttft.p99))
    return [
        str(sums.requests),
        str(sums.prompt_tokens),
        str(sums.hit_tokens),
        str(lost_tokens(sums)),
        repr(sums.hit_rate),
        repr(sums.mean_request_hit_rate),
        str(sums.reachable_tokens),
        repr(sums.reachable_hit_rate),
        *times,
    ]


def _judged(checks: Iterable[Check], findings: Sequence[Finding]) -> list[str]:
    found = {check.status for check in checks}
    worst = min(findings, key=lambda one: (_SEVERITIES.index(one.severity), -one.tokens_lost), default=None)
    return [
        next((status for status in _STATUSES if status in found), ""),
        str(len(findings)),
        cell_text(worst.code) if worst is not None else "",
        worst.severity if worst is not None else "",
    ]


def _fates(fates: Fates, names: Iterable[str]) -> list[str]:
    counts = Counter(fates)
    return [str(counts[name]) for name in names]


def cell_text(value: str) -> str:
    """Return a cell without control characters that neither a spreadsheet nor a CI runner obeys."""
    shown = blunt(sanitize(value))
    return f"{_QUOTE}{shown}" if shown.lstrip().startswith((*_FORMULA, _QUOTE)) else shown
