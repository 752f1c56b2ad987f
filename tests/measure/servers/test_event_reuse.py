from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("msgspec")

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.measure.servers.kv_events import event_state
from kvtool.measure.servers.kv_events.event_batches import EventBatch, read_event_file, read_payload
from kvtool.measure.servers.kv_events.event_reuse import AnsweredPrompt, EventReuse, reuse_from_events
from kvtool.measure.servers.kv_events.event_state import RankStates
from tests.conftest import some
from tests.measure.servers.published import (
    CLEARED,
    RECORDINGS,
    as_rows,
    of_engine,
    payload,
    recorded_prompts,
    removed,
    stored,
)

SIZE = 4


def batches_of(*payloads: list[object], first: int = 0) -> list[EventBatch]:
    return [read_payload(payload(events), first + number) for number, events in enumerate(payloads)]


def served(
    seed: int, *, blocks: int, sessions: bool, rows: bool
) -> tuple[list[EventBatch], list[AnsweredPrompt], list[int]]:
    """Random prompts with common beginnings, one at a time through the engine; batches, prompts and what each one reused."""
    rng = random.Random(seed)
    config = EngineConfig(block_size=SIZE, num_blocks=blocks, hash_algo="sha256_cbor")
    cache = BlockManager(config, record_events=True)
    scheduler = Scheduler(config, cache)
    beginnings = [[rng.randrange(50) for _ in range(rng.randint(1, 20))] for _ in range(4)]
    batches: list[EventBatch] = []
    prompts: list[AnsweredPrompt] = []
    reused: list[int] = []
    for number in range(60):
        tokens = rng.choice(beginnings) + [rng.randrange(3) for _ in range(rng.randint(0, 8))]
        outputs = [rng.randrange(3) for _ in range(rng.randint(1, 6))]
        salt = rng.choice([None, None, "a"])
        request = Request(
            str(number), len(tokens), np.asarray(tokens, dtype=np.int32), output_ids=outputs, cache_salt=salt
        )
        account(scheduler, request)
        reused.append(request.num_cached_tokens)
        session = f"r{number}" if sessions else None
        keys = [("a",)] if salt else []
        prompts.append(
            AnsweredPrompt(str(number), tokens, outputs, session, keys, sent=10.0 * number, done=10.0 * number + 9)
        )
        made = of_engine(cache.take_events(), SIZE, session)
        if made:
            data = payload(as_rows(made) if rows else made, at=10.0 * number + 5)
            batches.append(read_payload(data, len(batches)))
    return batches, prompts, reused


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("blocks", [12, 20, 400])
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_reuse_from_events_is_what_was_reused(seed: int, blocks: int, rows: bool) -> None:
    batches, prompts, reused = served(seed, blocks=blocks, sessions=not rows, rows=rows)
    found = reuse_from_events(batches, prompts)
    assert found.breaks == []
    assert found.contradictions == found.foreign_events == 0
    known = [(found.requests[p.id].reused, cached) for p, cached in zip(prompts, reused, strict=True)]
    assert [pair for pair in known if pair[0] is not None and pair[0] != pair[1]] == []
    assert sum(pair[0] is not None for pair in known) >= 50
    assert found.admitted == sorted(found.admitted, key=int)


def test_copies_are_removed_one_by_one() -> None:
    states = RankStates()
    one = stored([1], [9] * SIZE)
    for batch in batches_of([one, one], [removed(1)]):
        states.add(batch)
    assert states.ranks[0].copies == {1: 1}
    for batch in batches_of([removed(1)], first=2):
        states.add(batch)
    assert states.ranks[0].copies == {}
    assert states.ranks[0].contradictions == 0


def two_prompts(*between: list[object]) -> EventReuse:
    """A prompt is stored, something happens, and the same one with another end is stored from there."""
    first, second = [*range(8)], [*range(8), 40, 41, 42, 43, 44]
    batches = batches_of(
        [CLEARED, stored([1, 2], first, session_id="a")], *between, [stored([3], second[8:12], 2, session_id="b")]
    )
    prompts = [AnsweredPrompt("a", first, session_id="a"), AnsweredPrompt("b", second, session_id="b")]
    return reuse_from_events(batches, prompts)


def test_a_gap_makes_reuse_unknown_until_the_cache_is_cleared() -> None:
    first, second = [*range(8)], [*range(8), 40, 41, 42, 43, 44]
    prompts = [AnsweredPrompt(name, ids, session_id=name) for name, ids in (("a", first), ("b", second), ("c", first))]
    batches = batches_of(
        [CLEARED, stored([1, 2], first, session_id="a")], [], [stored([3], second[8:12], 2, session_id="b")]
    )
    del batches[1]
    late = batches_of([CLEARED, stored([1, 2], first, session_id="c")], first=3)
    found = reuse_from_events([*batches, *late], prompts)
    assert [(found.requests[each].how, found.requests[each].reused) for each in "abc"] == [
        ("events", 0),
        ("unknown", None),
        ("events", 0),
    ]
    assert [str(each) for each in found.breaks] == ["1 batch is missing before number 2 of rank 0"]


def test_an_unread_batch_is_a_gap() -> None:
    found = two_prompts(["nonsense"])
    assert found.requests["b"].how == "unknown"
    assert len(found.breaks) == 1


