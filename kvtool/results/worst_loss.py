"""The line of a workload that loses most, chosen and told in one way by every command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from kvtool.results.finding import Finding, noted_place
from kvtool.results.report import Report
from kvtool.results.shared_line import by_line
from kvtool.text.terminal.numbers import percent, plural


@dataclass(frozen=True, slots=True)
class WorstLoss:
    """The finding to begin with, and what its line costs in all groups that send it.

    `won` are the tokens that its fix wins where most of these are lost elsewhere (with it, cache breakpoints win more), or where
    it comes before a larger loss. 0 elsewhere.
    """

    finding: Finding
    tokens: int
    groups: int
    won: int = 0


def worst_loss(report: Report) -> WorstLoss | None:
    """Return the first finding that costs anything: of those that build on each other, the one to begin with.

    A group begins with its first loss; the group whose line costs most in all groups goes first. A proven fix comes before a loss
    without one where it wins more than that: with cache breakpoints, text before a change is lost, too. No line of a prompt
    that is too short to be cached is one.
    """
    losses = {
        id(each): WorstLoss(each, sum(one.tokens_lost for one in line), len(line))
        for line in by_line(report.findings)
        for each in line
    }
    first: dict[str, WorstLoss] = {}
    for finding in report.findings:
        if finding.group and finding.tokens_lost and not finding.too_short:
            first.setdefault(finding.group, losses[id(finding)])
    worst = max(first.values(), key=lambda each: each.tokens, default=None)
    if worst is None:
        return None
    if worst.finding.proof is not None:
        won = _won(report, worst.finding)
        return worst if won <= 2 * worst.tokens else replace(worst, won=won)
    best = max(report.findings, key=lambda each: _won(report, each))
    won = _won(report, best)
    if won <= worst.finding.tokens_lost:
        return worst
    loss = losses[id(best)]
    return WorstLoss(best, loss.tokens, loss.groups, won)


def _won(report: Report, finding: Finding) -> int:
    """Return the tokens that a proven fix wins in its group."""
    if finding.proof is None or not finding.tokens_lost:
        return 0
    prompt = sum(group.prompt_tokens for group in report.groups if group.name == finding.group)
    return round((finding.proof.group_after - finding.proof.group_before) * prompt)


def worth_of_fix(report: Report, finding: Finding) -> Decimal:
    """Return what a proven fix wins: by the price of a prompt token in its group, or tokens where a group has no price."""
    prices = {} if report.money is None else report.money.by_group
    money = prices.get(finding.group) if len(prices) == len(report.groups) else None
    prompt = sum(group.prompt_tokens for group in report.groups if group.name == finding.group)
    return _won(report, finding) * (Decimal(1) if money is None else Decimal(money.without_cache) / max(prompt, 1))


def loss_sentence(report: Report, places: Mapping[str, str] | None = None) -> str | None:
    """Say which line keeps most tokens from being reused; None where no finding costs any.

    `places` are those of the variables of copied prompts, in the files that these are from.
    """
    loss, total = worst_loss(report), report.totals.prompt_tokens
    if loss is None or not total:
        return None
    finding = loss.finding
    at = finding.path, finding.line, finding.column
    variable = next((each.variable for each in report.causes if (each.path, each.line, each.column) == at), None)
    place = (
        f"{finding.path}:{finding.line}:{finding.column}" if finding.line else f"in {finding.group} of {finding.path}"
    )
    place = (places or {}).get(variable or "", noted_place(finding.warnings) or place)
    what = f" (`{variable}`)" if variable else ""
    lost = f"{plural(loss.tokens, 'token')}, {percent(loss.tokens / total)} of all prompt tokens"
    return f"{finding.code} {place}{what} loses most: {lost}."


def reached_sentence(report: Report) -> str:
    """Say which rate the fixes reach together, after a space; nothing where the line that loses most has none."""
    loss = worst_loss(report)
    proof = None if loss is None else loss.finding.rerun or loss.finding.tried
    if proof is None:
        return ""
    fixes = "its fix" if report.kept_fixes <= 1 else "all changes"
    return f" With {fixes}, the hit rate is {percent(proof.total_after)}."
