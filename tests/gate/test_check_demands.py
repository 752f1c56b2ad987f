"""`kvtool check`: demands from files and flags."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Command
from tests.files import write
from tests.gate.conftest import CALM, CONFIG, RULES, SUPPORT, last_line, result_of


def test_flags_take_the_place_of_files(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    arguments = ("a.yaml", "--no-advice")
    assert check(*arguments)[0] == 0
    code, out, _ = check(*arguments, "--min-hit-rate", "100%")
    assert code == 1
    assert "the required 100.0% (--min-hit-rate)" in " ".join(out.split())
    assert "kvtool.toml:4" not in out
    out = check(*arguments, "--no-config")[1]
    assert (last_line(out), "--min-hit-rate 0.8\n" in out) == ("NO GATE: no limit is set", True)


def test_the_stricter_of_two_files_holds(check: Command) -> None:
    write("b.yaml", SUPPORT.replace("80%", "1%"))
    write("kvtool.toml", 'workloads = ["b.yaml"]\n[gate.groups.support]\nhit_rate = 0.9\n')
    (found,) = result_of(check, "--no-advice").verdict.checks
    assert (found.id, found.status, found.path) == ("b.yaml/support/hit_rate", "fail", "kvtool.toml")
    write("kvtool.toml", 'workloads = ["b.yaml"]\n[gate.groups.support]\nhit_rate = 0\n')
    (found,) = result_of(check, "--no-advice").verdict.checks
    assert (found.status, found.path, found.limit) == ("pass", "b.yaml", 0.01)


def test_a_warning_does_not_fail(check: Command) -> None:
    write("b.yaml", SUPPORT.replace('">=80%"', '">=80%", level: warn'))
    code, out, _ = check("b.yaml", "--no-advice")
    assert code == 0
    assert last_line(out).startswith("WARN 1 gate (support ")
    assert "KV401 warning: support of b.yaml" in out


def test_findings_without_those_that_are_ignored(check: Command) -> None:
    write("b.yaml", SUPPORT)
    code, out, _ = check("b.yaml", "--error-on", "KV101")
    assert code == 1
    assert "b.yaml: KV101" not in out
    assert "KV405 error: all requests of b.yaml: 1 finding of KV101" in out
    ignored = SUPPORT.replace('{{ now }}. "}', '{{ now }}. "}  # kvtool: ignore[KV101] wanted')
    assert ignored != SUPPORT
    write("b.yaml", ignored)
    result = result_of(check, "b.yaml", "--error-on", "KV101")
    assert result.ignored == 1
    assert {each.id: each.status for each in result.verdict.checks}["b.yaml/findings/KV101"] == "pass"
    assert "KV101" not in {found.code for found in result.findings}


def test_templates_and_python_are_read_and_not_run(check: Command) -> None:
    write("p.j2", "Now: {{ now }}. " + RULES)
    write("boom.py", "raise SystemExit('executed')\n")
    code, out, _ = check("p.j2", "boom.py", "--error-on", "info")
    assert code == 1
    assert "KV405 error: p.j2: 1 finding with severity info (KV101)" in out
    assert "p.j2:1:6: KV101 error" in out
    assert last_line(out) == "FAIL 1 gate (p.j2: 1 finding of info)"
    code, out, _ = check("boom.py", "--error-on", "info")
    assert (code, last_line(out)) == (0, "PASS 1 gate")


def test_a_verdict_names_errors_that_no_gate_is_about(check: Command) -> None:
    write("p.j2", "Now: {{ now }}. " + RULES)
    code, out, _ = check("p.j2")
    assert (code, last_line(out)) == (0, "NO GATE: no limit is set, 1 error allowed: KV101 at p.j2:1")
    code, out, _ = check("p.j2", "--error-on", "KV2")
    assert (code, last_line(out)) == (0, "PASS 1 gate, 1 error allowed: KV101 at p.j2:1")
    write("kvtool.toml", '[gate]\nfindings = {KV101 = "off"}\n')
    assert "allowed" not in check("p.j2")[1], "somebody decided that"
    write("kvtool.toml", '[check]\nerror_on = ["KV2", "error"]\n')
    code, out, _ = check("p.j2")
    assert code == 1
    assert "p.j2: 1 finding with severity error (KV101); none is allowed (kvtool.toml:2)" in " ".join(out.split())
    assert check("p.j2", "--error-on", "KV2")[0] == 0, "a flag goes before the file"


def test_predicted_times_of_a_group(check: Command) -> None:
    write("b.yaml", SUPPORT.replace('{hit_rate: ">=80%"}', "{ttft_p99: 1us}").replace("1us", "0.001ms"))
    result = result_of(check, "b.yaml", "--no-advice")
    (found,) = result.verdict.checks
    assert (found.code, found.status, found.group) == ("KV404", "fail", "support")
    times = {group.name: group.predicted_ttft for group in result.reports[0].groups}
    assert times["support"] is not None
    assert times["rag"] is not None
    assert found.actual == times["support"].p99 > times["rag"].p50


def test_a_run_that_ends_before_a_group_leaves_its_gate_open(check: Command) -> None:
    write("b.yaml", SUPPORT.replace("  - name: rag", "  - name: rag\n    gate: {hit_rate: 0.5}"))
    result = result_of(check, "b.yaml", "--no-advice", "-n", "2")
    assert {each.id: each.status for each in result.verdict.checks} == {
        "b.yaml/support/hit_rate": "fail",
        "b.yaml/rag/hit_rate": "open",
    }


def test_a_group_of_which_nothing_fits_fails_its_gates_and_its_baseline(check: Command) -> None:
    write("kvtool.toml", 'workloads = ["b.yaml"]\n[gate.groups.support]\nreachable_gap = 0\nlevel = "warn"\n')
    write("b.yaml", SUPPORT)
    check("--no-advice", "--update-baseline")
    long = SUPPORT.replace(RULES, RULES * 3, 1)
    write("b.yaml", long)
    result = result_of(check, "--no-advice", "--max-drop", "1", "--max-model-len", "250")  # the baseline's key has it
    assert [(each.id, each.status) for each in result.verdict.checks] == [
        ("b.yaml/support/hit_rate", "fail"),
        ("b.yaml/support/reachable_gap", "warn"),
    ]
    write("b.yaml", SUPPORT)
    check("--no-advice", "--update-baseline", "--max-model-len", "250")
    write("b.yaml", long)
    result = result_of(check, "--no-advice", "--max-drop", "1", "--max-model-len", "250")
    fell = {each.group: each for each in result.verdict.checks if each.kind == "baseline"}
    assert {group: each.status for group, each in fell.items()} == {None: "pass", "support": "warn", "rag": "pass"}
    assert "no request was profiled" in fell["support"].message
    check("--no-advice", "--update-baseline", "--max-model-len", "250")
    result = result_of(check, "--no-advice", "--max-model-len", "250")  # as it was recorded
    assert [each.id for each in result.verdict.checks if each.status == "fail"] == ["b.yaml/support/hit_rate"]


def test_a_gate_judges_the_requests_that_it_covers_and_the_others_are_named(check: Command) -> None:
    """The own model's request was read from the cache: in the rate of all three, it would hide the others' misses."""
    usage = {"prompt_tokens": 2000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    read = usage | {"prompt_tokens_details": {"cached_tokens": 2000}}
    messages = [{"role": "user", "content": "word " * 2000}]
    rows = [
        {
            "request": {"model": model, "messages": messages},
            "response": {"model": model, "choices": [], "usage": read if at == 1 else usage},
            "timestamp": 1_780_000_000 + at,
        }
        for at, model in enumerate(("gpt-4o", "my-own-model", "gpt-4o"))
    ]
    write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = check("a.jsonl", "--no-advice", "--max-cost-per-1k", "1")
    assert code == 1
    head, row = (line.split() for line in out.splitlines()[2:4])
    assert head[4:7] == ["cost", "of", "1,000"]
    assert row[-2:] == ["(<=$1.00)", "FAIL"]
    said = " ".join(out.split())
    assert "a.jsonl: no gate covers 1 request not predicted: " in said
    command = said.partition("Profile them alone: kvtool ")[2].partition(" FAIL 1")[0].split()
    assert command[:2] == ["profile", "a.jsonl"]
    assert command[-4:] == ["--group-by", "request.model", "--group", "my-own-model"]
    code, out, _ = check("a.jsonl", "--no-advice", "--min-hit-rate", "30%")
    assert code == 1
    said = " ".join(out.split())
    assert "2 of 3 requests of a.jsonl: reported hit rate 0.0%" in said
    assert said.partition("FAIL 1 gate ")[2].startswith("(2 of 3 requests 0.0% < 30.0%)")


@pytest.mark.parametrize(("limit", "zero"), [("0%", True), ("0.1%", False)])
def test_a_limit_that_cannot_fail_is_named_once(limit: str, zero: bool, check: Command) -> None:
    """One limit of the configuration applies to two workloads: two gates at one place, as the verdict counts them."""
    write("a.yaml", CALM)
    write("b.yaml", CALM)
    write("kvtool.toml", f'workloads = ["a.yaml", "b.yaml"]\n\n[gate]\nhit_rate = ">={limit}"\n')
    said = [each for each in result_of(check, "--no-advice").verdict.notices if "cannot fail" in each]
    assert [each.partition(". ")[0] for each in said] == ["2 gates cannot fail (limit 0%): kvtool.toml:4:12"] * zero


def test_a_limit_that_cannot_fail_beside_other_limits_of_all_groups(check: Command) -> None:
    """Their times have limits, their hit rates none: the notice names the one that reuses least."""
    write(
        "a.yaml",
        CALM.replace("groups:\n", "groups:\n  - {name: least, requests: 2, messages: [{role: user, text: Hi}]}\n"),
    )
    names = [group.name for group in result_of(check, "a.yaml", "--no-advice").reports[0].groups]
    groups = "".join(f"[gate.groups.{name}]\nttft_p99 = '100s'\n" for name in names)
    write("kvtool.toml", f"workloads = ['a.yaml']\n[gate]\nhit_rate = '>=0%'\n{groups}")
    (said,) = [each for each in result_of(check, "--no-advice").verdict.notices if "cannot fail" in each]
    assert "Fix the prompts of least in " in said


@pytest.mark.parametrize(
    ("gate", "sentence"),
    [
        ("hit_rate = '>=0%'", "PASS, 1 gate cannot fail (limit 0%)"),
        ("hit_rate = '>=1%'", "PASS 1 gate"),
        ("hit_rate = '>=0%'\nfindings = {KV301 = 'error'}", "PASS 1 gate, 1 more cannot fail (limit 0%)"),
    ],
)
def test_the_verdict_counts_no_gate_that_cannot_fail(gate: str, sentence: str, check: Command) -> None:
    write("a.yaml", CALM)
    write("kvtool.toml", f"workloads = ['a.yaml']\n[gate]\n{gate}\n")
    verdict = result_of(check).verdict
    assert (verdict.outcome, verdict.sentence) == ("pass", sentence)