def test_without_a_gap_the_same_is_known() -> None:
    assert two_prompts([removed(7)]).requests["b"].reused == 8
    assert two_prompts([removed(2)]).requests["b"].reused == 4
    assert two_prompts([CLEARED]).requests["b"].reused == 0


def test_a_server_that_began_anew_has_an_empty_cache() -> None:
    first = [*range(8)]
    prompts = [AnsweredPrompt(name, first, session_id=name) for name in "ab"]
    before = batches_of([CLEARED, stored([1, 2], first, session_id="a")], first=7)
    after = batches_of([stored([1, 2], first, session_id="b")])
    found = reuse_from_events([*before, *after], prompts)
    assert [each.restarted for each in found.breaks] == [True]
    assert (found.requests["b"].how, found.requests["b"].reused) == ("events", 0)


def test_what_was_before_the_first_batch_is_not_known_unless_it_is_number_0() -> None:
    prompts = [AnsweredPrompt("a", [*range(8)])]
    batch = [stored([1, 2], [*range(8)])]
    assert reuse_from_events(batches_of(batch), prompts).requests["a"].how == "events"
    assert reuse_from_events(batches_of(batch, first=3), prompts).requests["a"].how == "unknown"


def test_events_of_others_are_counted_and_taken_for_nobody() -> None:
    found = two_prompts([stored([8], [7] * SIZE, session_id="someone")], [stored([9], [8] * SIZE)])
    assert (found.foreign_events, found.foreign_tokens) == (2, 2 * SIZE)
    assert found.requests["b"].reused == 8
    assert found.admitted == ["a", "b"]


def test_other_memories_and_other_groups_take_no_part() -> None:
    found = two_prompts(
        [stored([8], [7] * SIZE, medium="CPU"), removed(1) | {"medium": "CPU"}, removed(2) | {"group_idx": 1}]
    )
    assert found.requests["b"].reused == 8
    assert (found.groups, found.foreign_events) == (2, 0)


def test_each_rank_has_its_own_state() -> None:
    first, second = [*range(8)], [*range(8), 40, 41, 42, 43, 44]
    one = read_payload(payload([stored([1, 2], first, session_id="a")], rank=0), 0)
    other = read_payload(payload([stored([1, 2, 3], second[:12], session_id="b")], rank=1), 0)
    prompts = [AnsweredPrompt("a", first, session_id="a"), AnsweredPrompt("b", second, session_id="b")]
    found = reuse_from_events([one, other], prompts)
    assert [(found.requests[each].rank, found.requests[each].reused) for each in "ab"] == [(0, 0), (1, 0)]


def test_a_silent_request_hit_all_that_is_full() -> None:
    prompt = [*range(10)]
    prompts = [AnsweredPrompt("a", prompt), AnsweredPrompt("b", prompt)]
    found = reuse_from_events(batches_of([stored([1, 2], prompt[:8])]), prompts)
    assert (found.requests["b"].how, found.requests["b"].reused) == ("silent", 8)
    whole = [replace(each, tokens=prompt[:8]) for each in prompts]  # its last block would have been stored again
    assert reuse_from_events(batches_of([stored([1, 2], prompt[:8])]), whole).requests["b"].how == "unknown"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("name", "stored_some", "silent"), [("sequential", 270, 6), ("eviction", 180, 20), ("concurrent", 194, 3)]
)
def test_of_a_real_server(name: str, stored_some: int, silent: int, named: bool) -> None:
    folder = RECORDINGS / name
    if not folder.is_dir():
        pytest.skip("the recordings hold other people's prompts and are not part of the repository")
    rows, prompts = recorded_prompts(folder)
    if not named:
        prompts = [replace(prompt, session_id=None) for prompt in prompts]
    found = reuse_from_events(read_event_file(folder), prompts)
    ways = [found.requests[prompt.id].how for prompt in prompts]
    assert (ways.count("events"), ways.count("silent"), len(ways)) == (stored_some, silent, stored_some + silent)
    cached = [row["response"]["usage"]["prompt_tokens_details"]["cached_tokens"] for row in rows]
    assert [found.requests[prompt.id].reused for prompt in prompts] == cached
    assert (found.breaks, found.contradictions, found.groups) == ([], 0, 1)


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_names_of_what_was_removed_are_forgotten_and_nothing_changes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, prompts, _ = served(seed, blocks=20, sessions=False, rows=False)
    whole = reuse_from_events(batches, prompts)
    monkeypatch.setattr(event_state, "MOST_GONE", 3)
    assert reuse_from_events(batches, prompts) == whole
    states = RankStates()
    for batch in batches:
        states.add(batch)
        state = states.ranks[0]
        assert len(state.names) <= len(state.copies) + 3
        assert len(state.hashes) <= len(state.copies) + 3
        assert {state.names[state.hashes[name]] for name in state.hashes} == set(state.hashes)
        assert state.copies.keys() <= state.names.keys()


def test_a_cleared_cache_forgets_names_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_state, "MOST_GONE", 3)
    states = RankStates()
    for number in range(10):
        for batch in batches_of([stored([2 * number, 2 * number + 1], [number] * 8)], [CLEARED], first=2 * number):
            states.add(batch)
    assert list(states.ranks[0].names) == [17, 18, 19]
    assert len(states.ranks[0].hashes) == 3
