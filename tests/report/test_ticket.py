"""A ticket for a provider: misses by exclusion from a saved result, without text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.results.misses import CacheMisses


def transcript(path: Path, *, lost: bool) -> None:
    """Write a session whose third request reads a part, though nothing changed."""
    lines: list[dict[str, object]] = []
    parent = None
    for number, read in enumerate((0, 40_000, 20_000 if lost else 40_100, 40_300)):
        shared = {"sessionId": "s1", "timestamp": f"2026-10-20T09:0{number}:00Z"}
        said = {"role": "user", "content": "secret " * 100}
        user, answer = f"u{number}", f"a{number}"
        lines.append({**shared, "type": "user", "uuid": user, "parentUuid": parent, "message": said})
        prompt = 40_000 + 100 * number
        usage = {
            "input_tokens": 0,
            "cache_read_input_tokens": min(read, prompt),
            "cache_creation_input_tokens": prompt - min(read, prompt),
            "output_tokens": 9,
        }
        message = {"role": "assistant", "id": answer, "model": "claude-opus-4-8", "content": "Yes.", "usage": usage}
        line = {**shared, "type": "assistant", "uuid": answer, "parentUuid": user, "requestId": f"req_{number}"}
        lines.append({**line, "message": message})
        parent = answer
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("lost", [True, False])
def test_a_ticket_is_made_of_a_saved_result(lost: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, saved, ticket = tmp_path / "s1.jsonl", tmp_path / "result.json", tmp_path / "ticket.md"
    transcript(log, lost=lost)
    assert run(["profile", str(log), "--no-advice", "-q", "-o", str(saved)]) == 0
    capsys.readouterr()
    assert run(["report", str(saved), "-o", str(ticket), "-o", "ticket-json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    text = ticket.read_text()
    assert "secret" not in text + json.dumps(found) + saved.read_text()
    if not lost:
        assert found["misses"] == []
        assert "No miss is left to the provider" in text
        return
    (miss,) = found["misses"]
    assert (miss["time"], miss["request"], miss["gap"]) == ("2026-10-20T09:02:00+00:00", "req_2", 60.0)
    assert (miss["tokens"], miss["cost"]) == (20_100, "0.115575")
    assert len(miss["prefix"]) == 16
    for shown in ("req_2", "20,100", "$0.12", miss["prefix"], "2026-10-20T09:02:00"):
        assert shown in text


def test_causes_of_a_saved_result_are_in_the_order_of_their_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, saved = tmp_path / "s1.jsonl", tmp_path / "result.json"
    transcript(log, lost=True)
    assert run(["profile", str(log), "--no-advice", "-q", "-o", str(saved)]) == 0
    data = json.loads(saved.read_text())
    (report,) = data.get("reports", [data])
    other = {**report["misses"]["causes"]["provider"], "cost": "0.0001"}
    report["misses"]["causes"] = {"expired": other, **report["misses"]["causes"]}
    assert list(CacheMisses.model_validate(report["misses"]).by_cause) == ["provider", "expired"]
    capsys.readouterr()
