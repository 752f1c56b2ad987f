"""Logs of a hidden provider with marks: a miss by its look-back or by too many marks is found, and claimed of no other."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.results.misses import CacheMisses
from tests.conftest import some

MODEL = "claude-sonnet-4-5"
LOOKBACK, MOST = 20, 4
BLOCK = 400
"""Characters of a content block; each is one token."""
DAY = "2026-11-20T09:{:02}:{:02}Z"

Block = tuple[str, bool]
"""The text of a content block, and whether it has a mark."""


class HiddenProvider:
    """Store what ends at a mark; find it from a mark at most 20 blocks later; the first marks of more than four do not count."""

    def __init__(self) -> None:
        self.stored: set[tuple[str, ...]] = set()

    def usage(self, blocks: Sequence[Block]) -> dict[str, int]:
        texts = tuple(text for text, _ in blocks)
        marks = [at for at, (_, marked) in enumerate(blocks) if marked][-MOST:]
        found = {end for mark in marks for end in range(max(mark - LOOKBACK, 0), mark + 1)}
        read = max((end + 1 for end in found if texts[: end + 1] in self.stored), default=0)
        last = max(marks, default=-1) + 1
        self.stored |= {texts[: mark + 1] for mark in marks}
        return {
            "input_tokens": (len(blocks) - max(read, last)) * BLOCK,
            "cache_read_input_tokens": read * BLOCK,
            "cache_creation_input_tokens": max(last - read, 0) * BLOCK,
            "output_tokens": 1,
        }


def written_log(path: Path, requests: Sequence[Sequence[Block]], *, marks: bool = True) -> str:
    """Write a log of one session; without `marks` the log has lost them."""
    provider, lines = HiddenProvider(), []
    for number, blocks in enumerate(requests):
        parts: list[dict[str, Any]] = [
            {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if marked and marks else {})}
            for text, marked in blocks
        ]
        request = {
            "model": MODEL,
            "max_tokens": 9,
            "system": parts[:1],
            "messages": [{"role": "user", "content": parts[1:]}],
        }
        answer = {"content": [{"type": "text", "text": "x"}], "usage": provider.usage(blocks)}
        time = DAY.format(number // 60, number % 60)
        lines.append({"timestamp": time, "session_id": "s", "request": request, "response": answer})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def misses_of(path: str, tokenizer: str) -> CacheMisses:
    misses = kvtool.profile(path, tokenizer=tokenizer).misses
    assert misses is not None
    return misses


def made_block(source: random.Random) -> str:
    return "".join(source.choice("abcdefgh ") for _ in range(BLOCK - 1)) + "."


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_the_look_back_is_named_with_its_numbers(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(seed)
    texts = [made_block(source) for _ in range(5)]
    requests, steps = [[(text, text is texts[-1]) for text in texts]], []
    for _ in range(4):
        steps.append(source.choice([source.randrange(2, 20), 20, 21, source.randrange(22, 40)]))
        texts = [*texts, *(made_block(source) for _ in range(steps[-1]))]
        requests.append([(text, text is texts[-1]) for text in texts])
    misses = misses_of(written_log(tmp_path / "log.jsonl", requests), bytes_json)
    found = {event.request: (event.cause, event.certainty, event.detail) for event in misses.events}
    assert found == {
        f"{number + 2}:0": ("lookback", "proven", f"{step} blocks back, the look-back is 20")
        for number, step in enumerate(steps)
        if step > LOOKBACK
    }
    unmarked = misses_of(written_log(tmp_path / "unmarked.jsonl", requests, marks=False), bytes_json)
    assert not {"lookback", "marks_limit"} & set(unmarked.by_cause)


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_too_many_marks_are_named_with_their_limit(seed: int, tmp_path: Path, bytes_json: str) -> None:
    """The system prompt is marked first, so that a fifth mark drops it; the rest is another text each time."""
    source = random.Random(seed)
    system = [made_block(source), made_block(source), made_block(source)]
    requests, dropped = [], []
    for number in range(6):
        rest = [made_block(source) for _ in range(30)]
        count = 1 if not number else source.choice([3, 4, 5])
        marked = {*system[2:], *source.sample(rest[24:], count - 1)}
        requests.append([(text, text in marked) for text in (*system, *rest)])
        dropped.append(count)
    misses = misses_of(written_log(tmp_path / "log.jsonl", requests), bytes_json)
    found = {event.request: (event.cause, event.certainty, event.detail) for event in misses.events}
    assert found == {
        f"{number + 1}:0": ("marks_limit", "proven", "5 cache breakpoints, 4 are allowed")
        for number, count in enumerate(dropped)
        if count > MOST
    }
    unmarked = misses_of(written_log(tmp_path / "unmarked.jsonl", requests, marks=False), bytes_json)
    assert not {"lookback", "marks_limit"} & set(unmarked.by_cause)


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_a_resume_is_named_where_the_transcript_records_it(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(seed)
    lines: list[dict[str, Any]] = []
    stored, resumed = 0, set[int]()
    beside = {"type": "attachment", "attachment": {"type": "hook_success", "hookName": "SessionStart:resume"}}
    other = {"type": "attachment", "attachment": {"type": "hook_success", "hookName": "SessionStart:startup"}}
    for number in range(12):
        missed = number > 0 and source.random() < 0.5
        recorded = missed and source.random() < 0.5
        times = {"sessionId": "s", "timestamp": DAY.format(number, 0)}
        if number:
            lines.append(
                {**(beside if recorded else other), **times, "uuid": f"h{number}", "parentUuid": f"a{number - 1}"}
            )
        if recorded:
            resumed.add(number)
        parent = f"h{number}" if number else None
        said = {"role": "user", "content": made_block(source)}
        lines.append({"type": "user", **times, "uuid": f"u{number}", "parentUuid": parent, "message": said})
        prompt, read = 9_000 + number * 1_000, 0 if missed else stored
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": prompt - read,
            "cache_creation": {"ephemeral_5m_input_tokens": prompt - read, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 9,
        }
        answer = {"role": "assistant", "id": f"m{number}", "model": MODEL, "content": [{"type": "text", "text": "x"}]}
        lines.append(
            {
                **times,
                "type": "assistant",
                "uuid": f"a{number}",
                "parentUuid": f"u{number}",
                "message": {**answer, "usage": usage},
            }
        )
        stored = prompt
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = sorted(event.cause for event in misses_of(str(path), bytes_json).events)
    assert found.count("resumed") == len(resumed)
    assert set(found) <= {"resumed", "unknown"}


@pytest.mark.parametrize("marks", [4, 5, 7])
def test_requests_with_too_many_marks_are_told_without_usage(marks: int, tmp_path: Path, bytes_json: str) -> None:
    part = {"type": "text", "text": "x" * 40, "cache_control": {"type": "ephemeral"}}
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": [part] * marks}]}
    path = tmp_path / "bodies.jsonl"
    path.write_text(f"{json.dumps(body)}\n" * 3, encoding="utf-8")
    notes = kvtool.profile(str(path), tokenizer=bytes_json).notes
    told = [note for note in notes if "allowed" in note]
    assert told == (
        []
        if marks <= MOST
        else [f"3 requests with {marks} cache breakpoints (cache_control), 4 are allowed: the provider refuses them"]
    )


def test_the_refusal_of_too_many_marks_is_told_without_its_text(tmp_path: Path, bytes_json: str) -> None:
    error = {
        "message": "SECRET",
        "code": 400,
        "metadata": {"raw": "A maximum of 4 blocks with cache_control may be provided. Found 6."},
    }
    line = {"request": {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}, "response": {"error": error}}
    path = tmp_path / "refused.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(kvtool.KvtoolError) as raised:
        kvtool.profile(str(path), tokenizer=bytes_json)
    assert raised.value.hint == "the provider refused a request: 6 cache breakpoints (cache_control), 4 are allowed"
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("tools_changed", "tools_changed"),
        ("input_changed", "prompt_changed"),
        ("prompt_cache_key_changed", "key_changed"),
        ("service_tier_changed", "setting_changed"),
        ("context_compacted", "compaction"),
        ("a_new_word", "provider"),
    ],
)
def test_the_diagnosis_of_openai_is_read(reason: str, cause: str, tmp_path: Path, bytes_json: str) -> None:
    lines = []
    for number in range(2):
        diagnosis = {"type": "cache_miss", "reason": reason, "cache_missed_tokens": 1_900}
        usage = {
            "input_tokens": 2_000,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2_000},
            "output_tokens": 1,
        }
        response = {"id": f"resp_{number}", "object": "response", "usage": usage, "output": []}
        if number:
            response["prompt_cache_diagnostics"] = diagnosis
        body = {"model": "gpt-5.6-sol", "instructions": "abcdefgh " * 220, "input": "Is it open?"}
        time = DAY.format(number, 0)
        lines.append({"timestamp": time, "session_id": "s", "request": body, "response": response})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    misses = misses_of(str(path), bytes_json)
    assert [event.cause for event in misses.events] == [cause]
    assert (misses.diagnosis is not None) == (cause != "provider")


@pytest.mark.parametrize(
    ("zones", "local", "expired"), [(("Z", "Z"), 0, True), (("", ""), 2, True), (("", "Z"), 1, False)]
)
def test_no_gap_is_counted_between_times_with_and_without_a_zone(
    zones: tuple[str, str], local: int, expired: bool, tmp_path: Path, bytes_json: str
) -> None:
    text = "abcdefgh" * 300
    lines = []
    for number, zone in enumerate(zones):
        content = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
        usage = {
            "input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": len(text),
            "output_tokens": 1,
        }
        answer = {"id": f"m{number}", "type": "message", "role": "assistant", "content": [], "usage": usage}
        time = f"2026-11-20T09:{30 * number:02}:00{zone}"
        lines.append({"timestamp": time, "session_id": "s", "request": request, "response": answer})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    misses = kvtool.profile(str(path), tokenizer=bytes_json).misses
    assert misses is not None
    assert misses.local_times == local
    assert ("expired" in misses.by_cause) == expired
    assert misses.promised - misses.read > 2_000
