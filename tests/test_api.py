"""The Python API: what it costs to import, what it takes, what it gives, and how it fails."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.errors import ProblemsError
from tests.files import write

SHARED = "You are the support agent of a shop. Be short, be kind, and never promise what the terms do not say. " * 4
WORKLOAD = f"""\
version: 1
groups:
  - name: support
    requests: 8
    gate: {{hit_rate: ">=50%"}}
    messages:
      - {{role: system, text: "{SHARED}"}}
      - {{role: user, text: "Where is my parcel?"}}
"""


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return write("w.yaml", WORKLOAD)


def chats(count: int = 12, clock: bool = False) -> list[list[dict[str, str]]]:
    return [
        [
            {"role": "system", "content": f"Now: 2026-01-01T10:00:{n:02d}Z. {SHARED}" if clock else SHARED},
            {"role": "user", "content": f"question {n}"},
        ]
        for n in range(count)
    ]


def test_importing_costs_nothing() -> None:
    program = """
import sys
before = set(sys.modules)
import kvtool
print(kvtool.__version__)
dir(kvtool)
heavy = {"pydantic", "numpy", "torch", "rich", "yaml", "transformers", "typer", "orjson"} & (set(sys.modules) - before)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, kvtool.__version__), done.stderr


def test_every_name_is_there_and_in_dir() -> None:
    for name in kvtool.__all__:
        assert getattr(kvtool, name) is not None
        assert name in dir(kvtool)
    with pytest.raises(AttributeError, match="no attribute 'profil'"):
        _ = kvtool.profil  # type: ignore[attr-defined]


def test_no_submodule_hides_a_name_of_the_api() -> None:
    modules = {module.name for module in pkgutil.iter_modules(kvtool.__path__)}
    assert not modules & set(kvtool.__all__)
    for name in sorted(modules - {"__main__"}):
        import_module(f"kvtool.{name}")
    assert callable(kvtool.profile)
    assert callable(kvtool.check)


def test_a_workload_file(workload: str, bytes_json: str) -> None:
    report = kvtool.profile(workload, tokenizer=bytes_json, advice=False)
    assert isinstance(report, kvtool.Report)
    assert report.totals.requests == 8
    assert report.group("support").hit_rate == report.totals.hit_rate > 0.5
    assert [(gate.group, gate.status) for gate in report.gates] == [("support", "pass")]
    assert report.verdict == "pass"
    assert report.ttft.measured is None
    assert report.views is None
    again = kvtool.profile(Path(workload), tokenizer=Path(bytes_json), advice=False)
    assert again.to_json() == report.to_json()


