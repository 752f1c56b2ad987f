"""Logs that are wrong or mixed: each call counts once, what cannot count is counted as that, and the reported sums are exact."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.errors import Place
from kvtool.gate.demand import Demand
from kvtool.gate.evaluate import evaluate
from kvtool.gate.facts import facts_of
from kvtool.results.report import Report
from tests.conftest import some

Json = dict[str, Any]
CASES = ("contradiction", "no_zone", "interleaved", "repeated", "two_providers", "no_text")


def made_call(source: random.Random, number: int, session: int, history: list[Json], stored: int) -> Json:
    """Return a call of a session; it reads what the call before has stored, or nothing."""
    history += [{"role": "user", "content": "".join(source.choice("abcd ") for _ in range(600)) + f" {number}"}]
    prompt = 2_000 + sum(len(each["content"]) for each in history)
    read = source.choice((stored, stored, 0))
    usage = {"prompt_tokens": prompt, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": read}}
    answer = {
        "id": f"chatcmpl-{number}",
        "choices": [{"message": {"role": "assistant", "content": "ok"}}],
        "usage": usage,
    }
    system = {"role": "system", "content": f"session {session} " * 120}
    request = {"model": "gpt-4o", "messages": [system, *history]}
    time = f"2026-11-20T09:{number:02}:00Z"
    return {"timestamp": time, "session_id": f"s{session}", "request": request, "response": answer}


def made_log(source: random.Random, case: str) -> tuple[list[Json], int, int]:
    """Return the records of a log with what is wrong in this case, and how many cannot count and how many repeat others."""
    records: list[Json] = []
    sessions: dict[int, tuple[list[Json], int]] = {number: ([], 0) for number in range(3)}
    for number in range(30):
        session = source.randrange(3) if case in ("interleaved", "repeated", "two_providers") else number // 10
        history, stored = sessions[session]
        records.append(made_call(source, number, session, history, stored))
        sessions[session] = history, records[-1]["response"]["usage"]["prompt_tokens"]
    wrong = repeats = 0
    for at in source.sample(range(len(records)), 5):
        record = records[at]
        match case:
            case "contradiction":
                record["response"]["usage"]["prompt_tokens_details"]["cached_tokens"] = 10**6
                wrong += 1
            case "repeated":
                records.append(json.loads(json.dumps(record)))
                repeats += 1
    for record in records:
        match case:
            case "no_zone":
                record["timestamp"] = record["timestamp"].removesuffix("Z")
            case "two_providers" if record["session_id"] == "s1":
                record["request"]["model"] = "claude-sonnet-4-5"
            case "no_text":
                record["request"] = {"model": "gpt-4o"} | ({"messages": []} if source.random() < 0.5 else {})
                record["response"]["choices"] = []
    return records, wrong, repeats


def profiled(path: Path, records: list[Json], tokenizer: str, **options: Any) -> Report:
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return kvtool.profile(str(path), tokenizer=tokenizer, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", some(range(2), 1))
def test_each_call_counts_once(case: str, seed: int, tmp_path: Path, bytes_json: str) -> None:
    records, wrong, repeats = made_log(random.Random(seed), case)
    path = tmp_path / "log.jsonl"
    report = profiled(path, records, bytes_json)
    misses = report.misses
    assert misses is not None
    good = {each["response"]["id"]: each["response"]["usage"] for each in records}
    good = {name: each for name, each in good.items() if each["prompt_tokens_details"]["cached_tokens"] < 10**6}
    assert misses.requests == len(good)
    assert misses.requests + wrong + repeats == len(records)
    assert (misses.unreported, report.totals.requests) == (wrong, len(records) - repeats)
    told = [note for note in report.notes if note.startswith(f"usage of {wrong:,} request")]
    assert len(told) == bool(wrong)
    assert misses.prompt_tokens == sum(each["prompt_tokens"] for each in good.values())
    assert misses.read == sum(each["prompt_tokens_details"]["cached_tokens"] for each in good.values())
    assert misses.promised - misses.read == sum(each.tokens for each in misses.by_cause.values())
    if case == "no_text":
        assert misses.unknown_fields == ["prompts are not in the file"]
        assert not misses.predictable
        assert {each.certainty for each in misses.events} <= {"unknown", "excluded"}
    if case == "interleaved":  # as if each session had a file of its own
        apart = sorted(records, key=lambda each: each["session_id"])
        again = profiled(path, apart, bytes_json).misses
        assert again is not None
        assert again.by_cause == misses.by_cause
    if case == "no_zone":
        zoned = profiled(path, [{**each, "timestamp": each["timestamp"] + "Z"} for each in records], bytes_json).misses
        assert zoned is not None
        assert (zoned.by_cause, zoned.read) == (misses.by_cause, misses.read)


def test_a_gate_holds_the_reported_rate_against_the_limit(tmp_path: Path, bytes_json: str) -> None:
    records, _, _ = made_log(random.Random(3), "interleaved")
    report = profiled(tmp_path / "log.jsonl", records, bytes_json)
    usages = [each["response"]["usage"] for each in records]
    reported = sum(each["prompt_tokens_details"]["cached_tokens"] for each in usages) / sum(
        each["prompt_tokens"] for each in usages
    )
    assert report.known_hit_rate == pytest.approx(reported)
    predicted = report.predicted_rate()
    assert predicted is not None
    assert predicted > reported + 0.01
    scope = facts_of(report, "log.jsonl")
    for limit, status in ((reported - 0.001, "pass"), ((reported + predicted) / 2, "fail")):
        (check,) = evaluate(scope, [Demand("hit_rate", limit, "error", None, Place("log.jsonl"))])
        assert (check.status, check.actual) == (status, pytest.approx(reported))


def marked_call(number: int, model: str, system: object, said: list[str], usage: Json, *, session: str) -> Json:
    """Return a call to Anthropic's API with a mark on the last message."""
    roles = ("user", "assistant")
    messages: list[Json] = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    mark = {"type": "text", "text": said[-1], "cache_control": {"type": "ephemeral"}}
    messages[-1] = {"role": "user", "content": [mark]}
    request = {"model": model, "max_tokens": 9, "system": system, "messages": messages}
    answer = {"id": f"m{number}", "type": "message", "content": [{"type": "text", "text": "ok"}], "usage": usage}
    time = f"2026-11-20T09:{number:02}:00Z"
    return {"timestamp": time, "session_id": session, "request": request, "response": answer}


