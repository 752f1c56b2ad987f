"""Further fixes are looked at in a part of a large log first: the same advice as from runs of all of it, in fewer of them."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.api import profile
from kvtool.profiler import advising
from kvtool.profiler import log_part as part
from kvtool.profiler.log_part import LogPart
from kvtool.profiler.run import cause_sample
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.text.traced import Traced
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.turn import Turn
from tests.conftest import some

SHARED = "".join(f"In case {number} answer every question as briefly as the house style asks.\n" for number in range(6))
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def clock(number: int) -> str:
    return f"Now: {(START + timedelta(seconds=7 * number)).isoformat()}\n"


def words(rng: random.Random) -> str:
    return " ".join("".join(rng.choices("abcdefghij", k=6)) for _ in range(12))


def time_first(number: int, rng: random.Random) -> str:
    return f"{clock(number)}{SHARED}Request {number} is open since noon, for the desk.\n{words(rng)}"


def time_and_id_first(number: int, rng: random.Random) -> str:
    return f"{clock(number)}Request: {uuid.UUID(int=rng.getrandbits(128), version=4)}\n{SHARED}Why {words(rng)}?"


def text(prompt: str) -> dict[str, Any]:
    return {"prompt": prompt}


def chat(prompt: str) -> dict[str, Any]:
    """The last line as the question, and an answer."""
    system, _, question = prompt.rpartition("\n")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {
        "request": {"messages": messages},
        "response": {"choices": [{"message": {"role": "assistant", "content": "No."}}]},
    }


def runs(
    prompt: Callable[[int, random.Random], str],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ahead: bool,
    record: Callable[[str], dict[str, Any]] = text,
) -> tuple[dict[str, Any], list[bool]]:
    """The report of a log, and of each run whether it was of a part."""
    rng = random.Random(3)
    path.write_text("".join(json.dumps(record(prompt(number, rng))) + "\n" for number in range(132)))
    of_part: list[bool] = []
    account = WorkloadRuns.run

    def counted(self: WorkloadRuns, stage: str, *args: Any, **kwargs: Any) -> Any:
        of_part.append(kwargs.get("part") is not None)
        return account(self, stage, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(cause_sample, "_TOGETHER", 4)
        patched.setattr(part, "MOST_IN_PART", 16)
        patched.setattr(WorkloadRuns, "run", counted)
        if not ahead:
            patched.setattr(advising, "can_be_parted", lambda _: False)
        report = profile(path)
    return json.loads(report.model_dump_json()), of_part


def test_what_wins_nothing_in_a_part_is_not_run_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, of_part = runs(time_first, tmp_path / "log.jsonl", monkeypatch, ahead=True)
    same, whole = runs(time_first, tmp_path / "log.jsonl", monkeypatch, ahead=False)
    assert report == same
    assert report["findings"][0]["code"] == "KV101"
    assert of_part.count(False) == 2 < len(whole)
    assert any(of_part)
    assert not any(whole)


@pytest.mark.parametrize("record", some([chat, text], 1))
def test_what_wins_in_a_part_is_run_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Callable[[str], dict[str, Any]]
) -> None:
    report, of_part = runs(time_and_id_first, tmp_path / "log.jsonl", monkeypatch, ahead=True, record=record)
    same, whole = runs(time_and_id_first, tmp_path / "log.jsonl", monkeypatch, ahead=False, record=record)
    assert report == same
    assert ["(both fixes)" in finding["fix"] for finding in report["findings"][:2]] == [True, True]
    assert of_part.count(False) <= len(whole)
    assert any(of_part)


def kept(groups: Sequence[str]) -> tuple[KeptRequests, list[GroupTotals]]:
    texts = KeptRequests()
    totals = {name: GroupTotals(name=name) for name in groups}
    for number, name in enumerate(groups):
        texts.add(Turn(name, text=Traced(f"text {number}")))
        totals[name].requests += 1
    return texts, list(totals.values())


def test_a_part_has_some_of_every_group() -> None:
    texts, totals = kept(["a"] * 9_000 + ["b"] * 100)
    chosen = LogPart.of(texts, totals)
    assert chosen is not None
    turns = [conversation.next_turn(None) for conversation in chosen.source.conversations()]
    names = [turn.group for turn in turns if turn is not None]
    assert (names.count("a"), names.count("b")) == (512, 100)
    assert chosen.requests == len(chosen.source) == 612
    assert chosen.weights == {"a": 9_000 / 512}


def test_a_log_is_not_parted_where_that_spares_little() -> None:
    assert LogPart.of(*kept(["a"] * 4_000)) is None
    assert LogPart.of(*kept([])) is None
