"""Own answers of the stub, long turns, reported sizes, and what losses cost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.profiler.agents import prefix_stability
from kvtool.profiler.agents.own_script import load_script
from kvtool.profiler.agents.stub_script import Reply
from tests.profiler.agents.test_agent_probe import command, probe


@pytest.mark.parametrize("protocol", ["messages", "chat"])
def test_a_long_turn_has_twenty_calls(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = probe(capsys, command(protocol), "--long")
    assert (code, found["runs"][0]["requests"], found["steps"]["steps"]) == (0, 21, 20)


def test_own_answers_come_first_and_the_session_ends_after_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kept = tmp_path / "script.json", tmp_path / "kept"
    calls = [{"tool": "bash", "arguments": {"path": f"part{n}.md"}} for n in range(3)]
    path.write_text(json.dumps([*calls, {"text": "It prints the tide."}]))
    code, found = probe(capsys, command("messages"), "--script", str(path), "--keep", str(kept), "--fill", "180000")
    assert (code, found["runs"][0]["requests"]) == (0, 4)
    last = (kept / "base.jsonl").read_text().splitlines()[-1]
    assert [last.count(f"part{n}.md") for n in range(4)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "[]", '["Read"]', '[{"tool": ""}]', '[{"tool": "a", "text": "b"}]', '[{"text": 1}]']
)
def test_a_script_of_another_form_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    code = run(["probe", "--agent", "no-such-agent", "--script", str(path)])
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert str(path) in shown.err.replace("\n", "")


def test_a_script_is_read(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('[{"tool": "Read", "arguments": {"path": "a"}}, {"tool": "Look"}, {"text": "Done."}]')
    assert load_script(str(path)) == (
        Reply(tool="Read", arguments={"path": "a"}),
        Reply(tool="Look", arguments={}),
        Reply("Done."),
    )


def test_losses_have_the_price_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    agent = command("messages", "folder in system")
    _, found = probe(capsys, agent, "--vary", "folder", "--price-model", "claude-sonnet-4-5")
    row: dict[str, Any] = next(row for row in found["circumstances"] if row["name"] == "folder")
    lost = row["tokens"] - row["kept_tokens"]
    assert (row["lost_tokens"], found["price_model"]) == (lost, "claude-sonnet-4-5")
    assert Decimal(row["cost"]) == Decimal("3.45") * lost / 1_000_000  # written at $3.75, not read at $0.30
    _, found = probe(capsys, agent, "--fast")
    assert (found["price_model"], found["circumstances"][0]["cost"]) == ("claude-sonnet-4-6", "0")  # what it asks for


def test_a_model_without_price_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--agent", "no-such-agent", "--price-model", "no-such-model"]) == 2
    assert "no price is known" in capsys.readouterr().err


def test_a_system_without_processes_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prefix_stability, "PROCESSES", tmp_path / "none")
    _, found = probe(capsys, command("chat"))
    assert any("no /proc" in note for note in found["notes"])
