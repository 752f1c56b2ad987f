"""Fixes that two processes try: the report of one process, to the letter."""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kvtool.api import profile
from kvtool.profiler import advising
from kvtool.profiler.run import cause_sample, run_loop
from kvtool.workload.ahead import child
from kvtool.workload.jobs import TokensTurn
from kvtool.workload.turn import Turn
from tests.conftest import some

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one process only")

SHARED = "".join(f"In case {number} answer every question as briefly as the house style asks.\n" for number in range(6))
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
NAMES = ("Ada", "Bo", "Chandra", "Dmitri", "Edda", "Farid")


def words(rng: random.Random) -> str:
    return " ".join("".join(rng.choices("abcdefghij", k=6)) for _ in range(8))


def front(number: int, rng: random.Random) -> dict[str, Any]:
    clock = (START + timedelta(seconds=7 * number)).isoformat()
    system = f"Time: {clock}, request {rng.getrandbits(48):012x}\nYou speak with {rng.choice(NAMES)}.\n{SHARED}"
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": f"{words(rng)}?"}]}


def plain(number: int, rng: random.Random) -> dict[str, Any]:
    clock = (START + timedelta(seconds=7 * number)).isoformat()
    return {
        "prompt": f"Now: {clock}\nRequest: {uuid.UUID(int=rng.getrandbits(128), version=4)}\n{SHARED}Why {words(rng)}?"
    }


def several(number: int, rng: random.Random) -> dict[str, Any]:
    record = rng.choice([front, plain])(number, rng)
    if rng.random() < 0.2:
        record["cache_salt"] = rng.choice(["one", "two"])
    if rng.random() < 0.2:
        record["output_tokens"] = number % 7
    return record


def sessions(number: int, rng: random.Random) -> dict[str, Any]:
    """Of sessions with answers, with requests that failed, are empty or too long, and with dialogues that the engine answers."""
    record = front(number, rng) | {"session_id": f"s{rng.randrange(30)}", "output": words(rng)}
    if number % 11 == 5:
        return record | {"response": {"status": rng.choice([200, 500]), "error": "no"}}
    if number % 40 == 6:
        return {"prompt": "" if number == 46 else "word " * 140_000}
    if number > 55 and number % 7 == 1:
        return {"turns": ["first of all", "second", f"third {words(rng)}"]}
    return record


@pytest.mark.parametrize("record", some([several, front, sessions, plain], 1))
def test_two_processes_tell_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Callable[[int, random.Random], dict[str, Any]]
) -> None:
    rng = random.Random(5)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record(number, rng)) + "\n" for number in range(72)))
    told: list[bool] = []
    begin = run_loop.RunLoop.begin

    def watched(self: run_loop.RunLoop, turn: Turn) -> Any:
        told.append(isinstance(turn, TokensTurn))
        return begin(self, turn)

    monkeypatch.setattr(run_loop.RunLoop, "begin", watched)
    monkeypatch.setattr(child, "can_fork", lambda: True)
    monkeypatch.setattr(cause_sample, "_TOGETHER", 4)
    monkeypatch.setattr(advising, "one_in", lambda groups: {group.name: 3 for group in groups})
    one = profile(path, jobs=1)
    assert not any(told)
    two = profile(path, jobs=2)
    assert two.model_dump_json() == one.model_dump_json()
    assert any(finding.rerun for finding in two.findings)
    assert (sum(told) > 72) == (record is not sessions), "in several runs, of what is kept for them"
