"""Logs of single requests whose text changes in its first tokens: what follows is missed, while the cache keeps it."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kvtool

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
TTL = 300


@pytest.mark.parametrize("seed", range(6))
def test_all_that_is_kept_after_a_first_difference_is_missed(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(seed)
    rules = "".join(source.choice("abcdefgh \n") for _ in range(6000))
    lines, seconds, missed = [], 0, 0
    for number in range(12):
        gap = source.choice((20, 90, TTL + 60))
        seconds += gap
        missed += bool(number) and gap <= TTL
        system = {"type": "text", "text": f"{source.random():.9f}\n{rules}", "cache_control": {"type": "ephemeral"}}
        ask = "".join(source.choice("ijklmnop") for _ in range(30))
        request = {"model": "claude-sonnet-4-5", "system": [system], "messages": [{"role": "user", "content": ask}]}
        usage = {"input_tokens": 50, "cache_creation_input_tokens": 6020, "cache_read_input_tokens": 0}
        response = {"content": [{"type": "text", "text": "x"}], "usage": {**usage, "output_tokens": 1}}
        time = (START + timedelta(seconds=seconds)).isoformat()
        lines.append(json.dumps({"timestamp": time, "request": request, "response": response}) + "\n")
    path = tmp_path / "log.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    misses = kvtool.profile(str(path), tokenizer=bytes_json).misses
    assert misses is not None
    assert {cause: total.events for cause, total in misses.by_cause.items()} == {"system_changed": missed}
    assert all(event.gap is not None and event.gap <= TTL for event in misses.events)
    assert all(5900 < event.tokens <= 6020 for event in misses.events)