def test_the_command_line_says_the_same(workload: str, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    from kvtool.cli.app import run

    assert run(["profile", workload, "--dry-run", "--json", "-t", bytes_json, "--capacity", "40"]) == 0
    told = json.loads(capsys.readouterr().out)
    report = json.loads(kvtool.profile(workload, tokenizer=bytes_json, capacity=40, views=True).to_json())
    assert report == told


def test_prompts_in_memory(bytes_json: str) -> None:
    report = kvtool.profile(chats(clock=True), tokenizer=bytes_json, min_hit_rate=0.5)
    assert report.verdict == "fail"
    assert report.totals.requests == 12
    [finding] = [finding for finding in report.findings if finding.code == "KV101"]
    assert finding.path == "<prompts>"
    assert finding.rerun is not None
    assert finding.rerun.total_after > 0.5 > finding.rerun.total_before
    assert "kind, and never promise" not in report.to_json()  # no prompt text
    assert kvtool.profile(chats(), tokenizer=bytes_json).totals.hit_rate > 0.8
    quoted = kvtool.profile(chats(clock=True), tokenizer=bytes_json, show_text="snippet")
    assert "Now: 2026-01-01T10:00:01Z" in quoted.to_json()


def test_kinds_of_prompts(bytes_json: str) -> None:
    for prompts in [
        [SHARED + "a", SHARED + "b"],
        [{"messages": chats(1)[0]}, {"messages": chats(2)[1], "tools": []}],
        [{"prompt": SHARED + "a"}, {"prompt": SHARED + "b"}],
        [tuple(chats(1)[0]), chats(2)[1]],
    ]:
        report = kvtool.profile(prompts, tokenizer=bytes_json)
        assert report.totals.requests == 2
        assert report.totals.hit_rate > 0.3


def test_messages_of_client_libraries(bytes_json: str) -> None:
    class Model:
        """What a library's answer looks like, which applications append to their messages."""

        def model_dump(self, **options: Any) -> dict[str, Any]:
            assert options == {"mode": "json", "exclude_none": True}
            return {"role": "assistant", "content": "On its way."}

    messages: list[Any] = [{"role": "user", "content": SHARED}, Model(), {"role": "user", "content": "Thanks"}]
    report = kvtool.profile([messages, messages], tokenizer=bytes_json)
    assert report.totals.requests == 2


def test_strings_that_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [write(f"{name}.jsonl", json.dumps({"prompt": SHARED + name}) + "\n") for name in "ab"]
    assert kvtool.profile(paths, tokenizer=bytes_json).totals.requests == 2
    assert kvtool.profile((Path(path) for path in paths), tokenizer=bytes_json).totals.requests == 2
    assert kvtool.profile([write("named", SHARED)], tokenizer=bytes_json, log_format="text").totals.requests == 1
    with pytest.raises(kvtool.KvtoolError, match=r"no such file `missing\.jsonl`|no such file"):
        kvtool.profile(["missing.jsonl", *paths], tokenizer=bytes_json)
    with pytest.raises(kvtool.KvtoolError, match=r"`a\.jsonl` is a path"):
        kvtool.profile([*paths, "Summarize README.md"], tokenizer=bytes_json)
    assert kvtool.profile(["Summarize README.md", "See a.jsonl"], tokenizer=bytes_json).totals.requests == 2


def test_what_is_no_input(bytes_json: str) -> None:
    for inputs, message in [
        ([], "the list of prompts is empty"),
        (chats(1)[0], "this is a message, not a prompt"),
        ({"messages": []}, "one request body is one prompt"),
        ([SHARED, 7], "not int"),
        ([{"messages": [{"role": "user", "content": object()}]}], "JSON cannot hold it"),
        ([{"question": "?"}], "no prompt found in this record"),
        ("-", "does not read standard input"),
    ]:
        with pytest.raises(kvtool.KvtoolError, match=message):
            kvtool.profile(inputs, tokenizer=bytes_json)


def test_bad_prompts_can_be_skipped(bytes_json: str) -> None:
    prompts: list[Any] = [SHARED, {"no": "prompt"}, SHARED]
    with pytest.raises(kvtool.KvtoolError) as caught:
        kvtool.profile(prompts, tokenizer=bytes_json)
    assert str(caught.value.place) == "prompts[1]"
    report = kvtool.profile(prompts, tokenizer=bytes_json, on_bad_line="skip")
    assert (report.totals.requests, report.totals.skipped_lines) == (2, 1)


def test_a_lone_surrogate_is_no_obstacle(bytes_json: str) -> None:
    report = kvtool.profile(["\ud800" + SHARED, "\ud800" + SHARED], tokenizer=bytes_json)
    assert report.totals.hit_rate > 0.4


def test_errors_carry_places_and_hints(workload: str, bytes_json: str) -> None:
    write("bad.yaml", WORKLOAD.replace("requests: 8", "requestss: 8").replace("role: user", "roll: user"))
    with pytest.raises(ProblemsError) as several:
        kvtool.profile("bad.yaml", tokenizer=bytes_json)
    notes = "\n".join(several.value.__notes__)
    assert "bad.yaml:4:5: unknown key `requestss`" in notes
    assert "help: did you mean `requests`?" in notes
    with pytest.raises(kvtool.KvtoolError, match="model") as unknown:
        kvtool.profile(workload, tokenizer=bytes_json, model="llama-3.1-9b")
    assert unknown.value.__notes__
    with pytest.raises(kvtool.NotAvailableError, match="not cached"):
        kvtool.profile(workload, tokenizer="nobody/nothing")


def test_it_says_nothing(workload: str, bytes_json: str, capfd: pytest.CaptureFixture[str]) -> None:
    kvtool.profile(workload, tokenizer=bytes_json)
    kvtool.check(workload, tokenizer=bytes_json, no_config=True)
    assert capfd.readouterr() == ("", "")


def test_it_works_in_a_thread(workload: str, bytes_json: str) -> None:
    found: list[float] = []
    worker = threading.Thread(
        target=lambda: found.append(kvtool.profile(workload, tokenizer=bytes_json).totals.hit_rate)
    )
    worker.start()
    worker.join(60)
    assert found == [kvtool.profile(workload, tokenizer=bytes_json).totals.hit_rate]


def test_ctrl_c_is_raised(workload: str, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.text.terminal.progress import Progress

    def interrupted(self: Progress, count: int = 1) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kvtool.profile(workload, tokenizer=bytes_json)
    with pytest.raises(KeyboardInterrupt):
        kvtool.check(workload, tokenizer=bytes_json, no_config=True)


def test_check(workload: str, bytes_json: str) -> None:
    passed = kvtool.check(workload, tokenizer=bytes_json, no_config=True, advice=False)
    assert isinstance(passed, kvtool.CheckResult)
    assert isinstance(passed.verdict, kvtool.Verdict)
    assert (passed.verdict.outcome, passed.verdict.exit_code) == ("pass", 0)
    failed = kvtool.check([workload], tokenizer=bytes_json, no_config=True, min_hit_rate="99%", advice=False)
    assert (failed.verdict.outcome, failed.verdict.exit_code) == ("fail", 1)
    assert failed.verdict.sentence.startswith("FAIL ")
    write("kvtool.toml", f'workloads = ["w.yaml"]\n[engine]\ntokenizer = "{bytes_json}"\n[gate]\nhit_rate = 0.99\n')
    with pytest.raises(kvtool.KvtoolError, match="lies outside") as caught:
        kvtool.check()
    assert "kvtool.toml:3:13" in "".join(traceback.format_exception(caught.value))
    assert kvtool.check(allow_outside=True).verdict.outcome == "fail"
    with pytest.raises(kvtool.KvtoolError, match="there is no INPUT"):
        kvtool.check(no_config=True)


def test_baselines(workload: str, bytes_json: str) -> None:
    options: Any = {"tokenizer": bytes_json, "no_config": True, "advice": False, "baseline": "base.json"}
    kvtool.check(workload, update_baseline=True, **options)
    assert kvtool.check(workload, **options).verdict.outcome == "pass"
    write("w.yaml", WORKLOAD.replace("requests: 8", "requests: 3").replace(">=50%", ">=10%"))
    assert kvtool.check(workload, max_drop=0.01, **options).verdict.outcome == "fail"


def test_what_is_saved_can_be_loaded(workload: str, bytes_json: str) -> None:
    report = kvtool.profile(workload, tokenizer=bytes_json, per_request=True)
    report.save("result.json")
    assert Path("result.json").read_text(encoding="utf-8") == report.to_json()
    loaded = kvtool.load(Path("result.json"))
    assert loaded.reports == [report]
    checked = kvtool.check(workload, tokenizer=bytes_json, no_config=True, advice=False)
    checked.save("check.json")
    assert kvtool.load("check.json") == checked
    with pytest.raises(kvtool.KvtoolError, match="directory"):
        report.save(".")
    with pytest.raises(kvtool.KvtoolError):
        kvtool.load(workload)


def test_diff_prompts(tmp_path: Path, bytes_json: str) -> None:
    held, asked = (f"{SHARED}{day}. {SHARED}" for day in ("Monday", "Friday"))
    diff = kvtool.diff_prompts(held, asked, tokenizer=bytes_json)
    assert isinstance(diff, kvtool.PromptDiff)
    assert diff.reuse.tokens == len(SHARED) // 16 * 16
    assert diff.first is not None
    assert diff.first.token == len(SHARED)
    assert kvtool.diff_prompts(chats(1)[0], chats(1)[0], tokenizer=bytes_json).relation == "identical"
    path = tmp_path / "held.txt"
    path.write_text(held, encoding="utf-8")
    assert kvtool.diff_prompts(path, asked, tokenizer=bytes_json).reuse == diff.reuse
    with pytest.raises(kvtool.KvtoolError, match="block_size"):
        kvtool.diff_prompts(held, asked, tokenizer=bytes_json, block_size=0)
