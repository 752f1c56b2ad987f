"""The real logs and traces next door: how many requests each family gives, and that places in them are exact."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvtool.text.traced import Traced
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.turn import Output, Turn

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"there is no {DATA.parent.name}/{DATA.name} beside this checkout"
)

_ANSWER = Output("ok")


def all_turns(source: LogSource) -> list[list[Turn]]:
    found: list[list[Turn]] = []
    for conversation in source.conversations():
        found.append([])
        turn = conversation.next_turn(None)
        while turn is not None:
            found[-1].append(turn)
            turn = conversation.next_turn(_ANSWER)
    return found


def source_of(pattern: str, **options: Any) -> LogSource:
    paths = sorted(str(path) for path in DATA.glob(pattern))
    if not paths:
        pytest.skip(f"no file {pattern} in the data folder")
    return LogSource(paths, LogOptions(**options))


def test_counts() -> None:
    for pattern, format_, conversations, requests in [
        ("tau_bench/gpt-4o-airline.json", "trajectory", 200, 2454),
        ("lmcache_agent/taubench/*.jsonl", "prompt", 471, 471),
        ("lmcache_agent/miniswe/*.jsonl", "prompt", 372, 372),
        ("lmcache_agent/magagent/*.jsonl", "prompt", 746, 746),
        ("llmservingsim_sharegpt/sharegpt-*.jsonl", "token-ids", 300, 300),
        ("mooncake/conversation_trace.jsonl", "mooncake", 12031, 12031),
        ("mooncake/synthetic_trace.jsonl", "mooncake", 3993, 3993),
        ("kv_cache_tester/trace_*.json", "weka", 12, 80),
        ("mt_bench/dummy_conversation.json", "sharegpt", 500, 1000),
        ("mt_bench/question.jsonl", "turns", 80, 160),
        ("bfcl/BFCL_v4_live_multiple.json", "bfcl", 1053, 1053),
        ("bfcl/BFCL_v4_multi_turn_base.json", "bfcl", 200, 734),
        ("bfcl/BFCL_v4_multiple.json", "bfcl", 200, 200),
        ("swe_agent/*.traj", "trajectory", 15, 147),
        ("mini_swe_agent/github_issue.traj.json", "messages", 1, 10),
    ]:
        source = source_of(pattern)
        found = all_turns(source)
        assert (len(found), sum(map(len, found))) == (conversations, requests)
        assert set(source.formats.values()) == {format_}
        assert source.skipped == 0
        for turns in found:
            for turn in turns:
                assert sum(each is not None for each in (turn.messages, turn.text, turn.token_ids, turn.hashed)) == 1
        arrivals = [turn.arrival for turns in found for turn in turns if turn.arrival is not None]
        assert min(arrivals, default=0.0) == 0.0


def test_the_compressed_trace_in_blocks_of_64() -> None:
    turns = [turn for turns in all_turns(source_of("kv_cache_tester/*.gz", trace_block_size=64)) for turn in turns]
    hashed = [turn.hashed for turn in turns if turn.hashed is not None]
    assert len(hashed) == 2143
    assert sum(len(prompt.hash_ids) for prompt in hashed) == 3_237_243
    assert len({each for prompt in hashed for each in prompt.hash_ids}) == 274_446


def test_mooncake_totals() -> None:
    hashed = [turns[0].hashed for turns in all_turns(source_of("mooncake/conversation_trace.jsonl"))]
    assert sum(len(prompt.hash_ids) for prompt in hashed if prompt) == 288_500
    assert len({each for prompt in hashed if prompt for each in prompt.hash_ids}) == 182_790


def test_transcripts_share_one_policy_and_follow_each_other() -> None:
    found = all_turns(source_of("tau_bench/gpt-4o-airline.json"))
    assert len({turn.session for turns in found for turn in turns}) == 200
    policies = {turn.messages[0]["content"] for turns in found for turn in turns if turn.messages}
    assert [len(policy) for policy in policies] == [6155]
    for turns in found[:20]:
        for before, after in pairwise(turns):
            assert before.messages is not None
            assert after.messages is not None
            assert after.messages[: len(before.messages)] == before.messages
            assert after.messages[len(before.messages)]["role"] == "assistant"


@pytest.mark.parametrize(
    "pattern", ["tau_bench/gpt-4o-airline.json", "lmcache_agent/miniswe/063925220f0d2954505eb37612b11ab3.jsonl"]
)
def test_places_are_exact(pattern: str) -> None:
    source = source_of(pattern)
    found = all_turns(source)[-1]
    text = found[-1].messages[-1]["content"] if found[-1].messages else found[-1].text
    assert isinstance(text, Traced)
    lines = next(iter(DATA.glob(pattern))).read_text().split("\n")
    checked = 0
    for index in range(0, len(text), max(len(text) // 10, 1)):
        if not text[index].isalnum():
            continue
        origin, offset = text.at(index)
        assert origin is not None
        line, column = locate(origin, offset)
        assert lines[line - 1][column - 1] == text[index]
        checked += 1
    assert checked >= 3
