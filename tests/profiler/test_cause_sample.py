from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.cause_sample import MOST_LOOKED_AT, CauseSample, one_in
from kvtool.profiler.run.purposes import cause_run, explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.call import Call
from kvtool.workload.jobs import JobMaker, Prepared, PreparedTurn
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import RequestName, Sampled, Turn

SHARED = "These lines are the same in every request of the log, and so they would hit.\n" * 2


def test_small_groups_are_looked_at_as_a_whole() -> None:
    assert one_in([GroupTotals(requests=MOST_LOOKED_AT, name="a"), GroupTotals(requests=0, name="b")]) == {
        "a": 1,
        "b": 0,
    }
    looks = CauseSample({"a": 1, "b": 0})
    assert all(looks.take(name, 10) for name in "abc" for _ in range(1_000))
    assert list(looks.weights()) == []


def test_runs_of_a_large_group_are_looked_at_all_over_it() -> None:
    every = one_in([GroupTotals(requests=10_000, name="g")])
    assert every == {"g": 5}
    looks = CauseSample(every)
    taken = [looks.take("g", 10) for _ in range(10_000)]
    runs = [index for index in range(40) if taken[256 * index]]
    assert runs == [0, 5, 10, 15, 20, 25, 30, 35]
    assert all(len(set(taken[256 * index : 256 * (index + 1)])) == 1 for index in range(39))
    assert list(looks.weights()) == [("g", 10_000 / (8 * 256))]


def account(renderer: Renderer, path: Path, every: dict[str, int]) -> RunResult:
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    plan = Plan(EngineConfig(block_size=16), latency)
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)), one_in=every)
    return accountant.run(LogSource([str(path)], LogOptions()))


def test_a_part_tells_what_the_whole_loses(byte_renderer: Renderer, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"prompt": f"Request {number * 7919 % 10_007:05}.\n{SHARED}Now: {number}"} for number in range(512)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    whole, part = account(byte_renderer, path, {}), account(byte_renderer, path, {"log": 2})
    (cause,), (same, *_) = whole.causes.of_group("log"), part.causes.of_group("log")
    assert same.slot == cause.slot
    assert same.seen == pytest.approx(cause.seen / 2, abs=2)
    for of_part, of_whole in (
        (same.blocked, cause.blocked),
        (same.share, cause.share),
        (same.requests, cause.requests),
    ):
        assert of_part == pytest.approx(of_whole, rel=0.01)
    assert part.causes.predicted("log", [cause.slot]) == pytest.approx(
        whole.causes.predicted("log", [cause.slot]), rel=0.05
    )
    # The engine sees every request, and every token has a fate.
    assert [group.hit_tokens for group in part.ledger.totals()] == [group.hit_tokens for group in whole.ledger.totals()]
    (totals,) = part.ledger.totals()
    assert Counter(totals.fates).total() == totals.prompt_tokens
    assert same.blocked == pytest.approx(2 * totals.fates["blocked"], rel=0.01)


def test_a_run_for_causes_alone_finds_the_same(byte_renderer: Renderer, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"prompt": f"Request {number * 7919 % 10_007:05}.\n{SHARED}Now: {number}"} for number in range(64)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    plan = Plan(EngineConfig(block_size=16), latency)
    source = LogSource([str(path)], LogOptions())
    keep = KeptRequests()
    whole = explained_run(RunSetup(plan, JobMaker(byte_renderer, seed=0), Progress(None)), keep=keep).run(source)
    assert keep.complete
    part = cause_run(RunSetup(plan, JobMaker(byte_renderer, seed=0), Progress(None))).run(keep)
    for name in ("requests", "prompt_tokens", "hit_tokens", "hit_rate"):
        assert [getattr(group, name) for group in part.ledger.totals()] == [
            getattr(group, name) for group in whole.ledger.totals()
        ]
    (cause,), (same,) = whole.causes.of_group("log"), part.causes.of_group("log")
    assert (same.slot, same.seen, same.blocked, same.share) == (cause.slot, cause.seen, cause.blocked, cause.share)
    part.forget_requests()
    assert sum(group.requests for group in part.ledger.totals()) == 64


def test_only_requests_that_stand_alone_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Turn("g", text=Traced("a text"), output_text="c")
    chat = Turn("g", messages=[{"role": "user", "content": "b"}], tools=[{"name": "d"}])
    for other in (
        Turn("g", text=Traced("b"), session="s"),
        Turn("g", text=Traced("b"), index=1),
        Turn("g", text=Traced("b"), output_ids=np.array([1], np.int32)),
        Turn("g", token_ids=np.array([1], np.int32)),
    ):
        keep = KeptRequests()
        keep.add(text)
        keep.add(chat)
        assert keep.complete
        assert [each.next_turn(None) for each in keep.conversations()] == [text, chat]
        keep.add(other)
        keep.add(text)
        assert not keep.complete
        assert not list(keep.conversations())
    monkeypatch.setattr("kvtool.workload.kept_requests.MOST_BYTES", 7_000)
    for turn, most in ((text, 4), (chat, 2)):
        keep = KeptRequests()
        for _ in range(most):
            keep.add(turn)
            assert keep.complete
        keep.add(turn)
        assert not keep.complete


def test_what_was_made_of_a_request_ahead_is_not_kept() -> None:
    keep = KeptRequests()
    prepared = Prepared(Prompt(np.array([1], np.int32)), "", [0])
    messages = [{"role": "user", "content": "b"}]
    keep.add(PreparedTurn("g", text=Traced("a text"), prepared=prepared))
    keep.add(PreparedTurn("g", messages=messages, prepared=prepared))
    turns = [conversation.next_turn(None) for conversation in keep.conversations()]
    assert {type(turn) for turn in turns} == {Turn}
    assert turns == [Turn("g", text=Traced("a text")), Turn("g", messages=messages)]


def test_a_request_with_another_text_is_the_same_beside_that() -> None:
    turn = Turn(
        "g",
        text=Traced("a"),
        session="s",
        index=2,
        salt="t",
        arrival=1.5,
        id="i",
        written=("f", 1, 2),
        name=RequestName("f", 1),
        extra={"a": 1},
        fields={"n": 2},
        more_answers=(Sampled("x"),),
        call=Call(model="m"),
        epoch=7.5,
        clock=9.0,
    )
    assert turn.with_text(Traced("b")) == replace(turn, text=Traced("b"))
    assert len(fields(Turn)) == 22
