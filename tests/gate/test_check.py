"""`kvtool check`: inputs, demands and baselines from files and flags to one verdict."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.errors import KvtoolError, Place
from kvtool.gate.opened import Problems, in_order
from kvtool.report.terminal.check import print_check
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import make_console
from kvtool.text.tokens import tokenizer
from kvtool.text.tokens.tokenizer import Tokenizer
from tests.conftest import Command
from tests.files import widest, write
from tests.golden import GoldenFiles
from tests.interrupting import interrupt_at

RULES = "You are the agent of a shop; be short, be kind, be right. Answer from the document, and quote its line. "
SUPPORT = f"""\
version: 1
vars:
  now: {{datetime: 1m}}
  n: {{counter: 1}}
groups:
  - name: support
    requests: 8
    segments:
      - {{id: clock, text: "Now: {{{{ now }}}}. "}}
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
    gate: {{hit_rate: ">=80%"}}
  - name: rag
    requests: 4
    segments:
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
"""
CALM = f"""\
version: 1
vars:
  n: {{counter: 1}}
groups:
  - name: faq
    requests: 6
    segments:
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
"""
CONFIG = """\
workloads = ["*.yaml"]

[gate]
hit_rate = "50%"

[gate.groups.rag]
hit_rate = 0.5
reachable_gap = "1%"
ttft_p90 = "1s"
"""


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> Command:
    """Runs `kvtool check` in an empty folder with a tokenizer of one token for each byte, `tokenizer.json`."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(bytes_json, "tokenizer.json")

    def start(*arguments: str) -> tuple[int, str, str]:
        code = run(["check", *arguments, *([] if "-t" in arguments else ["-t", "tokenizer.json"])])
        said = capsys.readouterr()
        return code, said.out, said.err

    return start


def result_of(check: Command, *arguments: str) -> CheckResult:
    """The result as its JSON has it."""
    code, out, _ = check("--json", *arguments)
    result = CheckResult.model_validate_json(out)
    assert result.verdict.exit_code == code
    return result


def last_line(out: str) -> str:
    return next(line for line in out.splitlines() if re.match("PASS|FAIL|WARN|NO GATE|PARTIAL", line))


# Inputs


