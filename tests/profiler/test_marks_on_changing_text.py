"""A cache mark on text that changes: nothing that ends at the shared text was ever stored, so the provider lost nothing."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

WORDS = ("order", "parcel", "invoice", "refund", "login", "section", "handbook", "please", "check", "agent", "topic")
MARK = {"type": "ephemeral"}


def tokens(value: Any) -> int:
    """About as many tokens as a provider counts."""
    return len(json.dumps(value, ensure_ascii=False)) // 5


def record(r: random.Random, shared: str, status: str, tools: list[dict[str, Any]], at: datetime) -> dict[str, Any]:
    """A request whose mark is on `status`, and which read nothing."""
    system = [{"type": "text", "text": shared}, {"type": "text", "text": status, "cache_control": MARK}]
    question = [{"role": "user", "content": " ".join(r.choices(WORDS, k=30))}]
    stored, rest = tokens([tools, shared, status]), tokens(question)
    return {
        "timestamp": at.isoformat(),
        "request": {
            "model": "claude-sonnet-4-5",
            "max_tokens": 99,
            "tools": tools,
            "system": system,
            "messages": question,
        },
        "response": {
            "usage": {
                "input_tokens": rest,
                "cache_creation_input_tokens": stored,
                "cache_read_input_tokens": 0,
                "output_tokens": 40,
            }
        },
    }


def misses_of(in_folder: Command, records: list[dict[str, Any]]) -> dict[str, Any]:
    Path("log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    code, out, err = in_folder("profile", "log.jsonl", "--json", "--no-advice")
    assert code == 0, err
    misses: dict[str, Any] = json.loads(out)["misses"]
    return misses


@pytest.mark.parametrize("seed", range(8))
def test_a_mark_on_changing_text_stores_no_shared_prefix(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    long = r.random() < 0.7
    shared = " ".join(r.choices(WORDS, k=r.randint(1800, 4000) if long else r.randint(150, 350)))
    tools = [
        {"name": f"tool_{n}", "description": " ".join(r.choices(WORDS, k=12)), "input_schema": {"type": "object"}}
        for n in range(r.randint(0, 3))
    ]
    now, records = datetime(2026, 11, 20, 9, tzinfo=UTC), []
    for number in range(r.randint(4, 12)):
        now += timedelta(seconds=r.randint(10, 200))
        status = f"Status: commit {r.getrandbits(40):010x}, build #{number}. {r.getrandbits(3000):x}"
        records.append(record(r, shared, status, tools, now))
    misses = misses_of(in_folder, records)
    assert set(misses["causes"]) == {"not_marked" if long else "below_minimum"}
    assert {event["certainty"] for event in misses["events"]} == {"proven"}
    assert {event["prefix"] for event in misses["events"]} == {None}


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_marked_prefix_that_is_not_read_was_lost_by_the_provider(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    shared = " ".join(r.choices(WORDS, k=r.randint(1800, 4000)))
    now, records = datetime(2026, 11, 20, 9, tzinfo=UTC), []
    for _ in range(r.randint(4, 12)):
        now += timedelta(seconds=r.randint(10, 200))
        records.append(record(r, shared, "Answer in English.", [], now))
    assert set(misses_of(in_folder, records)["causes"]) == {"provider"}
