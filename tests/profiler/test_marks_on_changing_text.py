"""A cache breakpoint on text that changes: nothing that ends at the shared text was ever stored, so the provider lost nothing."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command, some

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


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_a_mark_on_changing_text_stores_no_shared_prefix(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    long = r.random() < 0.7
    shared = " ".join(r.choices(WORDS, k=r.randint(1800, 4000) if long else r.randint(150, 350)))
    tools = [
        {"name": f"tool_{n}", "description": " ".join(r.choices(WORDS, k=12)), "input_schema": {"type": "object"}}
        for n in range(r.randint(0, 3))
    ]
    now, records = datetime(2026, 11, 20, 9, tzinfo=UTC), []
    more = 3_000 if seed % 2 or not long else 1  # bits: also less text than tokenizers differ by
    for number in range(r.randint(4, 12)):
        now += timedelta(seconds=r.randint(10, 200))
        status = f"Status: commit {r.getrandbits(40):010x}, build #{number}. {r.getrandbits(more):x}"
        records.append(record(r, shared, status, tools, now))
    misses = misses_of(in_folder, records)
    assert set(misses["causes"]) == {"not_marked"}, "also below the published minimum: such a prefix was written"
    assert {event["certainty"] for event in misses["events"]} == {"proven"}
    assert {event["prefix"] for event in misses["events"]} == {None}


@pytest.mark.parametrize("seed", some(range(20, 24), 1))
def test_a_marked_prefix_that_is_not_read_was_lost_by_the_provider(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    shared = " ".join(r.choices(WORDS, k=r.randint(1800, 4000)))
    now, records = datetime(2026, 11, 20, 9, tzinfo=UTC), []
    for _ in range(r.randint(4, 12)):
        now += timedelta(seconds=r.randint(10, 200))
        records.append(record(r, shared, "Answer in English.", [], now))
    assert set(misses_of(in_folder, records)["causes"]) == {"provider"}


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_a_request_without_a_mark_loses_nothing_to_the_provider(in_folder: Command, seed: int) -> None:
    """Others stored its beginning by a mark; without one it neither reads nor writes, once for each of its tokens."""
    r = random.Random(seed)
    shared = " ".join(r.choices(WORDS, k=r.randint(1800, 4000)))
    now, records, unmarked = datetime(2026, 11, 20, 9, tzinfo=UTC), [], set()
    for number in range(8):
        now += timedelta(seconds=r.randint(10, 30))
        one = record(r, shared, "Answer in English.", [], now)
        usage, stored = one["response"]["usage"], one["response"]["usage"]["cache_creation_input_tokens"]
        usage["cache_creation_input_tokens"] = 0 if number else stored
        if number and (number == 3 or r.random() < 0.5):
            del one["request"]["system"][1]["cache_control"]
            usage["input_tokens"] += stored
            unmarked.add(f"{number + 1}:0")
        else:
            usage["cache_read_input_tokens"] = stored if number else 0
        records.append(one)
    misses = misses_of(in_folder, records)
    assert set(misses["causes"]) == {"not_marked"}
    assert [event["request"] for event in misses["events"]] == sorted(unmarked)
    assert {event["detail"] for event in misses["events"]} == {"the request sets none, so it reads nothing"}


@pytest.mark.parametrize("front", [5, 700, 1400])
@pytest.mark.parametrize("named", [True, False])
def test_a_clock_in_the_system_prompt_has_one_name(in_folder: Command, front: int, *, named: bool) -> None:
    """What is before it is shorter than the minimum or read, what is after it repeats: one cause, with or without sessions."""
    r = random.Random(front)
    words, rest = " ".join(r.choices(WORDS, k=front)), " ".join(r.choices(WORDS, k=2500))
    records = []
    for number in range(6):
        system = f"{words}\nNow: 2026-11-20T09:{number:02}:31Z\n{rest}"
        asked = [{"role": "system", "content": system}, {"role": "user", "content": " ".join(r.choices(WORDS, k=30))}]
        read = front // 128 * 128 if number and front > 1024 else 0
        usage = {
            "prompt_tokens": front + 2540,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": read},
        }
        record = {"timestamp": f"2026-11-20T09:{number:02}:31Z", "request": {"model": "gpt-4.1", "messages": asked}}
        session = {"session_id": "one"} if named else {}
        records.append({**record, **session, "response": {"usage": usage}})
    assert set(misses_of(in_folder, records)["causes"]) == {"system_changed"}


def test_a_prompt_below_the_minimum_of_a_model_beside_own_ones_is_no_loss_of_its_provider(in_folder: Command) -> None:
    records = []
    for number in range(12):
        model, text = (
            ("gpt-4.1", "Be brief. " * 60) if number % 3 == 0 else ("meta-llama/Llama-3.1-8B", "Be nice. " * 60)
        )
        usage = {"prompt_tokens": len(text) // 5, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}}
        asked = [{"role": "system", "content": text}, {"role": "user", "content": f"What of {number}?"}]
        record = {"timestamp": f"2026-11-20T09:00:{number:02}Z", "request": {"model": model, "messages": asked}}
        records.append({**record, "response": {"usage": usage}})
    misses = misses_of(in_folder, records)
    assert {each["cause"] for each in misses["events"] if each["model"] == "gpt-4.1"} <= {"below_minimum"}
