"""A publisher as vLLM's is, made here: PUB for what happens, ROUTER for what has happened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("zmq")
pytest.importorskip("msgspec")

import zmq

from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events import event_listener, event_subscriber
from kvtool.measure.servers.kv_events.event_batches import MAX_PAYLOAD, EventBatch
from kvtool.measure.servers.kv_events.event_listener import EventListener
from kvtool.measure.servers.kv_events.event_state import RankStates
from kvtool.measure.servers.kv_events.event_subscriber import EventSource, EventSubscriber
from kvtool.measure.servers.kv_events.zmtp import Connection
from tests.measure.servers.fake_publisher import LONG, FakePublisher
from tests.measure.servers.published import CLEARED, payload, removed, stored


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[FakePublisher]:
    made = FakePublisher(tmp_path)
    yield made
    made.close()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[FakePublisher]:
    """One that cannot be asked."""
    made = FakePublisher(tmp_path, answers=False)
    yield made
    made.close()


def take(subscriber: EventSubscriber, count: int) -> list[EventBatch]:
    """As many batches as are expected."""
    found: list[EventBatch] = []
    for batch in subscriber.batches(LONG):
        found.append(batch)
        if len(found) == count:
            break
    return found


def block(number: int, *, at: float | None = None) -> bytes:
    return payload([stored([number], [number] * 4)], at=float(number) if at is None else at)


def test_what_was_before_is_asked_for_and_what_comes_follows(publisher: FakePublisher) -> None:
    for number in range(3):
        publisher.keep(number, block(number))
    with EventSubscriber([publisher.source]) as subscriber:
        publisher.wait_for_subscriber()
        publisher.publish(2, block(2), keep=False)  # it comes by both ways
        publisher.publish(3, block(3))
        found = take(subscriber, 4)
        publisher.publish(4, block(4))
        found += take(subscriber, 1)
    assert [batch.seq for batch in found] == [0, 1, 2, 3, 4]
    assert publisher.asked == [0]
    states = RankStates()
    for batch in found:
        states.add(batch)
    assert states.breaks == []
    assert sorted(states.ranks[0].copies) == [0, 1, 2, 3, 4]


def test_a_gap_is_asked_for(publisher: FakePublisher) -> None:
    with EventSubscriber([publisher.source]) as subscriber:
        publisher.wait_for_subscriber()
        publisher.publish(0, block(0))
        found = take(subscriber, 1)
        publisher.keep(1, block(1))
        publisher.keep(2, block(2))
        publisher.publish(3, block(3))
        found += take(subscriber, 3)
    assert [batch.seq for batch in found] == [0, 1, 2, 3]
    assert publisher.asked == [0, 1]


def test_a_gap_that_nobody_fills_is_a_gap(publisher: FakePublisher) -> None:
    with EventSubscriber([publisher.source]) as subscriber:
        publisher.wait_for_subscriber()
        publisher.publish(0, block(0))
        found = take(subscriber, 1)
        publisher.publish(5, block(5))
        found += take(subscriber, 1)
    states = RankStates()
    for batch in found:
        states.add(batch)
    assert [str(each) for each in states.breaks] == ["4 batches are missing before number 5 of rank 0"]
    assert not states.ranks[0].known


def test_without_an_endpoint_to_ask_a_late_subscriber_knows_nothing(silent: FakePublisher) -> None:
    with EventSubscriber([silent.source]) as subscriber:
        silent.wait_for_subscriber()
        silent.publish(8, block(8))
        silent.publish(9, payload([CLEARED]))
        states = RankStates()
        first, second = take(subscriber, 2)
        states.add(first)
        assert not states.ranks[0].known
        states.add(second)
        assert states.ranks[0].known


def test_a_server_that_begins_anew(publisher: FakePublisher) -> None:
    with EventSubscriber([publisher.source]) as subscriber:
        publisher.wait_for_subscriber()
        publisher.publish(0, block(0, at=10.0))
        publisher.publish(1, block(1, at=11.0))
        found = take(subscriber, 2)
        publisher.kept.clear()
        publisher.keep(0, block(7, at=20.0))
        publisher.publish(1, block(8, at=21.0))
        found += take(subscriber, 2)
    assert [(batch.seq, batch.at) for batch in found] == [(0, 10.0), (1, 11.0), (0, 20.0), (1, 21.0)]
    states = RankStates()
    for batch in found:
        states.add(batch)
    assert [each.restarted for each in states.breaks] == [True]
    assert states.ranks[0].known
    assert sorted(states.ranks[0].copies) == [7, 8]


def test_hostile_messages_are_counted(silent: FakePublisher) -> None:
    with EventSubscriber([silent.source]) as subscriber:
        silent.wait_for_subscriber()
        silent.publish(0, payload([CLEARED]))
        silent.pub.send_multipart([b"alone"])
        silent.pub.send_multipart([b"kv", b"short", b"x"])
        silent.publish(1, b"\x93\x01" + b"\x91" * 100_000)
        silent.publish(2, b"x" * (MAX_PAYLOAD + 1))
        silent.publish(2**64 - 1, payload([removed(1)]))
        found = take(subscriber, 6)
    assert [len(batch.problems) for batch in found] == [0, 1, 1, 1, 1, 0]
    assert [batch.lost for batch in found] == [False, True, True, True, True, False]
    states = RankStates()
    for batch in found:
        states.add(batch)
    assert not states.ranks[0].known


def test_a_message_of_100_megabytes_is_a_sentence(silent: FakePublisher) -> None:
    with EventSubscriber([silent.source]) as subscriber:
        silent.wait_for_subscriber()
        silent.publish(0, bytes(100 << 20))
        silent.publish(1, block(1))
        found = take(subscriber, 2)
    assert found[0].problems == ("a message of 104,857,610 bytes is too large: 2,097,152 bytes are the most",)
    assert (found[1].seq, found[1].lost) == (1, False)


def test_a_publisher_that_dies_is_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_subscriber, "REPLAY_SECONDS", 0.05)
    made = FakePublisher(tmp_path)
    with EventSubscriber([made.source]) as subscriber:
        made.wait_for_subscriber()
        made.publish(0, block(0))
        assert len(take(subscriber, 1)) == 1
        made.close()
        assert list(subscriber.batches(0.05)) == []
    with EventSubscriber([made.source]) as subscriber:  # nobody is there at all
        assert list(subscriber.batches(0.05)) == []


def test_several_ranks_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    made = [FakePublisher(folder, answers=False) for folder in folders]
    sources = [EventSource(each.source.endpoint, rank=number) for number, each in enumerate(made)]
    try:
        with EventSubscriber(sources) as subscriber:
            for number, each in enumerate(made):
                each.wait_for_subscriber()
                each.publish(0, payload([stored([number], [number] * 4)], rank=None))
            assert sorted(batch.rank for batch in take(subscriber, 2)) == [0, 1]
    finally:
        for each in made:
            each.close()


def test_an_interrupt_closes_the_connections(publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> list[Connection]:
        raise KeyboardInterrupt

    with EventSubscriber([publisher.source]) as subscriber:
        assert list(subscriber.batches(0)) == []
        publisher.wait_for_subscriber()
        monkeypatch.setattr(event_subscriber, "ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(subscriber.batches(LONG))
    assert [each.connection.socket for each in subscriber._publishers] == [None]


def test_an_endpoint_that_is_none_is_a_sentence() -> None:
    for endpoint in [
        "tcp://*:5557",
        "inproc://x",
        "localhost:5557",
        "tcp://h",
        "http://h:1",
        "tcp://h:1\n",
        "tcp://h:99999",
        "tcp://h:0",
        "ipc://",
        "",
    ]:
        with pytest.raises(KvtoolError, match="not an endpoint of KV events"):
            EventSource(endpoint)


def test_an_endpoint_that_cannot_be_connected_to_is_a_sentence() -> None:
    with pytest.raises(KvtoolError, match=r"cannot connect to .*: AF_UNIX path too long"):
        EventSubscriber([EventSource("ipc:///" + "x" * 300)])


def test_a_server_that_drips_old_batches_is_asked_once_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_subscriber, "REPLAY_TOTAL", 0.3)
    made = FakePublisher(tmp_path, answers=False)
    source = EventSource(made.source.endpoint, f"ipc://{tmp_path}/replay")
    asked: list[bytes] = []
    closing = threading.Event()

    def drip() -> None:
        with made.context.socket(zmq.ROUTER) as router:
            router.bind(source.replay or "")
            while not closing.wait(0.02):
                if router.poll(0):
                    asked.append(router.recv_multipart()[0])
                for number, peer in enumerate(asked):
                    router.send_multipart([peer, b"", b"kv", number.to_bytes(8, "big"), block(0)])

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with EventSubscriber([source]) as subscriber:
            made.wait_for_subscriber()
            list(subscriber.batches(0))
            for number in (10, 20, 30):  # each after a gap
                made.publish(number, block(number))
            assert [batch.seq for batch in take(subscriber, 3)] == [10, 20, 30]
    finally:
        closing.set()
        thread.join()
        made.close()
    assert len(asked) == 1


def test_a_listener_keeps_no_more_than_it_has_room_for(silent: FakePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_listener, "MOST_KEPT", 200)
    with EventListener([silent.source]) as listener:
        silent.wait_for_subscriber()
        for number in range(50):
            silent.publish(number, block(number))
        kept = listener.since()
    assert 1 < len(kept) < 10
    assert [batch.lost for batch in kept] == [False] * (len(kept) - 1) + [True]
    assert "are dropped" in kept[-1].problems[0]
