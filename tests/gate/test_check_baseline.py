"""`kvtool check` and `kvtool profile` compare with a baseline."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kvtool.cli.app import run
from tests.conftest import Command
from tests.files import write
from tests.gate.conftest import CALM, SUPPORT, last_line, result_of

# The baseline


def test_from_a_baseline_to_a_failing_gate_and_its_fix(check: Command) -> None:
    write("kvtool.toml", 'workloads = ["a.yaml"]\n[check]\nrequire_baseline = true\n')
    write("a.yaml", CALM)
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "--require-baseline is set, but there is no baseline kvtool-baseline.json" in err
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
    assert "faq had 6 requests, now 60" in out
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
    missing = "notice: there is no baseline kvtool-baseline.json, so nothing was compared"
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
    assert "notice: the baseline contains b.yaml" in check("--no-advice")[1]
    assert "notice: baseline: b.yaml: removed" in check("--update-baseline", "--no-advice")[1]
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
        ([*profile, "--max-drop", "1%"], "--max-drop needs a baseline"),
        ([*profile, "--baseline", "none.json"], "there is no baseline none.json"),
        ([*compared, "-o", "json=kvtool-baseline.json"], "is the baseline, too"),
    ):
        capsys.readouterr()
        assert run(arguments) == 2
        assert told in capsys.readouterr().err
