"""Results made by hand: small `CheckResult` objects for tests of formats, with figures that fit together.

`report()`, `group()`, `finding()` and `check()` take any field by name; `CASES` are whole results, by name.
"""

from __future__ import annotations

from typing import Any

from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding, Rerun, Snippet
from kvtool.results.report import Group, Report
from kvtool.results.verdict import Check, Outcome, Verdict

EXIT_CODES: dict[Outcome, int] = {"pass": 0, "warn": 0, "fail": 1, "partial": 130, "none": 0}


def group(name: str = "support", hit: int = 400, reachable: int = 900, tokens: int = 1000, **fields: Any) -> Group:
    """A group that hit `hit` of `tokens` tokens; what it could have hit is blocked, the rest is seen once."""
    fates = {"hit": hit, "blocked": reachable - hit, "unique": tokens - reachable}
    values = {
        "name": name,
        "requests": 10,
        "prompt_tokens": tokens,
        "hit_tokens": hit,
        "hit_rate": hit / tokens,
        "mean_request_hit_rate": hit / tokens,
        "reachable_tokens": reachable,
        "reachable_hit_rate": reachable / tokens,
        "predicted_ttft": None,
        "fates": {name: count for name, count in fates.items() if count},
        "alignment": {"shared_prefix_tokens": 90, "whole_blocks": 5, "left_over_tokens": 10, "lost_tokens": 0},
        "causes_left_out": {"causes": 0, "blame_tokens": 0, "share_tokens": 0},
        "turns": [],
    }
    return Group.model_validate(values | fields)


def report(*groups: Group, workload: str = "support.yaml", **fields: Any) -> Report:
    """A report on these groups."""
    groups = groups or (group(),)
    tokens, hit = sum(one.prompt_tokens for one in groups), sum(one.hit_tokens for one in groups)
    reachable = sum(one.reachable_tokens for one in groups)
    names = dict.fromkeys(name for one in groups for name in one.fates)
    values = {
        "schema": "kvtool.report/1",
        "config": {"input": workload, "block_size": 16, "rules": "vllm", "seed": 0, "tokenizer": "tekken"},
        "notes": [],
        "partial": False,
        "totals": {
            "requests": sum(one.requests for one in groups),
            "prompt_tokens": tokens,
            "hit_tokens": hit,
            "hit_rate": hit / tokens,
            "mean_request_hit_rate": hit / tokens,
            "reachable_tokens": reachable,
            "reachable_hit_rate": reachable / tokens,
            "evictions": 0,
            "preemptions": 0,
            "refused_requests": 0,
            "first_refusal": None,
            "skipped_lines": 0,
        },
        "fates": {name: sum(one.fates.get(name, 0) for one in groups) for name in names},
        "absent_fates": [],
        "sums": None,
        "causes": [],
        "kv_cache": {
            "block_size": 16,
            "bytes_per_block": 1024,
            "filled_blocks": tokens // 16,
            "peak_used_blocks": tokens // 16,
            "reused_bytes": hit // 16 * 1024,
        },
        "kv_cache_dtype": None,
        "groups": list(groups),
        "ttft": {"measured": None, "predicted": {"on": {"p50": 0.05, "p90": 0.09, "p99": 0.1}, "off": None}},
        "decode": None,
        "boundaries": [],
        "findings": [],
        "gates": [],
        "verdict": "none",
    }
    return Report.model_validate(values | fields)


def finding(code: str = "KV101", **fields: Any) -> Finding:
    """A timestamp in a prompt file, with a fix that was proven."""
    values = {
        "code": code,
        "severity": "error",
        "group": "support",
        "path": "prompts/support.md",
        "line": 3,
        "column": 6,
        "width": 9,
        "in_source": True,
        "message": "variable `now` (timestamp) stops reuse of the text after it. It has 10 values and blocks 9 requests, "
        "first at token 37, block 2",
        "tokens_lost": 500,
        "points": 0.5,
        "share_tokens": None,
        "ttft_seconds": 0.02,
        "confidence": 1.0,
        "fix": "move this line to the end of the last message",
        "tier": "P2",
        "rerun": Rerun(
            group_before=0.4,
            group_after=0.9,
            total_before=0.4,
            total_after=0.9,
            group_alone=None,
            group_predicted=None,
        ),
        "tried": None,
        "warnings": [],
    }
    return Finding.model_validate(values | fields)