def test_workloads_of_the_configuration(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    result = result_of(check, "--no-advice")
    assert [report.workload for report in result.reports] == ["a.yaml", "b.yaml"]
    assert result.verdict.outcome == "fail"
    assert {check.id: check.status for check in result.verdict.checks} == {
        "a.yaml/hit_rate": "pass",
        "b.yaml/hit_rate": "fail",
        "b.yaml/support/hit_rate": "fail",
        "b.yaml/rag/hit_rate": "pass",
        "b.yaml/rag/reachable_gap": "pass",
        "b.yaml/rag/ttft_p90": "pass",
    }
    places = {check.id: f"{check.path}:{check.line}" for check in result.verdict.checks}
    assert places["b.yaml/hit_rate"] == "kvtool.toml:4"
    assert places["b.yaml/support/hit_rate"] == "b.yaml:12"
    assert places["b.yaml/rag/ttft_p90"] == "kvtool.toml:9"
    for report in result.reports:
        assert report.gates == [check for check in result.verdict.checks if check.workload == report.workload]
        assert report.verdict == ("pass" if report.workload == "a.yaml" else "fail")


def test_a_part_of_the_workloads(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    code, out, _ = check("a.yaml", "--no-advice")
    assert (code, last_line(out)) == (0, "PASS 1 gate")  # that `rag` is in the other one is no mistake
    code, out, _ = check("-g", "rag", "--no-advice")
    assert (code, last_line(out)) == (0, "PASS 4 gates")
    write("bad.yaml", "version: 2")
    assert "no workload has" not in check("a.yaml", "bad.yaml", "-g", "rag")[2]  # perhaps the other one has
    Path("bad.yaml").unlink()
    code, out, _ = check("-g", "support", "--no-advice")
    assert (code, "no workload has a group" in out) == (1, False)  # that `rag` is left out is none either
    check("--no-advice", "--update-baseline")
    assert "a.yaml: taken out" not in check("-g", "rag", "--no-advice", "--update-baseline")[1]
    assert "no longer checked" not in check("-g", "rag", "--no-advice")[1]
    assert check("-g", "ragg")[0::2] == (
        2,
        "error: --group: no workload has a group `ragg`\n  help: did you mean `rag`?\n",
    )


def test_nothing_to_check(check: Command) -> None:
    code, out, err = check()
    assert (code, out) == (2, "")
    assert "no INPUT was given" in err
    assert "kvtool init" in err
    write("kvtool.toml", "[gate]\nhit_rate = 0.5\n")
    assert "kvtool.toml names no `workloads`" in check()[2]
    write("kvtool.toml", 'workloads = ["none/*.yaml"]\n')
    code, _, err = check()
    assert code == 2
    assert "kvtool.toml:1:14: no file matches `none/*.yaml`" in err


def test_a_group_that_no_workload_has(check: Command) -> None:
    write("kvtool.toml", CONFIG.replace("groups.rag", "groups.ragg"))
    write("b.yaml", SUPPORT)
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "kvtool.toml:6:14: no workload has a group `ragg`" in err
    assert "did you mean `rag`?" in err


def test_groups_of_logs_are_known_when_they_were_read(check: Command) -> None:
    write("a.txt", RULES + "one")
    write("b.txt", RULES + "two")
    write(
        "kvtool.toml",
        'workloads = ["*.txt"]\n[gate.groups.prompts]\nhit_rate = 0.4\n',
    )
    code, out, _ = check("--no-advice")
    assert (code, last_line(out)) == (0, "PASS 1 gate")
    write("kvtool.toml", 'workloads = ["*.txt"]\n[gate.groups.c]\nhit_rate = 0.5\n')
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "no workload has a group `c`" in err


def test_all_mistakes_at_once_and_nothing_half_judged(check: Command) -> None:
    write("good.yaml", SUPPORT)
    write("bad.yaml", SUPPORT.replace("requests", "reqests"))
    write("log.jsonl", '{"messages": [{"role": "user", "content": "a"}]}\nnot json\n')
    write("base.json", "{")
    code, out, err = check(
        *("good.yaml", "bad.yaml", "none.yaml", "none.md", "log.jsonl", "--baseline", "base.json", "--fail-on", "KV9"),
        "--no-advice",
    )
    assert (code, out) == (2, "")
    for told in ("unknown key `reqests`", "`none.yaml`", "`none.md`", "base.json", "--fail-on: `KV9`"):
        assert told in err
    code, out, err = check("good.yaml", "log.jsonl", "--no-advice")  # this one shows only when it is read
    assert code == 2
    assert "KV204" in out, "what is found in the others is not hidden"
    assert not {"PASS", "FAIL", "NO GATE"} & set(out.split()), "and nothing is judged"
    assert "log.jsonl:2" in err


def test_one_bad_input_hides_no_finding_of_the_others(check: Command) -> None:
    chats = [
        {
            "messages": [
                {"role": "system", "content": f"Now: 10:{number:02d}\n{RULES}"},
                {"role": "user", "content": "Hi"},
            ]
        }
        for number in range(6)
    ]
    write("good.jsonl", "".join(json.dumps({"id": "same", **one}) + "\n" for one in chats))
    write("again.jsonl", "".join(json.dumps({"id": "same", **one}) + "\n" for one in chats))
    write("bad.jsonl", json.dumps(chats[0]) + "\n{nonsense\n")
    write("p.j2", "Now: {{ now() }}\n" + RULES)
    write("broken.j2", "{% if %}")
    write("broken.py", "def (\n")
    code, out, err = check(
        *("bad.jsonl", "good.jsonl", "again.jsonl", "missing.jsonl", "p.j2", "broken.j2", "broken.py", "missing.md")
    )
    assert code == 2
    assert "again.jsonl:2 · messages[0] (system), line 1: KV101 error" in out
    assert "p.j2:1:6: KV101" in out
    assert "PASS" not in out
    assert "NO GATE" not in out
    for told in ("bad.jsonl:2:2", "missing.jsonl", "broken.j2:1:1", "broken.py:1:5", "missing.md"):
        assert err.count(told) >= 1, told
    code, out, err = check("p.j2", "broken.py", "--json")
    assert (code, out) == (2, ""), "a document without a verdict is none"
    code, out, _ = check("good.jsonl", "again.jsonl", "p.j2")
    assert (code, last_line(out)) == (0, "NO GATE: no limit is set")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--max-drop", "-1"], "--max-drop"),
        (["--min-hit-rate", "80"], "--min-hit-rate"),
        (["--requests", "0"], "--requests"),
        (["-o", "x.bogus"], "--output x.bogus"),
        (["-o", "w.yaml"], "w.yaml"),
        (["--baseline", "b.json", "-o", "b.json"], "is the baseline, too"),
    ],
)
def test_usage_errors(arguments: list[str], told: str, check: Command) -> None:
    write("w.yaml", SUPPORT)
    code, out, err = check("w.yaml", *arguments)
    assert (code, out) == (2, "")
    assert told in err


