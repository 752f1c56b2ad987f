"""What several formats say of findings, in plain words."""

from __future__ import annotations

from kvtool.diagnose.codes import entry_of
from kvtool.diagnose.finding_cost import cost_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent


def name_of(code: str) -> str:
    """What the catalogue calls the code; empty for one that it does not have."""
    entry = entry_of(code)
    return entry.name if entry is not None else ""


def title_of(code: str) -> str:
    """`KV101 timestamp inside shared prefix`."""
    return f"{code} {name_of(code)}".rstrip()


def cost_told(finding: Finding) -> str:
    """What it costs, as far as that was measured; else empty."""
    return cost_of(finding) if finding.group and finding.tokens_lost else ""


def gain_of(finding: Finding) -> str:
    """What its fix gave when the workload was run again with it; empty where it was not tried."""
    rerun = finding.rerun
    if rerun is None:
        return ""
    group = f"{percent(rerun.group_before)} -> {percent(rerun.group_after)}"
    total = f"{percent(rerun.total_before)} -> {percent(rerun.total_after)}"
    return f"group {group}, all {total} (measured by running again)"


def sentences(finding: Finding) -> list[str]:
    """Message with cost, fix with gain, and what to look at, each on one line, with nothing in it that a terminal would obey."""
    cost, gain = cost_told(finding), gain_of(finding)
    message = f"{finding.group}: {finding.message}" if finding.group else finding.message
    lines = [f"{message} ({cost})" if cost else message]
    if finding.fix:
        lines.append(f"help: {finding.fix}" + (f"; {gain}" if gain else ""))
    lines += [f"look: {warning}" for warning in finding.warnings]
    return [sanitize(line) for line in lines]
