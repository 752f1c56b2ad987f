"""The line of a workload that loses most, chosen and told in one way by every command."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.results.shared_line import by_line
from kvtool.text.terminal.numbers import percent, plural


def worst_finding(report: Report) -> Finding | None:
    """Return the first finding that costs anything: of those that build on each other, the one to begin with.

    A proven fix comes before a loss without one where it wins more than that: with cache marks, text before a change is lost, too.
    """
    first = _first_loss(report)
    if first is None or first.proof is not None:
        return first
    best = max(report.findings, key=lambda each: _won(report, each))
    return best if _won(report, best) > first.tokens_lost else first


def won_tokens(report: Report, worst: Finding) -> int:
    """Return the tokens that its fix wins, for which the worst finding comes before a larger loss; 0 where it is the largest."""
    return 0 if worst is _first_loss(report) else _won(report, worst)


def lost_on_line(report: Report, finding: Finding) -> tuple[int, int]:
    """Return the tokens that a finding's line costs in all groups that send it, and how many groups these are."""
    (line,) = (line for line in by_line(report.findings) if any(each is finding for each in line))
    return sum(each.tokens_lost for each in line), len(line)


def _first_loss(report: Report) -> Finding | None:
    """Return the first loss of the group to begin with: the one whose line costs most in all groups."""
    first: dict[str, Finding] = {}
    for finding in report.findings:
        if finding.group and finding.tokens_lost:
            first.setdefault(finding.group, finding)
    costs = {id(each): sum(one.tokens_lost for one in line) for line in by_line(report.findings) for each in line}
    return max(first.values(), key=lambda each: costs[id(each)], default=None)


def _won(report: Report, finding: Finding) -> int:
    """Return the tokens that a proven fix wins in its group."""
    if finding.proof is None or not finding.tokens_lost:
        return 0
    prompt = sum(group.prompt_tokens for group in report.groups if group.name == finding.group)
    return round((finding.proof.group_after - finding.proof.group_before) * prompt)


def loss_sentence(report: Report, places: Mapping[str, str] | None = None) -> str | None:
    """Say which line keeps most tokens from being reused; None where no finding costs any.

    `places` are those of the variables of copied prompts, in the files that these are from.
    """
    finding, total = worst_finding(report), report.totals.prompt_tokens
    if finding is None or not total:
        return None
    at = finding.path, finding.line, finding.column
    variable = next((each.variable for each in report.causes if (each.path, each.line, each.column) == at), None)
    place = f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path
    place = (places or {}).get(variable or "", place)
    what = f" (`{variable}`)" if variable else ""
    tokens, _ = lost_on_line(report, finding)
    lost = f"{plural(tokens, 'token')}, {percent(tokens / total)} of all prompt tokens"
    return f"{finding.code} {place}{what} loses most: {lost}."