def test_the_order_of_inputs_and_how_they_are_written_do_not_matter(check: Command, tmp_path: Path) -> None:
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    write("x.txt", RULES + "one")
    write("y.txt", RULES + "two")
    paths = ["a.yaml", "b.yaml", "x.txt", "y.txt"]
    first = check("--json", "--no-advice", *paths)
    assert first == check("--json", "--no-advice", *reversed(paths), "./a.yaml", str(tmp_path / "b.yaml"))
    assert in_order(["./b", str(tmp_path / "a"), "b", "c/../b"]) == ["a", "b"]


def test_the_same_on_any_machine(check: Command, tmp_path: Path) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    check("--update-baseline", "--no-advice")
    printed = []
    for number in range(2):
        folder = tmp_path / f"copy{number}"
        shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("copy*"))
        command = [sys.executable, "-m", "kvtool", "check", "--json", "-t", "tokenizer.json"]
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": ("UTC", "Asia/Tokyo")[number]}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=60, check=False)
        assert done.returncode == 1
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert str(tmp_path).encode() not in printed[0]


def test_the_same_from_any_folder_and_however_the_configuration_is_named(
    check: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(".git/HEAD", "")
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("in/b.yaml", SUPPORT)
    write("kvtool.toml", CONFIG.replace("*.yaml", "**/*.yaml"))
    here = str(tmp_path)
    first = check("--json", "--no-advice")
    for name in ("kvtool.toml", "./kvtool.toml", "in/../kvtool.toml", f"{here}/kvtool.toml"):
        assert check("--json", "--no-advice", "-c", name) == first
    outputs = {name: check("-o", name, "--no-advice")[1] for name in ("sarif", "gitlab")}
    monkeypatch.chdir("in")
    tokenizer = ("-t", "../tokenizer.json")
    code, out, _ = check(*tokenizer, "--json", "--no-advice")
    assert (code, here in out) == (1, False)
    for arguments in (("-c", "../kvtool.toml"), ("-c", f"{here}/kvtool.toml"), (f"{here}/a.yaml", "b.yaml")):
        assert check(*tokenizer, "--json", "--no-advice", *arguments)[:2] == (code, out)
    for name, text in outputs.items():  # what platforms know results by
        again = check(*tokenizer, "-o", name, "--no-advice")[1]
        prints = [re.findall(r'"(?:fingerprint|kvtool/v1|uri|path)": "(.*)"', each) for each in (text, again)]
        assert prints[0] == prints[1] != []


# Demands


def test_flags_take_the_place_of_files(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    arguments = ("a.yaml", "--no-advice")
    assert check(*arguments)[0] == 0
    code, out, _ = check(*arguments, "--min-hit-rate", "100%")
    assert code == 1
    assert "that --min-hit-rate demands" in " ".join(out.split())
    assert "kvtool.toml:4" not in out
    out = check(*arguments, "--no-config")[1]
    assert (last_line(out), "--min-hit-rate 0.80" in out) == ("NO GATE: no limit is set", True)


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
    code, out, _ = check("b.yaml", "--fail-on", "KV101")
    assert code == 1
    assert "b.yaml: KV101" not in out
    assert "KV405 error: all requests of b.yaml: 1 finding of KV101" in out
    ignored = SUPPORT.replace('{{ now }}. "}', '{{ now }}. "}  # kvtool: ignore[KV101] wanted')
    assert ignored != SUPPORT
    write("b.yaml", ignored)
    result = result_of(check, "b.yaml", "--fail-on", "KV101")
    assert result.ignored == 1
    assert {each.id: each.status for each in result.verdict.checks}["b.yaml/findings/KV101"] == "pass"
    assert "KV101" not in {found.code for found in result.findings}


def test_templates_and_python_are_read_and_not_run(check: Command) -> None:
    write("p.j2", "Now: {{ now }}. " + RULES)
    write("boom.py", "raise SystemExit('executed')\n")
    code, out, _ = check("p.j2", "boom.py", "--fail-on", "info")
    assert code == 1
    assert "KV405 error: p.j2: 1 finding of info (KV101)" in out
    assert "p.j2:1:6: KV101 error" in out
    assert last_line(out) == "FAIL 1 gate (p.j2: 1 finding of info)"
    code, out, _ = check("boom.py", "--fail-on", "info")
    assert (code, last_line(out)) == (0, "PASS 1 gate")


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


# The baseline


def test_from_a_baseline_to_a_failing_gate_and_its_fix(check: Command) -> None:
    write("kvtool.toml", 'workloads = ["a.yaml"]\n[check]\nrequire_baseline = true\n')
    write("a.yaml", CALM)
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "there is no baseline kvtool-baseline.json" in err
    assert "kvtool check --update-baseline" in err

    code, out, _ = check("--no-advice", "--update-baseline")
    assert code == 0
    assert "notice: the baseline kvtool-baseline.json was written" in out
    assert check("--no-advice")[0] == 0
    before = Path("kvtool-baseline.json").read_bytes()
    assert "is unchanged" in check("--no-advice", "--update-baseline")[1]
    assert Path("kvtool-baseline.json").read_bytes() == before

    write("a.yaml", CALM.replace("You are", "{{ n }} You are"))
    code, out, _ = check("--no-advice")
    assert code == 1
    assert re.search(r"^FAIL 1 gate \(all requests fell [\d.]+% -> 0.0%\)$", out, re.MULTILINE)
    assert "a.yaml has changed since the baseline" in " ".join(out.split())

    write("a.yaml", CALM.replace("requests: 6", "requests: 60"))
    code, out, _ = check("--no-advice")
    assert code == 0
    assert "faq had 6 requests and has 60" in out
    assert out.splitlines()[-2:] == [
        "Next: record the better rates as the baseline:",
        "  kvtool check --no-advice -t tokenizer.json --update-baseline",
    ]


def test_a_baseline_of_another_tokenizer(check: Command, bytes_json: str) -> None:
    write("a.yaml", CALM)
    check("a.yaml", "--update-baseline", "--no-advice")
    spec = json.loads(Path(bytes_json).read_text(encoding="utf-8"))
    spec["added_tokens"] = []
    write("other/tokenizer.json", json.dumps(spec, indent=1))
    told = "tokenizer: tokenizer.json ("
    code, out, _ = check("a.yaml", "--no-advice", "-t", "other/tokenizer.json")
    assert code == 0
    flat = " ".join(out.split())
    assert told in flat
    assert "other/tokenizer.json (" in flat
    assert "notice: a.yaml cannot be compared with the baseline" in flat
    code, out, _ = check("a.yaml", "--no-advice", "--require-baseline", "-t", "other/tokenizer.json")
    assert code == 2
    assert "KV406 error" in out
    assert last_line(out) == "FAIL 1 gate (all requests no baseline)"


def test_how_far_hit_rates_may_fall(check: Command) -> None:
    write("a.yaml", CALM)
    check("a.yaml", "--update-baseline", "--no-advice", "--baseline", "sub.json")
    write("a.yaml", CALM.replace("Question {{ n }}", "Question number {{ n }}"))
    fell = ("a.yaml", "--no-advice", "--baseline", "sub.json")
    assert check(*fell)[0] == 1
    assert check(*fell, "--max-drop", "20%")[0] == 0
    write("kvtool.toml", 'workloads = ["a.yaml"]\n[check]\nbaseline = "sub.json"\nmax_drop = "20%"\n')
    assert check("--no-advice")[0] == 0
    assert check("--no-advice", "--max-drop", "0")[0] == 1


def test_a_missing_baseline_that_was_named_is_told(check: Command) -> None:
    write("a.yaml", CALM)
    code, out, _ = check("a.yaml", "--no-advice", "--baseline", "none.json")
    assert code == 0
    assert "notice: there is no baseline none.json" in out
    code, _, err = check("a.yaml", "--no-advice", "--baseline", "none.json", "--require-baseline")
    assert (code, "there is no baseline none.json" in err) == (2, True)


def test_a_fall_that_is_allowed_expects_a_baseline(check: Command) -> None:
    write("a.yaml", CALM)
    assert "baseline" not in check("a.yaml", "--no-advice")[1].replace("--update-baseline", "")
    missing = "notice: there is no baseline kvtool-baseline.json: nothing was compared"
    assert missing in check("a.yaml", "--no-advice", "--max-drop", "1%")[1]
    write("kvtool.toml", 'workloads = ["a.yaml"]\n[check]\nmax_drop = "1%"\n')
    assert missing in check("--no-advice")[1]


def test_a_workload_of_several_is_updated_alone(check: Command) -> None:
    write("kvtool.toml", 'workloads = ["*.yaml"]\n')
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    check("--update-baseline", "--no-advice")
    write("b.yaml", SUPPORT.replace("Now", "At"))
    check("b.yaml", "--update-baseline", "--no-advice")
    names = json.loads(Path("kvtool-baseline.json").read_text(encoding="utf-8"))["workloads"]
    assert list(names) == ["a.yaml", "b.yaml"]
    Path("b.yaml").unlink()
    assert "notice: in the baseline and no longer checked: b.yaml" in check("--no-advice")[1]
    assert "notice: baseline: b.yaml: taken out" in check("--update-baseline", "--no-advice")[1]
    assert json.loads(Path("kvtool-baseline.json").read_text(encoding="utf-8"))["workloads"].keys() == {"a.yaml"}


def test_workloads_that_are_checked_one_by_one_share_a_baseline(check: Command) -> None:
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    for name in ("a.yaml", "b.yaml"):  # nothing says that there are no others
        check(name, "--update-baseline", "--no-advice")
    text = Path("kvtool-baseline.json").read_text(encoding="utf-8")
    assert list(json.loads(text)["workloads"]) == ["a.yaml", "b.yaml"]
    assert {each["findings"] is None for each in json.loads(text)["workloads"].values()} == {True}  # nobody looked
    check("b.yaml", "a.yaml", "--update-baseline", "--no-advice")
    assert Path("kvtool-baseline.json").read_text(encoding="utf-8") == text
    result = result_of(check, "b.yaml", "--require-baseline", "--no-advice")
    assert [each.status for each in result.verdict.checks if each.kind == "baseline"] == ["pass"] * 3
    assert result.verdict.notices == []


def test_the_baseline_is_found_from_any_folder(check: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write("kvtool.toml", 'workloads = ["prompts/*.yaml"]\n[check]\nrequire_baseline = true\n')
    write("prompts/a.yaml", CALM)
    write(".git/HEAD", "")
    check("--update-baseline", "--no-advice")
    shutil.copy("tokenizer.json", "prompts/tokenizer.json")
    monkeypatch.chdir("prompts")
    code, out, _ = check("--no-advice")
    assert (code, last_line(out)) == (0, "PASS 1 gate")


def test_a_baseline_that_cannot_be_written(check: Command) -> None:
    write("a.yaml", CALM)
    code, out, err = check("a.yaml", "--no-advice", "--update-baseline", "--baseline", "none/b.json")
    assert (code, out) == (2, "")
    assert "cannot write none/b.json" in err


# Ctrl-C


@pytest.mark.parametrize("request_number", [3, 6, 8])
def test_an_interrupted_check_judges_nothing(
    request_number: int, check: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    interrupt_at(monkeypatch, request_number)
    write("p.j2", "Now: {{ now() }}\n{{ rules }}\n")
    gates = ("--min-hit-rate", "1", "--fail-on", "info", "--update-baseline")
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
        r"^Workload b.yaml, group support: reqs 8; hit [\d.]+%; limit >=80.0%; .*status FAIL$", out, re.MULTILINE
    )


def test_the_next_command_leads_somewhere(check: Command) -> None:
    write("prompts/s.md", "Now: {{ now }}.\n" + "These are the rules of the house. " * 9)
    write(
        "a.yaml",
        "version: 1\nvars: {now: {datetime: 1m}}\ngroups:\n  - {name: g, requests: 8, gate: {hit_rate: '80%'},\n"
        "     messages: [{role: system, file: prompts/s.md}, {role: user, text: hi}]}\n",
    )
    assert "Next: preview the edit (add --write to apply it:\n  kvtool optimize a.yaml --allow P" in check("a.yaml")[1]
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
            assert widest(shown) <= width
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


# The same gates in `kvtool profile`


def test_profile_compares_with_a_baseline(check: Command, capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", CALM)
    check("a.yaml", "--update-baseline", "--no-advice")
    profile = ["profile", "a.yaml", "--dry-run", "--no-advice", "-t", "tokenizer.json"]
    compared = [*profile, "--baseline", "kvtool-baseline.json"]
    assert run([*compared, "-o", "r.md"]) == 0
    assert last_line(capsys.readouterr().out) == "PASS 1 gate"
    write("a.yaml", CALM.replace("Question", "A question"))
    assert run(compared) == 1
    assert last_line(capsys.readouterr().out).startswith("FAIL 1 gate (all requests fell ")
    assert run([*compared, "--max-drop", "5%"]) == 0
    assert run([*compared, "-b", "32", "-o", "r.md"]) == 0
    assert "notice: a.yaml cannot be compared with the baseline" in capsys.readouterr().out
    assert "cannot be compared" in Path("r.md").read_text(encoding="utf-8")
    for arguments, told in (
        ([*profile, "--max-drop", "1%"], "--max-drop is about a baseline"),
        ([*profile, "--baseline", "none.json"], "there is no baseline none.json"),
        ([*compared, "-o", "json=kvtool-baseline.json"], "is the baseline, too"),
    ):
        capsys.readouterr()
        assert run(arguments) == 2
        assert told in capsys.readouterr().err


def test_a_tokenizer_is_loaded_once(check: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    real = tokenizer.load_tokenizer

    def load(name: str | None, *, offline: bool) -> Tokenizer:
        loaded.append(name)
        return real(name, offline=offline)

    monkeypatch.setattr(tokenizer, "load_tokenizer", load)
    for number in range(3):
        write(f"{number}.yaml", CALM)
    assert check("0.yaml", "1.yaml", "2.yaml", "--no-advice")[0] == 0
    assert loaded == ["tokenizer.json"]


def test_a_mistake_is_told_once_and_at_each_place() -> None:
    made = [KvtoolError("unknown key", place=place) for place in (Place("w.yaml", 1), Place("w.yaml", 2), None)]
    problems = Problems([*made, KvtoolError("unknown key", place=Place("w.yaml", 1)), KvtoolError("unknown key")])
    assert problems.told == made
