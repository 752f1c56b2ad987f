"""Gains by rules that reports contradict are estimates, and the difference comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvtool.profiler.reported.rule_agreement import RuleDifference, with_estimates
from kvtool.report.views.findings import gain_of
from kvtool.results.finding import Finding, Rerun
from tests.conftest import Command
from tests.profiler.optimize.hosted_logs import HostedLog

RERUN = Rerun(
    group_before=0.4, group_after=0.9, total_before=0.4, total_after=0.9, group_alone=None, group_predicted=None
)


def finding(group: str) -> Finding:
    found = Finding.of("KV101", "error", group, "log.jsonl", 2, 1, "it changes", 900, "move this line")
    return found.model_copy(update={"rerun": RERUN})


def test_only_a_difference_of_more_than_five_points_makes_an_estimate() -> None:
    for reported, large in [(0.34, True), (0.4, False), (0.44, False), (0.46, True)]:
        difference = RuleDifference(reported, 0.4)
        assert difference.is_large is large
        told, other = with_estimates([finding("a"), finding("b")], {"a": difference} if large else {})
        assert (told.estimate, other.estimate) == (large, False)
        assert told.fix.startswith("reported ") is large
        assert gain_of(told).endswith("(estimate)" if large else "(verified)")


def logged(reads: list[int]) -> str:
    """A log of GPT-4o with a clock among its rules, in which the provider reports these reads."""
    records = []
    for body, cached in zip(HostedLog("openai", 5, (), {"time": 60}, sessions=len(reads)).bodies(), reads, strict=True):
        details: dict[str, Any] = {"cached_tokens": cached}
        tokens = len(json.dumps(body["messages"])) // 5
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "prompt_tokens_details": details}
        records.append({"timestamp": body.pop("timestamp"), "request": body, "response": {"usage": usage}})
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return "log.jsonl"


def test_optimize_advises_nothing_where_reads_differ_from_the_rules(in_folder: Command) -> None:
    _, out, err = in_folder("optimize", logged([0] * 12), "--allow", "P2", "-o", "better.jsonl")
    assert err == "kvtool: no edit was tried, so better.jsonl was not written\n"
    lines = out.splitlines()
    first = next(at for at, line in enumerate(lines) if "reported by the provider" in line)
    assert lines[first].startswith("  Hit rate     0.0%")
    assert "by the published rules" in lines[first + 1]
    assert "kvtool advises no change of group log from predictions" in " ".join(out.split())
    assert "Optimized" not in out
    assert "verified" not in out
