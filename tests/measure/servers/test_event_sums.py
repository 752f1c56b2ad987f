from __future__ import annotations

import pytest

pytest.importorskip("msgspec")

from kvtool.measure.servers.kv_events import event_sums
from kvtool.measure.servers.kv_events.event_batches import read_event_file, read_payload
from kvtool.measure.servers.kv_events.event_sums import EventCounter, EventSums
from tests.measure.servers.published import CLEARED, RECORDINGS, payload, removed, stored

SIZE = 4


def sums_of(*steps: tuple[float, list[object]], first: int = 0) -> EventSums:
    counter = EventCounter()
    for number, (at, events) in enumerate(steps, first):
        counter.add(read_payload(payload(events, at=at), number))
    return counter.sums()


def one(number: int, session: str | None = None) -> dict[str, object]:
    return stored([number], [number] * SIZE, session_id=session)


def test_what_is_stored_again_after_its_eviction_is_lost() -> None:
    found = sums_of((1.0, [one(1, "a"), one(2, "a")]), (4.0, [removed(1)]), (5.0, [one(1, "b"), one(3, "b")]))
    assert (found.stored, found.evicted, found.stored_again, found.lost_tokens, found.held) == (4, 1, 1, SIZE, 3)
    assert found.losers == (("b", SIZE),)
    assert found.age is not None
    assert found.age.p50 == 3.0


def test_a_copy_that_is_left_is_no_loss() -> None:
    found = sums_of((1.0, [one(1)]), (2.0, [one(1)]), (4.0, [removed(1)]), (5.0, [one(1)]))
    assert (found.stored_again, found.held) == (0, 2)
    assert found.age is not None
    assert found.age.p50 == 3.0  # the older copy


def test_a_reset_is_no_eviction() -> None:
    found = sums_of((1.0, [one(1), removed(1)]), (2.0, [CLEARED]), (3.0, [one(1)]))
    assert (found.cleared, found.stored_again, found.held) == (1, 0, 1)


def test_what_is_held_is_not_known_after_a_gap() -> None:
    counter = EventCounter()
    for number in (0, 1, 3):
        counter.add(read_payload(payload([one(number)]), number))
    assert (counter.sums().held, counter.sums().gaps) == (None, 1)
    counter.add(read_payload(payload([CLEARED, one(9)]), 4))
    assert counter.sums().held == 1
    counter.add(read_payload(payload([one(8)]), 0))
    assert (counter.sums().held, counter.sums().restarts) == (1, 1)
    counter.add(read_payload(b"", 1))
    assert (counter.sums().problems, counter.sums().held) == (1, None)


def test_who_comes_late_does_not_know_what_is_held() -> None:
    assert sums_of((1.0, [one(1)]), first=5).held is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_REMEMBERED", "MOST_SESSIONS"):
        monkeypatch.setattr(event_sums, name, 2)
    counter = EventCounter()
    numbers = range(6)
    events = [*(one(n, "a") for n in numbers), *(removed(n) for n in numbers), *(one(n, f"s{n}") for n in numbers)]
    counter.add(read_payload(payload(events), 0))
    assert counter.sums().stored_again == 2
    counter.add(read_payload(payload([*(removed(n) for n in numbers), one(4, "x"), one(5, "y")]), 1))
    assert dict(counter.sums().losers) == {"s4": SIZE, "s5": SIZE, None: 2 * SIZE}


def test_more_than_any_cache_holds_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sums, "MOST_HELD", 10)
    counter = EventCounter()
    for number in range(20):
        counter.add(read_payload(payload([one(1)]), number))
    assert (counter.sums().held, counter.sums().stored) == (None, 20)


def test_of_a_real_server() -> None:
    folder = RECORDINGS / "eviction"
    if not folder.is_dir():
        pytest.skip("the recordings hold other people's prompts and are not part of the repository")
    counter = EventCounter()
    for batch in read_event_file(folder):
        counter.add(batch)
    found = counter.sums()
    assert (found.stored, found.evicted, found.held, found.cleared, found.gaps) == (6728, 6330, 398, 1, 0)
    assert found.lost_tokens == 32 * found.stored_again == sum(tokens for _, tokens in found.losers)
    assert found.age is not None
    assert 0 < found.age.p50 < 114
