"""Findings in words: name, place, line, cost and gain."""

from __future__ import annotations

from kvtool.diagnose.codes import entry_of
from kvtool.diagnose.finding_cost import cost_of
from kvtool.results.finding import Finding, Snippet, gain_basis
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent


def name_of(code: str) -> str:
    """Return the name of a code; empty for one that is not in the catalogue."""
    entry = entry_of(code)
    return entry.name if entry is not None else ""


def title_of(code: str) -> str:
    """Return `KV101 timestamp inside shared prefix`."""
    return f"{code} {name_of(code)}".rstrip()


def measured_cost(finding: Finding) -> str:
    """Return what it costs, as far as that was measured; else an empty text."""
    return cost_of(finding) if finding.group and finding.tokens_lost else ""


def gain_of(finding: Finding) -> str:
    """Return what its fix gave when the workload was run again with it; empty where it was not tried."""
    rerun = finding.rerun
    if rerun is None:
        return ""
    group = f"{percent(rerun.group_before)} -> {percent(rerun.group_after)}"
    total = f"{percent(rerun.total_before)} -> {percent(rerun.total_after)}"
    basis = gain_basis(finding.warnings, estimate=finding.estimate)
    return f"{total} ({basis})" if group == total else f"group {group}, all {total} ({basis})"


def finding_place(finding: Finding, *, joint: str = "·") -> str:
    """Return `prompt.j2:3:9` or, in a log, `log.jsonl:12 · messages[0] (system), line 3`."""
    if finding.logged is not None:
        return f"{finding.path}:{finding.logged.record} {joint} {finding.logged.told}"
    return f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path


def changed_lines(finding: Finding) -> tuple[tuple[str, Snippet], ...]:
    """Return the line before and after the change, as far as the finding brings both along."""
    pair = finding.example
    if pair is None or pair.was_line is None or pair.now_line is None:
        return ()
    return ("was", pair.was_line), ("now", pair.now_line)


def sentences(finding: Finding) -> list[str]:
    """Return message with cost, fix with gain, and warnings, each on one line, with nothing in it that a terminal would obey."""
    cost, gain = measured_cost(finding), gain_of(finding)
    message = f"{finding.group}: {finding.message}" if finding.group else finding.message
    lines = [f"{message} ({cost})" if cost else message]
    if finding.fix:
        lines.append(f"help: {finding.fix}" + (f": {gain}" if gain else ""))
    lines += [f"note: {warning}" for warning in finding.warnings]
    return [sanitize(line) for line in lines]