def check(status: str = "fail", **fields: Any) -> Check:
    """A demand of a hit rate of 80 %."""
    values = {
        "id": "support.yaml/support/hit_rate",
        "code": "KV401",
        "kind": "hit_rate",
        "workload": "support.yaml",
        "group": "support",
        "level": "warn" if status == "warn" else "error",
        "status": status,
        "limit": 0.8,
        "actual": 0.4,
        "message": "support hits 40.0%, at least 80.0% is demanded",
        "path": "support.yaml",
        "line": 12,
        "column": 22,
    }
    return Check.model_validate(values | fields)


def result(
    outcome: Outcome, sentence: str, *reports: Report, checks: tuple[Check, ...] = (), **fields: Any
) -> CheckResult:
    """A finished check; the findings are those of the reports, unless `findings` says otherwise."""
    notices = fields.pop("notices", [])
    found = [one for each in reports for one in each.findings]
    values = {
        "schema": "kvtool.check/1",
        "version": "0.1.0",
        "verdict": Verdict(
            outcome=outcome, exit_code=EXIT_CODES[outcome], sentence=sentence, checks=list(checks), notices=notices
        ),
        "reports": list(reports),
        "findings": found,
        "ignored": 0,
    }
    return CheckResult.model_validate(values | fields)


def passing() -> CheckResult:
    """Two workloads that do what is demanded of them."""
    met = check("pass", actual=0.9, message="support hits 90.0%, at least 80.0% is demanded")
    other = check(
        "pass",
        id="rag.yaml/hit_rate",
        workload="rag.yaml",
        group=None,
        path="kvtool.toml",
        line=4,
        column=1,
        actual=0.85,
    )
    good = report(group(hit=900))
    rag = report(group("rag", hit=850, reachable=870), workload="rag.yaml")
    return result("pass", "PASS 2 checks", good, rag, checks=(met, other))


def failing() -> CheckResult:
    """A gate that fails, and what is to blame."""
    evicted = finding(
        "KV301",
        severity="warning",
        group="rag",
        path="support.yaml",
        line=0,
        column=0,
        width=1,
        in_source=False,
        message="evicted before reuse",
        tokens_lost=60,
        points=0.03,
        ttft_seconds=None,
        fix="raise --capacity",
        tier="P0",
        rerun=None,
    )
    log = finding(
        "KV104",
        severity="info",
        group="rag",
        path="logs/rag.jsonl",
        line=7,
        column=31,
        width=36,
        in_source=False,
        message="UUID stops reuse of the text after it. It has 10 values and blocks 9 requests, first at token 3, block 0",
        tokens_lost=20,
        points=0.01,
        fix="send the same text each time, or move it after the shared text",
        tier=None,
        rerun=None,
        warnings=["text that follows refers to it"],
    )
    rag = group("rag", hit=870, reachable=880)
    won = Rerun(
        group_before=0.4,
        group_after=0.9,
        total_before=0.635,
        total_after=0.885,
        group_alone=0.7,
        group_predicted=0.9,
    )
    blamed = finding(rerun=won)
    return result(
        "fail",
        "FAIL 1 of 2 checks (support)",
        report(group(), rag, findings=[blamed, evicted, log]),
        checks=(
            check(),
            check("pass", id="support.yaml/rag/hit_rate", group="rag", actual=0.87, line=20),
        ),
        ignored=2,
    )


def quoting() -> CheckResult:
    """The same with prompt text, as `--show-text` asks for it."""
    shown = finding(
        snippet=Snippet(text="Now: {{ now }}. You answer for Quillmark.", start=5, stop=14),
        patch="--- prompts/support.md\n+++ prompts/support.md\n@@ -3 +3 @@\n-Now: {{ now }}\n+You are ```an agent```\n",
    )
    return result("fail", "FAIL 1 check (support)", report(findings=[shown]), checks=(check(),))


