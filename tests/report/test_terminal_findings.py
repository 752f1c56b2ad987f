"""Findings in the terminal: what several of them share is said once."""

from __future__ import annotations

import io

from rich.console import Console

from kvtool.report.terminal.findings import print_findings
from kvtool.results.finding import Finding, LoggedPlace, Rerun
from tests.made_results import finding as made


def printed(findings: list[Finding]) -> str:
    out = io.StringIO()
    print_findings(Console(file=out, width=200), findings, plain=False, show_text="none", header=("w.yaml",))
    return out.getvalue()


def test_the_gain_of_fixes_that_were_tried_together_is_said_once() -> None:
    def finding(group: str, line: int, *, gain: float, alone: float) -> Finding:
        rerun = Rerun(
            group_before=0.1,
            group_after=gain,
            total_before=0.2,
            total_after=0.7,
            group_alone=alone,
            group_predicted=None,
        )
        fix = f"move line {line} to the end"
        return Finding.of("KV101", "error", group, "a.md", line, 1, "It changes", 9, fix).model_copy(
            update={"rerun": rerun}
        )

    findings = [
        finding("desk", 1, gain=0.9, alone=0.3),
        finding("desk", 2, gain=0.9, alone=0.4),
        finding("shop", 3, gain=0.8, alone=0.8),
    ]
    helps = [line.strip() for line in printed(findings).splitlines() if "help:" in line]
    assert helps == [
        "help: move line 1 to the end: desk 10.0% -> 90.0%; only this one: 30.0%",
        "help: move line 2 to the end; only this one: 40.0%",
        "help: move line 3 to the end: shop 10.0% -> 80.0%",
    ]


def test_a_line_of_several_groups_is_told_once_with_the_figures_of_each() -> None:
    groups = [made(group=name, tokens_lost=tokens) for name, tokens in (("a", 900), ("b", 700), ("c", 500))]
    shown = printed(groups)
    assert shown.count("KV101") == 1
    assert "  also in b (700 tokens lost" in shown
    assert "  also in c (500 tokens lost" in shown
    others = [made(group=f"g{number}", tokens_lost=900 - number) for number in range(20)]
    assert "and in 11 more groups" in printed(others)


def test_another_group_that_loses_nothing_has_no_empty_brackets() -> None:
    shown = printed([made(group="a"), made(group="b", tokens_lost=0, points=0.0, ttft_seconds=None)])
    assert "  also in b: 40.0% -> 90.0%" in shown


def test_lines_of_two_logs_are_two_lines() -> None:
    place = LoggedPlace(record=2, part="messages[0] (system)", content=None, line=1)
    logs = [made(group=name, path=f"{name}.jsonl", in_source=False, line=2, logged=place) for name in "ab"]
    assert printed(logs).count("KV101") == 2


def test_every_kept_fix_is_shown_however_little_it_wins() -> None:
    costly = [made(line=line, tokens_lost=900 - line, rerun=None, fix=f"look at {line}") for line in range(1, 11)]
    fixed = [made(line=line, tokens_lost=9, fix=f"move {line}") for line in (11, 12)]
    shown = printed([*costly, *fixed])
    assert [f"look at {line}\n" in shown for line in range(1, 11)] == [True] * 6 + [False] * 4
    assert "help: move 11" in shown
    assert "help: move 12" in shown
    assert shown.index("look at 6") < shown.index("move 11")
    assert "4 more findings" in shown
    many = [made(line=line, fix=f"move {line}") for line in range(1, 13)]
    assert all(f"help: move {line}" in printed(many) for line in range(1, 13))
