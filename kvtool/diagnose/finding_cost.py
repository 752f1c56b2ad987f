"""Costs of findings, in words, and their order: the same for findings of a run and of a file."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import duration, percent


def by_cost(findings: Iterable[Finding]) -> list[Finding]:
    """Return the costliest first, but those of a group whose fixes build on each other together and in their order."""
    findings = list(findings)
    chains: dict[str, int] = {}
    for finding in findings:
        if finding.proof is not None:
            chains[finding.group] = max(chains.get(finding.group, 0), finding.tokens_lost)
    return sorted(findings, key=lambda one: -(one.tokens_lost if one.proof is None else chains[one.group]))


def cost_of(finding: Finding) -> str:
    """Return tokens and, where they are known, the part of the group and predicted seconds; empty where it costs none."""
    parts = [f"{finding.tokens_lost:,} tokens lost"] if finding.tokens_lost else []
    if finding.points:
        parts.append(f"{percent(finding.points)} of the group")
    if finding.ttft_seconds is not None and finding.ttft_seconds > 0:
        parts.append(f"predicted TTFT +{duration(finding.ttft_seconds)}")
    return ", ".join(parts)
