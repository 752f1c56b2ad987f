"""Demands and how they fared: a row for each, and a word for its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kvtool.report.views.section import Cell, StatusWord, Table, TableColumn
from kvtool.results.gate_words import dollars, durations, goodputs, percents, subject
from kvtool.results.verdict import Check, Kind, Status
from kvtool.text.terminal.numbers import percent

STATUS: Mapping[Status, StatusWord] = {
    "fail": StatusWord("FAIL", "fail"),
    "warn": StatusWord("WARN", "warn"),
    "open": StatusWord("not judged", "open"),
    "pass": StatusWord("ok", "pass"),
}
"""The worst first."""
_MOST_CHECKS = 200


def worst_status(checks: Iterable[Check]) -> StatusWord | None:
    """Return the status of the check that fared worst; None where there is none."""
    found = {check.status for check in checks}
    return next((word for status, word in STATUS.items() if status in found), None)


def checks_table(checks: list[Check], *, several: bool) -> Table | None:
    """Return every demand with its limit and what was measured, the worst first; None where nothing was demanded."""
    if not checks:
        return None
    ordered = sorted(checks, key=lambda check: list(STATUS).index(check.status))
    compared = any(check.baseline is not None for check in checks)
    rows: list[tuple[Cell, ...]] = []
    for check in ordered[:_MOST_CHECKS]:
        of = (check.workload,) if several else ()
        rows.append(
            (
                STATUS[check.status],
                *of,
                subject(check.group, None, check.covered),
                _what(check),
                *_figures(check),
                *((percent(check.baseline) if check.baseline is not None else "",) if compared else ()),
                check.level,
                f"{check.path}:{check.line}" if check.line else check.path,
                check.message,
            )
        )
    columns = (
        TableColumn("Status", "word"),
        *((TableColumn("Workload", "code"),) if several else ()),
        TableColumn("Group"),
        TableColumn("Demand"),
        TableColumn("Limit", "number"),
        TableColumn("Actual", "number"),
        *((TableColumn("Baseline", "number"),) if compared else ()),
        TableColumn("Level", "word"),
        TableColumn("Set in", "code"),
        TableColumn("Result", "prose"),
    )
    return Table("Checks", columns, rows, more=max(len(checks) - _MOST_CHECKS, 0))


def _what(check: Check) -> str:
    words = {
        "hit_rate": "hit rate",
        "reachable_gap": "gap to the maximum",
        "reported_gap": "gap to the reported rate",
        "cost_per_1k_requests": "cost of 1,000 requests",
        "ttft_p50": "TTFT p50, predicted",
        "ttft_p90": "TTFT p90, predicted",
        "ttft_p99": "TTFT p99, predicted",
        "gpus": "GPUs for the objectives, predicted",
        "goodput": "goodput, predicted",
        "findings": "",
        "baseline": "hit rate against the baseline",
        "audit": "reuse audit",
        "probe": "agent: " + check.id.rsplit("/", 1)[-1],
    }
    return f"findings: {check.id.rsplit('/', 1)[-1]}" if check.kind == "findings" else words[check.kind]


def _figures(check: Check) -> tuple[str, str]:
    """Return limit and actual value, with as many digits as it takes to tell them apart."""
    sign = "≥" if check.kind in ("hit_rate", "baseline") else "≤"
    limit, actual = check.limit, check.actual
    write = _writer(check.kind)
    if limit is None or actual is None:
        return (f"{sign}{write(limit, limit)[0]}" if limit is not None else "none"), (
            write(actual, actual)[0] if actual is not None else "none"
        )
    shown_limit, shown_actual = write(limit, actual)
    return f"{sign}{shown_limit}", shown_actual


def _writer(kind: Kind) -> Callable[[float, float], tuple[str, str]]:
    if kind.startswith("ttft"):
        return durations
    if kind == "cost_per_1k_requests":
        return dollars
    if kind == "goodput":
        return goodputs
    return _counts if kind in ("findings", "audit", "gpus", "probe") else percents


def _counts(one: float, other: float) -> tuple[str, str]:
    return f"{one:,.0f}", f"{other:,.0f}"
