"""Tokens that were computed again, by cause: every stored token has one, and each cause is the one that was made."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

pytest.importorskip("msgspec", reason="needs the extra `live`")

from kvtool.measure.servers.causes.event_losses import EventLosses, Loss, LossSums
from kvtool.measure.servers.causes.windowed_losses import WindowedLosses
from kvtool.measure.servers.kv_events.event_batches import EventBatch, read_payload
from tests.measure.servers.engine_server import Clock, EngineServer
from tests.measure.servers.published import CLEARED, payload, removed, stored

BLOCK = 16


def batch(*events: object, seq: int = 0, rank: int = 0) -> EventBatch:
    """A message of a server."""
    return read_payload(payload(events, rank=rank), seq)


def tokens(rng: random.Random, blocks: int) -> list[int]:
    """Tokens that nobody sent before."""
    return [rng.randrange(1 << 30) for _ in range(blocks * BLOCK)]


def sums_of(*batches: EventBatch, servers: Callable[[int], int] = lambda _: 0) -> LossSums:
    """The sums of messages; `servers` says whose each is."""
    losses = EventLosses()
    for number, each in enumerate(batches):
        losses.add(servers(number), each)
    return losses.sums()


def test_each_cause_is_the_one_that_was_made() -> None:
    rng = random.Random(4)
    text = tokens(rng, 2)
    first = stored([1, 2], text)
    other_salt = stored([11, 12], text, extra_keys=[["b"], None])
    other_adapter = stored([21, 22], text, lora_name="a", extra_keys=[["a"], ["a"]])
    cases: dict[Loss, list[EventBatch]] = {
        "capacity": [batch(first), batch(removed(2), removed(1), first, seq=1)],
        "reset": [batch(first), batch(CLEARED, first, seq=1)],
        "restart": [batch(first), batch(first)],
        "salts": [batch(first), batch(other_salt, seq=1)],
        "adapters": [batch(first), batch(other_adapter, seq=1)],
        "recomputed": [batch(first), batch(first, seq=1)],
        "concurrency": [batch(first, first)],
    }
    for loss, batches in cases.items():
        found = sums_of(*batches)
        assert found.tokens == {"first_use": 2 * BLOCK, loss: 2 * BLOCK}, loss
        assert found.whole
    assert sums_of(batch(first), batch(first), servers=lambda number: number).tokens["routing"] == 2 * BLOCK
    assert sums_of(batch(first), batch(first, rank=1)).tokens["routing"] == 2 * BLOCK


def test_a_last_block_and_layers_with_windows_have_causes_of_their_own() -> None:
    text = tokens(random.Random(1), 2)
    full = {"group_idx": 1, "kv_cache_spec_kind": "full_attention"}
    window = {"group_idx": 0, "kv_cache_spec_kind": "sliding_window"}
    masked = {**stored([8, 9], text, **window), "block_hashes": [9]}  # the first block is out of the window
    both = batch(masked, stored([1, 2], text, **full))
    assert not both.problems
    again = batch(stored([1, 2], text, **full), seq=1)
    assert sums_of(both, again).tokens == {"first_use": 2 * BLOCK, "groups": 2 * BLOCK}
    alone = batch(stored([2], text[BLOCK:], 1), seq=1)
    assert sums_of(batch(stored([1, 2], text)), alone).tokens["last_block"] == BLOCK


def test_text_after_another_beginning_is_repeated_with_the_place_of_the_difference() -> None:
    rng = random.Random(2)
    text = tokens(rng, 6)
    other = [*text]
    other[5] += 1
    found = sums_of(batch(stored([*range(1, 7)], text)), batch(stored([*range(11, 17)], other), seq=1))
    assert found.first_difference == 6
    assert found.tokens["repeated"] == 5 * BLOCK
    shifted = [*tokens(rng, 1)[:3], *text][: 6 * BLOCK]
    moved = sums_of(batch(stored([*range(1, 7)], text)), batch(stored([*range(11, 17)], shifted), seq=1))
    assert moved.tokens["repeated"] >= 4 * BLOCK
    assert moved.tokens["repeated"] + moved.tokens["first_use"] == moved.stored


def test_what_a_larger_cache_needs_is_enough() -> None:
    rng = random.Random(7)
    prompts = [tokens(rng, 8) for _ in range(9)]
    clock = Clock()

    def lost(blocks: int) -> LossSums:
        server = EngineServer(clock, blocks=blocks)
        for _ in range(4):
            for each in prompts:
                server.serve(each)
        losses = EventLosses()
        for each in server.batches():
            losses.add(0, each)
        return losses.sums()

    small = lost(50)
    assert small.tokens["capacity"] > 0
    assert small.more_blocks is not None
    assert lost(50 + small.more_blocks).tokens["capacity"] <= small.tokens["capacity"] // 10


@pytest.mark.parametrize("number", range(4))
def test_every_stored_token_has_one_cause(number: int) -> None:
    """Random traffic on random servers, with resets and restarts in between."""
    seed = (number, random.randrange(1 << 30))
    rng = random.Random(str(seed))
    clock = Clock()
    servers = [EngineServer(clock, blocks=rng.randint(30, 90)) for _ in range(rng.randint(1, 3))]
    heads = [tokens(rng, rng.randint(1, 5)) for _ in range(3)]
    losses, given, seen = EventLosses(), 0, 0
    for _ in range(60):
        server = rng.choice(servers)
        before = len(server.messages)
        what = rng.random()
        if what < 0.03:
            server.clear()
        elif what < 0.06:
            server.start()
        else:
            prompt = [*rng.choice(heads), *[rng.randrange(1 << 30) for _ in range(rng.randint(1, 40))]]
            server.serve(prompt, salt=rng.choice([None, None, "a"]))
        for each in server.batches(before):
            losses.add(servers.index(server), each)
            given += sum(len(event.block_hashes) for event in each.events if hasattr(event, "token_ids"))
            seen += 1
    found = losses.sums()
    assert found.stored == given * BLOCK, seed
    assert all(count >= 0 for count in found.tokens.values()), seed
    assert found.caches == len({servers.index(each) for each in servers if each.messages}), seed


def test_a_span_counts_what_is_lost_in_it() -> None:
    text = tokens(random.Random(3), 2)
    losses = EventLosses()
    losses.add(0, batch(stored([1, 2], text)))
    losses.add(0, batch(removed(2), removed(1), seq=1))
    losses.begin_span()
    assert losses.sums().stored == 0
    losses.add(0, batch(stored([1, 2], text), seq=2))
    assert losses.sums().tokens == {"capacity": 2 * BLOCK}


def test_a_window_forgets_older_losses_and_the_total_does_not() -> None:
    rng = random.Random(3)
    watched = WindowedLosses(10.0)
    counts = []
    for second in range(0, 40, 5):
        watched.add(batch(stored([2 * second + 1], tokens(rng, 1)), seq=second // 5))
        counts.append(watched.read(float(second)).stored)
    assert counts[0] == BLOCK
    assert counts[-1] == 2 * BLOCK
    assert watched.total.stored == 8 * BLOCK


def test_a_gap_is_told_and_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.measure.servers.causes.event_losses.MOST_BLOCKS", 20)
    rng = random.Random(5)
    losses = EventLosses()
    for number in range(30):
        losses.add(0, batch(stored([number * 2 + 1, number * 2 + 2], tokens(rng, 2)), seq=number + number // 10))
    found = losses.sums()
    assert found.gaps == 2
    assert not found.whole
    assert found.stored == 60 * BLOCK
    assert any("forgotten" in note for note in found.notes)
    assert len(losses.seen) <= 20