def words(source: random.Random, count: int) -> str:
    return " ".join(source.choice(("alpha", "beta", "gamma", "delta")) for _ in range(count))


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("seed", some(range(20), 1))
def test_a_write_below_the_published_minimum_mends_the_rule(
    seed: int, changes: bool, tmp_path: Path, bytes_json: str
) -> None:
    """Such a prefix can be read again: it is lost by the provider where the same text follows, and never where its end changes."""
    source = random.Random(seed)
    system, said = words(source, 60), words(source, source.randint(4, 12))
    records = []
    for number in range(4):
        said = words(source, source.randint(4, 12)) if changes else said
        stored = len(system) + len(said)
        usage = {"input_tokens": 3, "cache_creation_input_tokens": stored, "cache_read_input_tokens": 0}
        records.append(marked_call(number, "claude-sonnet-4-5", system, [said], usage, session="s"))
        assert stored < 1_024
    misses = profiled(tmp_path / "log.jsonl", records, bytes_json).misses
    assert misses is not None
    assert ("provider" in {event.cause for event in misses.events}) == (not changes)


@pytest.mark.parametrize("continues", [False, True])
def test_another_model_is_a_cause_only_where_the_conversation_continues(
    continues: bool, tmp_path: Path, bytes_json: str
) -> None:
    """Two models with one system prompt: in sessions of their own, the second one's first request has changed nothing."""
    source = random.Random(3)
    system, said = words(source, 800), [words(source, 400)]
    records = []
    for number in range(4):
        second = number > 1
        model = "claude-opus-4-5" if second else "claude-sonnet-4-5"
        if second and number == 2 and not continues:
            said = [words(source, 400)]
        prompt = len(system) + sum(map(len, said))
        usage = {"input_tokens": 3, "cache_creation_input_tokens": prompt, "cache_read_input_tokens": 0}
        if number % 2:  # the second request of each model reads what its first one wrote
            read = len(system) + len(said[0]) if not second or not continues else prompt - len(said[-1])
            usage |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": prompt - read}
        session = "b" if second and not continues else "a"
        block = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
        records.append(marked_call(number, model, [block], said, usage, session=session))
        said = [*said, "ok", words(source, 50)]
    misses = profiled(tmp_path / "log.jsonl", records, bytes_json).misses
    assert misses is not None
    found = [event.certainty for event in misses.events if event.cause == "model_changed"]
    assert found == (["proven"] if continues else [])
