"""Logs of single requests whose text changes in its first tokens: what follows is missed, and expired after a longer pause."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import kvtool
from tests.conftest import some

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
TTL = 300


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_all_that_is_kept_after_a_first_difference_is_missed(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(seed)
    rules = "".join(source.choice("abcdefgh \n") for _ in range(6000))
    lines, seconds, gaps = [], 0, []
    for number in range(12):
        gap = source.choice((20, 90, TTL + 60))
        seconds += gap
        gaps += [gap] if number else []
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
    told = [(event.gap, event.cause) for event in sorted(misses.events, key=lambda event: event.time or 0)]
    assert told == [(gap, "system_changed" if gap <= TTL else "expired") for gap in gaps]
    assert all(5900 < event.tokens <= 6020 for event in misses.events)
    assert all(event.longer_life is None for event in misses.events), "it alone wins nothing"


@pytest.mark.parametrize("kind", ["tools_changed", "system_changed"])
def test_a_session_that_follows_another_one_names_the_same_change(kind: str, tmp_path: Path, bytes_json: str) -> None:
    """Tools come in the same two orders again and again, or a clock in the system prompt moves: whichever session is first."""
    source = random.Random(7)
    rules, (first, second) = some_text(source, 3000), [tool_of(source), tool_of(source)]
    talks: list[list[dict[str, str]]] = [[], []]
    cache, lines = list[str](), []
    for number in range(12):
        talk, moved = talks[number % 2], number // 4
        tools = [first, second] if kind == "system_changed" or moved % 2 else [second, first]
        clock = f"It is {moved}{moved} o'clock." if kind == "system_changed" else ""
        talk.append({"role": "user", "content": some_text(source, 600)})
        system = {"role": "system", "content": f"{rules[:1500]}{clock}{rules[1500:]}"}
        request = {"model": "gpt-5.1", "tools": tools, "messages": [system, *talk]}
        text = json.dumps([tools, *(message["content"] for message in [system, *talk])])
        read = max((same_beginning(text, each) for each in cache), default=0) // 128 * 128
        cache.append(text)
        usage = {"prompt_tokens": len(text), "completion_tokens": 1}
        usage["prompt_tokens_details"] = {"cached_tokens": read if read >= 1024 else 0}  # type: ignore[assignment]
        response = {"choices": [{"message": {"role": "assistant", "content": "x"}}], "usage": usage}
        time = (START + timedelta(minutes=number)).isoformat()
        lines.append({"timestamp": time, "session_id": f"s{number % 2}", "request": request, "response": response})
        talk.append({"role": "assistant", "content": "x"})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    misses = kvtool.profile(str(path), tokenizer=bytes_json).misses
    assert misses is not None
    assert {event.cause for event in misses.events if event.tokens > 300} == {kind}
    assert {int(event.request.partition(":")[0]) for event in misses.events} >= {5, 6, 9, 10}


def same_beginning(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def some_text(source: random.Random, length: int) -> str:
    return "".join(source.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(length))


def tool_of(source: random.Random) -> dict[str, Any]:
    function = {"name": some_text(source, 9).replace(" ", "_"), "description": some_text(source, 1500)}
    return {"type": "function", "function": function}