def warn() -> CheckResult:
    """A demand at the level `warn` that is not met."""
    return result("warn", "PASS with 1 warning (support)", report(findings=[finding()]), checks=(check("warn"),))


def partial() -> CheckResult:
    """Interrupted: nothing is judged."""
    unfinished = report(partial=True, verdict="partial")
    return result("partial", "PARTIAL interrupted, no verdict", unfinished, checks=(check("open", actual=None),))


def baseline_drop() -> CheckResult:
    """Worse than the baseline, and a workload that the baseline does not have."""
    fell = check(
        id="support.yaml/baseline",
        code="KV405",
        kind="baseline",
        group=None,
        limit=0.869,
        actual=0.62,
        message="the hit rate fell from 87.9% to 62.0%, by more than 1.0 points",
        path="support.yaml",
        line=0,
        column=0,
    )
    return result(
        "fail",
        "FAIL 1 check (support.yaml against the baseline)",
        report(group(hit=620)),
        report(group("rag", hit=850, reachable=870), workload="rag.yaml"),
        checks=(fell,),
        notices=["rag.yaml is not in the baseline: kvtool check --update-baseline adds it"],
    )


def lint_only() -> CheckResult:
    """Files that were only read."""
    seen = finding(
        group="",
        path="app/prompt.py",
        line=14,
        column=9,
        width=12,
        message="`datetime.now()` (timestamp) stands before about 1,200 tokens (75 blocks) of constant text",
        tokens_lost=1200,
        points=0.0,
        ttft_seconds=None,
        rerun=None,
    )
    unused = finding(
        "KV002",
        severity="warning",
        group="",
        path="app/prompt.py",
        line=20,
        message="unused ignore: KV101 was not found here",
        tokens_lost=0,
        points=0.0,
        ttft_seconds=None,
        fix="remove the comment, or the code from it",
        tier=None,
        rerun=None,
    )
    return result("fail", "FAIL 1 error", findings=[seen, unused], ignored=1)


HOSTILE = (
    "::set-output name=x::y\r\n##[error]|`</td><script>alert(1)</script><!--\x1b[31m\x1b]8;;http://a.example\x07@octocat "
    "#123 [x](javascript:y) ![i](http://a.example/i.png) www.a.example ]]>&amp;\x00\ufffe\ud800\u202etxt\u2066 **b** \\| %0A"
)
"""What each format must not take for its own: commands, markup, control characters, references, directions."""


def hostile() -> CheckResult:
    """Names, messages and paths that imitate everything."""
    bad = finding(
        group=HOSTILE,
        path=f"prompts/{HOSTILE}.md",
        message=f"variable `{HOSTILE}` (timestamp)",
        fix=HOSTILE,
        warnings=[HOSTILE],
        snippet=Snippet(text=HOSTILE, start=2, stop=30),
        patch=f"--- a\n+++ a\n@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n",
    )
    outside = finding(path="/etc/prompts/../passwd", line=1, column=1, message="text that varies")
    above = finding(path="../elsewhere.md", line=1, column=1, message="text that varies")
    refused = check(
        id=f"{HOSTILE}/{HOSTILE}/hit_rate",
        workload=HOSTILE,
        group=HOSTILE,
        path=HOSTILE,
        line=1,
        column=1,
        message=f"{HOSTILE} hits 40.0%, at least 80.0% is demanded",
    )
    odd = report(group(HOSTILE), workload=HOSTILE, notes=[HOSTILE], findings=[bad, outside, above])
    return result("fail", f"FAIL 1 check ({HOSTILE})", odd, checks=(refused,), notices=[HOSTILE])


CASES = {make.__name__: make for make in (passing, failing, quoting, warn, partial, baseline_drop, lint_only, hostile)}
"""Whole results by name; call one to make it."""
