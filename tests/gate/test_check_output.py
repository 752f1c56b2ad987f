"""`kvtool check`: what it prints, interrupted or not, and what it never prints."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
from functools import partial
from pathlib import Path

import pytest

from kvtool.report.terminal.check import print_check
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import cell_width, make_console
from tests.conftest import Command
from tests.files import write
from tests.gate.conftest import CALM, CONFIG, RULES, SUPPORT, result_of
from tests.golden import GoldenFiles
from tests.interrupting import interrupt_at

# Ctrl-C


@pytest.mark.parametrize("request_number", [3, 6, 8])
def test_an_interrupted_check_judges_nothing(
    request_number: int, check: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    interrupt_at(monkeypatch, request_number)
    write("p.j2", "Now: {{ now() }}\n{{ rules }}\n")
    gates = ("--min-hit-rate", "1", "--error-on", "info", "--update-baseline")
    result = result_of(check, "a.yaml", "b.yaml", "p.j2", "--no-advice", *gates)
    assert "p.j2" in {each.workload for each in result.verdict.checks}
    assert (result.verdict.outcome, result.verdict.exit_code) == ("partial", 130)
    assert {each.status for each in result.verdict.checks} == {"open"}
    assert "interrupted: the baseline was not written" in result.verdict.notices
    assert not Path("kvtool-baseline.json").exists()
    assert all(report.verdict == "partial" for report in result.reports)


def test_interrupted_before_anything_was_profiled(
    check: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    write("a.yaml", CALM)
    monkeypatch.setattr("kvtool.gate.checking._run", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # the command line makes 130 of it
        check("a.yaml")


# What is shown


def test_a_log_of_a_hosted_model_is_checked_by_the_rules_that_its_profile_names(
    check: Command, in_folder: Command
) -> None:
    messages = [{"role": "user", "content": RULES * 9}]
    write("a.jsonl", (json.dumps({"model": "gpt-4o", "messages": messages}) + "\n") * 3)
    for option in ([], ["--provider", "openai"]):
        heads = [
            run("a.jsonl", "--plain", *option)[1].splitlines()[0] for run in (check, partial(in_folder, "profile"))
        ]
        rules = [next(part for part in re.split(r" [|·] ", head) if "rules" in part) for head in heads]
        assert rules[0] == rules[1]
        assert "vllm" not in rules[0]


def test_logs_of_one_stream_are_named_and_given_to_the_next_command(check: Command, in_folder: Command) -> None:
    for name in ("a.jsonl", "b c.jsonl"):
        texts = [f"Now: 2026-03-01T10:{at:02}:00Z. {RULES * 3}" for at in range(5)]
        write(name, "".join(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in texts))
    code, out, _ = check("a.jsonl", "b c.jsonl", "--min-hit-rate", "0.9", "--plain")
    assert code == 1
    assert "a.jsonl +1" in out
    words = shlex.split(out.splitlines()[-1])
    assert words[-2:] == ["a.jsonl", "b c.jsonl"] or words[2:4] == ["a.jsonl", "b c.jsonl"]
    code, _, err = in_folder(*words[1:], "--dry-run")
    assert code == 0, err


def hostile(name: str) -> str:
    return SUPPORT.replace("name: support", f"name: {json.dumps(name)}")


@pytest.mark.parametrize("name", ["[/bold]x", "::error::x", "a/b%25", "groups, 日本語", "x" * 300, "<b>&amp;</b>"])
def test_hostile_names(name: str, check: Command) -> None:
    write("b.yaml", hostile(name))
    for arguments in (["--width", "60"], ["--plain"]):
        code, out, _ = check("b.yaml", "--no-advice", *arguments)
        assert code == 1
        assert "\x1b" not in out
        assert (name in out) or (len(name) > 100 and "xxx" in out) or " " in name
        assert not any(line.startswith("::") for line in out.splitlines())


def test_names_from_logs_are_sanitized(check: Command) -> None:
    log = [{"messages": [{"role": "user", "content": RULES + str(n)}], "metadata": {"x": 1}} for n in range(3)]
    write("a\x1b[31m.jsonl", "".join(json.dumps(each) + "\n" for each in log))
    code, out, _ = check("a\x1b[31m.jsonl", "--no-advice", "--min-hit-rate", "1")
    assert code == 1
    assert "\x1b" not in out
    assert "\\x1b[31m" in out


def test_no_prompt_leaves_without_being_asked(check: Command) -> None:
    write("b.yaml", SUPPORT.replace("Now: ", "Zq9: "))
    out = check("b.yaml", "-o", "r.json", "-o", "r.md", "-o", "r.xml", "-o", "r.sarif")[1]
    assert '"Zq9: {{ now }}. "' in out  # the line of the finding, in the terminal
    for path in ("r.json", "r.md", "r.xml", "r.sarif"):
        assert "Zq9: {{ now" not in Path(path).read_text(encoding="utf-8")
    assert "Zq9: {{ now" not in check("b.yaml", "--show-text", "none")[1]
    assert "Zq9: {{ now" in check("b.yaml", "--show-text", "snippet", "--json")[1]
    assert '"patch": "---' in check("b.yaml", "--show-text", "full", "--json")[1]


def test_only_one_thing_goes_to_standard_output(check: Command) -> None:
    write("b.yaml", SUPPORT)
    code, out, _ = check("b.yaml", "--no-advice", "-o", "json")
    assert (code, json.loads(out)["schema"]) == (1, "kvtool.check/1")


def test_plain_is_one_record_per_line(check: Command) -> None:
    write("b.yaml", SUPPORT)
    out = check("b.yaml", "--no-advice", "--plain")[1]
    assert re.search(
        r"^Workload b.yaml, group support: requests 8; predicted [\d.]+%; limit >=80.0%; .*status FAIL$",
        out,
        re.MULTILINE,
    )


def test_the_next_command_leads_somewhere(check: Command) -> None:
    write("prompts/s.md", "Now: {{ now }}.\n" + "These are the rules of the house. " * 9)
    write(
        "a.yaml",
        "version: 1\nvars: {now: {datetime: 1m}}\ngroups:\n  - {name: g, requests: 8, gate: {hit_rate: '80%'},\n"
        "     messages: [{role: system, file: prompts/s.md}, {role: user, text: hi}]}\n",
    )
    assert (
        "Next: preview the edit (add --write to apply it):\n  kvtool optimize a.yaml --allow P2" in check("a.yaml")[1]
    )
    write(
        "b.yaml",
        "version: 1\nvars: {topic: {choice: [amber, birch, cedar, delta, ember, fjord, grove]}}\ngroups:\n  - name: g\n"
        "    requests: 8\n    gate: {hit_rate: '80%'}\n    segments:\n"
        "      - {id: c, text: 'You are Ada, serve {{ topic }} with care and must never promise. '}\n"
        f"      - {{id: d, text: '{'These are the rules of the house. ' * 9}'}}\n      - {{id: q, text: ' hi'}}\n",
    )
    assert "Next: edit b.yaml:8, then run this again:\n  kvtool check b.yaml" in check("b.yaml")[1]


def rendered(result: CheckResult, width: int, encoding: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = make_console(file=stream, color="never", width=width)
    print_check(console, result, command=("check", "--baseline", "kvtool-baseline.json"))
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(encoding)


def test_the_report(check: Command, golden: GoldenFiles) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT.replace("Now: {{ now }}. ", ""))
    check("--update-baseline")
    write("b.yaml", SUPPORT)
    result = result_of(check)
    for width in (60, 80, 120):
        for encoding in ("utf-8", "ascii"):
            shown = rendered(result, width, encoding)
            assert max(map(cell_width, shown.splitlines())) <= width
            golden(f"check/failing-{width}-{encoding}.txt", shown)


def test_a_green_report_is_short(check: Command, golden: GoldenFiles) -> None:
    write("kvtool.toml", CONFIG.replace("50%", "20%"))
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT.replace("80%", "1%"))
    check("--update-baseline", "--no-advice")
    golden("check/passing-80.txt", rendered(result_of(check, "--no-advice"), 80, "utf-8"))


def test_notices_and_a_required_baseline(check: Command, golden: GoldenFiles) -> None:
    write("a.yaml", CALM)
    check("a.yaml", "--update-baseline", "--no-advice")
    result = result_of(check, "a.yaml", "--no-advice", "-b", "32")
    golden("check/other-settings-80.txt", rendered(result, 80, "utf-8"))
    result = result_of(check, "a.yaml", "--no-advice", "-b", "32", "--require-baseline")
    golden("check/other-settings-required-80.txt", rendered(result, 80, "utf-8"))
