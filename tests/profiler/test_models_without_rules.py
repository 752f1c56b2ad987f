"""Logs that hold only models of APIs without known cache rules: reported, misses and the bill, and no prediction."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import kvtool
from kvtool.cli.app import run


def made_log(path: Path, model: str, provider: str, lost: int) -> Path:
    """A session whose request `lost` reads nothing."""
    source, messages, before, lines = random.Random(lost), list[dict[str, str]](), 0, []
    messages.append({"role": "system", "content": "".join(source.choice("abcdef ") for _ in range(6_000))})
    for number in range(6):
        messages.append({"role": "user", "content": "".join(source.choice("abcdef ") for _ in range(400))})
        prompt = sum(len(message["content"]) for message in messages)
        details = {"cached_tokens": 0 if number == lost else before}
        usage = {"prompt_tokens": prompt, "completion_tokens": 5, "prompt_tokens_details": details}
        answer = {"id": f"c{number}", "choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage}
        body = {"model": model, "messages": list(messages)}
        time = f"2026-11-20T09:0{number}:00Z"
        lines.append({"timestamp": time, "session_id": "s", "provider": provider, "request": body, "response": answer})
        before = prompt
        messages.append({"role": "assistant", "content": "ok"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("model", "provider", "priced"),
    [("sonar-pro", "perplexity", True), ("gpt-4-turbo", "openai", True), ("command-r-plus", "cohere", False)],
)
def test_what_was_reported_is_shown_and_nothing_predicted(
    tmp_path: Path, bytes_json: str, model: str, provider: str, priced: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = len(model) % 5 + 1
    path = made_log(tmp_path / "log.jsonl", model, provider, lost)
    report = kvtool.profile(str(path), tokenizer=bytes_json)
    assert report.misses is not None
    assert [event.request for event in report.misses.events] == [f"{lost + 1}:0"]
    assert (report.predicted, report.misses.predictable, report.totals.requests) == (None, False, 0)
    assert (report.money is not None and report.money.paid is not None) == priced
    assert run(["what-if", str(path), "-t", bytes_json]) == 2
    capsys.readouterr()
    assert run(["profile", str(path), "-t", bytes_json, "--plain"]) == 0
    shown = capsys.readouterr().out
    assert "reported" in shown
    assert "vllm rules" not in shown
    assert "Predicted" not in shown
    assert "6 requests not predicted" in " ".join(shown.split())
    assert "without a cache: " not in shown, "what was read outranks a page that says that there is no cache"
