"""KV305 promises what the marks of its own group save, whatever the marks of other groups save beside them."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

import kvtool
from kvtool.accounting.caches.mark_plan import OTHERS, MarkPlan, set_of
from kvtool.results.report import Report

SHARED = "The desk answers politely and quotes the clause. " * 60


def profiled(groups: str, longer: str, *, advice: bool) -> Report:
    """Profile requests of these groups in turn, which share their tools; those of `longer` are marked for an hour."""
    lines = []
    for number in range(8 * len(groups)):
        group = groups[number % len(groups)]
        ttl = {"ttl": "1h"} if group in longer else {}
        tool = {"name": "find", "description": SHARED, "input_schema": {"type": "object"}}
        system = [{"type": "text", "text": f"Team {group}. {SHARED}", "cache_control": {"type": "ephemeral", **ttl}}]
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "tools": [tool],
            "system": system,
            "messages": [{"role": "user", "content": f"Question {number}"}],
        }
        lines.append(json.dumps({"timestamp": 1_772_442_000 + 400 * number, "team": group, "request": body}))
    Path("log.jsonl").write_text("\n".join(lines))
    return kvtool.profile("log.jsonl", group_by="team", advice=advice)


def cost(report: Report, group: str) -> Decimal:
    assert report.money is not None
    return Decimal(report.money.by_group[group].predicted)


def test_the_figure_is_that_of_the_own_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = profiled("ab", "", advice=True)
    findings = {each.group: each for each in report.findings if each.code == "KV305"}
    assert set(findings) == {"a", "b"}
    for group, finding in findings.items():
        told = re.search(r"\$([\d.]+) -> \$([\d.]+), \$[\d.]+ saved", finding.fix)
        assert told is not None, finding.fix
        alone = cost(profiled("ab", group, advice=False), group)
        assert Decimal(told[1]) == pytest.approx(cost(report, group), rel=Decimal("0.05"))
        assert Decimal(told[2]) == pytest.approx(alone, rel=Decimal("0.05"))


def test_a_kind_without_a_set_keeps_its_own_marks() -> None:
    sets = {"scope": {1: None, OTHERS: ()}}
    assert set_of(sets["scope"], [1]) is None
    assert set_of(sets["scope"], [2]) == ()
    assert MarkPlan(sets).sets_of("other") is None
