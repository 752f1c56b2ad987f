"""The protocol of ZeroMQ as kvtool reads it: whole messages however they are cut, and never more of one than is wanted."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.measure.servers.kv_events.zmtp import FrameReader, ProtocolError, ReceivedMessage

MOST = 100
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB"
SHORT = st.lists(st.binary(max_size=12), min_size=1, max_size=8)
LARGE = st.lists(st.binary(min_size=60, max_size=300), min_size=2, max_size=12)


def written(parts: list[bytes], long: bool) -> bytes:
    frames = []
    for at, part in enumerate(parts):
        wide = long or len(part) > 255
        flags = (at < len(parts) - 1) | 2 * wide
        frames.append(bytes([flags]) + len(part).to_bytes(8 if wide else 1, "big") + part)
    return b"".join(frames)


@given(st.data(), st.lists(st.tuples(SHORT | LARGE, st.booleans()), max_size=6))
def test_messages_are_whole_or_too_large_however_they_are_cut(
    data: st.DataObject, messages: list[tuple[list[bytes], bool]]
) -> None:
    sent = GREETING + READY + b"".join(written(*each) for each in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=10)))
    reader = FrameReader(most=MOST)
    found = [message for a, b in itertools.pairwise([0, *cuts, len(sent)]) for message in reader.take(sent[a:b])]
    assert reader.ready
    assert len(found) == len(messages)
    for message, (parts, _) in zip(found, messages, strict=True):
        if sum(map(len, parts)) <= MOST and len(parts) <= 8:
            assert message == ReceivedMessage(tuple(parts))
        else:
            assert message.too_large is not None
            assert list(message.parts) == parts[: len(message.parts)]
            assert sum(map(len, message.parts)) <= MOST


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_what_is_no_protocol_is_refused_or_waited_for(parts: list[bytes], greeted: bool) -> None:
    reader = FrameReader(most=MOST)
    try:
        for part in [*([GREETING] if greeted else []), *parts]:
            assert not list(reader.take(part))  # nobody is ready before the handshake
    except ProtocolError:
        pass


def test_a_message_without_end_takes_no_room_and_is_told_once() -> None:
    def endless() -> Iterator[bytes]:
        yield GREETING + READY
        for _ in range(500):
            yield b"\x03" + (1 << 16).to_bytes(8, "big") + bytes(1 << 16)

    reader = FrameReader(most=MOST)
    tracemalloc.start()
    try:
        found = [message for part in endless() for message in reader.take(part)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [ReceivedMessage((), "65,536 bytes")]
    assert most < 1 << 20


def test_a_large_command_is_refused() -> None:
    reader = FrameReader(most=MOST)
    with pytest.raises(ProtocolError):
        list(reader.take(GREETING + READY + b"\x06" + (1 << 40).to_bytes(8, "big")))
