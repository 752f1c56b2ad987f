"""Facts for demands: the sums, predicted times and findings of one profiled workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from kvtool.results.verdict import Kind
from kvtool.text.terminal.numbers import plural

if TYPE_CHECKING:
    from kvtool.results.choices import Severity
    from kvtool.results.report import Group, Report, Totals
    from kvtool.results.run_times import Measured, Quantiles


@dataclass(frozen=True, slots=True)
class Scope:
    """A group, or all requests of a workload. `ttft` is predicted, in seconds, by the kind of demand (`ttft_p50`…)."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    reachable_tokens: int = 0
    ttft: Mapping[Kind, float] = field(default_factory=dict)
    reported_gap: Fraction | None = None
    """Reported hits that are missing beside the predicted ones, as a part of the prompt tokens; None without a report."""
    cost_per_1k: Fraction | None = None
    """Cost of 1,000 of its requests; None without a price."""
    reported: Fraction | None = None
    """The reported hit rate; None where nothing is reported."""
    predicted: float | None = None
    """The predicted hit rate beside the reported one; None where the log lacks what predictions need."""


@dataclass(frozen=True, slots=True)
class JudgedFinding:
    """A finding as demands look at it; `group` is empty where it was seen in a file, not measured."""

    code: str
    severity: Severity
    group: str


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """Figures of today's settings on a clock."""

    gpus: int | None
    """Accelerators that the objectives need; None: no fleet that was tried meets them."""
    goodput: float
    """Requests per second within the objectives, of today's replicas."""
    slo: str
    """The objectives, as they were said."""


@dataclass(frozen=True, slots=True)
class Facts:
    """`audit` is what is wrong with an audit (empty: nothing, None: there was none to judge).

    `partial` says that the run was interrupted, `limit` after how many requests it was asked to end. `path` is the first file of
    the workload, the place of what is written nowhere (empty: its name is a path).
    """

    workload: str
    total: Scope
    groups: Mapping[str, Scope] = field(default_factory=dict)
    findings: Sequence[JudgedFinding] = ()
    audit: str | None = None
    partial: bool = False
    limit: int | None = None
    path: str = ""
    fleet: FleetFacts | None = None
    """None where no demand needs a clock."""
    covered: str = ""
    """How many of all requests the sums cover, in words; empty for all of them."""


def facts_of(
    report: Report, workload: str, *, path: str = "", limit: int | None = None, groups: Iterable[str] = ()
) -> Facts:
    """Return the facts of a finished run; `workload` is what reports call it, `path` its first file.

    `groups` are those that the workload names: one of which no request was profiled (all refused, or never reached) is there, too.
    """
    judged = report.totals.requests
    profiled = {
        group.name: _group_money(_scope(group, group.predicted_ttft), report, group.name) for group in report.groups
    }
    return Facts(
        workload,
        _with_money(_scope(report.totals, report.ttft.predicted.on), report),
        {**dict.fromkeys(groups, Scope()), **profiled},
        [JudgedFinding(found.code, found.severity, found.group) for found in report.findings],
        _audit_verdict(report.ttft.measured),
        report.partial,
        limit,
        path,
        covered=f"{judged:,} of {plural(report.request_count, 'request')}" if 0 < judged < report.request_count else "",
    )


def _audit_verdict(measured: Measured | None) -> str | None:
    """Return the errors of an audit (empty: none); None where none was asked for, or it may differ.

    Only in fp32, with the cache's native dtype, must reuse change no token.
    """
    if measured is None or measured.audit is None:
        return None
    if not measured.audit.tokens:
        return f"nothing was compared: {measured.reason or 'there was nothing to run'}"
    if not measured.exact:
        return None
    return "reuse changed a token" if measured.audit.flips else ""


def _with_money(scope: Scope, report: Report) -> Scope:
    """Return the facts with the hits that the log's provider reported and their cost."""
    by_rules, money = report.predicted, report.money
    gap = cost = None
    if by_rules is not None and by_rules.reported_tokens is not None and by_rules.prompt_tokens:
        gap = Fraction(by_rules.cached_tokens - by_rules.reported_tokens, by_rules.prompt_tokens)
    if money is not None and money.per_1k_requests is not None:
        cost = Fraction(Decimal(money.per_1k_requests))
    return replace(
        scope,
        reported_gap=gap,
        cost_per_1k=cost,
        reported=report.reported_share(),
        predicted=report.predicted_rate(),
    )


def _group_money(scope: Scope, report: Report, name: str) -> Scope:
    """Return the same of a group."""
    scope = replace(scope, reported=report.reported_share(name), predicted=report.predicted_rate(name))
    gap = None
    read = next((one.provider for one in report.groups if one.name == name), None)
    if read is not None and read.prompt_tokens:
        gap = Fraction(read.predicted_tokens - read.reported_tokens, read.prompt_tokens)
    group = None if report.money is None else report.money.by_group.get(name)
    if group is None or not group.requests:
        return replace(scope, reported_gap=gap)
    if gap is None and None not in (group.reported_hit_rate, group.predicted_hit_rate):
        gap = Fraction(Decimal(repr(group.predicted_hit_rate))) - Fraction(Decimal(repr(group.reported_hit_rate)))
    amount = group.predicted if group.paid is None else group.paid
    return replace(scope, reported_gap=gap, cost_per_1k=Fraction(Decimal(amount)) * 1000 / group.requests)


def _scope(totals: Totals | Group, times: Quantiles | None) -> Scope:
    ttft: dict[Kind, float] = {}
    if times is not None:
        ttft = {"ttft_p50": times.p50, "ttft_p90": times.p90, "ttft_p99": times.p99}
    return Scope(totals.requests, totals.prompt_tokens, totals.hit_tokens, totals.reachable_tokens, ttft)
