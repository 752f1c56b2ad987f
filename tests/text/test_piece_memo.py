from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kvtool.text.tokens.prompt import Ids
from kvtool.text.tokens.tokenizer import PieceMemo, Tokenizer


class Encoder:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, pieces: Sequence[str]) -> list[Ids]:
        self.asked += pieces
        return [np.array([ord(char) for char in piece], np.int32) for piece in pieces]


def texts(memo: PieceMemo, *pieces: str) -> str:
    return "|".join("".join(map(chr, ids)) for ids in memo(pieces))


def held(memo: PieceMemo) -> int:
    return sum(len(piece) for pieces in (memo._kept, memo._young, memo._old) for piece in pieces)


def test_what_comes_again_is_not_encoded_again() -> None:
    encoder = Encoder()
    memo = PieceMemo(encoder)
    assert texts(memo, "a", "b", "a") == "a|b|a"
    assert texts(memo, "b", "c") == "b|c"
    assert texts(memo) == ""
    assert texts(memo, "a", "b", "c") == "a|b|c"
    assert encoder.asked == ["a", "b", "c"]


def test_what_comes_once_is_forgotten() -> None:
    memo = PieceMemo(Encoder(), recent=100)
    for number in range(200):
        assert texts(memo, "shared", f"line {number:05}") == f"shared|line {number:05}"
        assert held(memo) <= 2 * 100 + 30
    assert "shared" in memo._kept


def test_text_that_comes_twice_at_once_is_kept_when_it_comes_again() -> None:
    """The end of a prompt and its answer come again in the next prompt, and then never."""
    encoder = Encoder()
    memo = PieceMemo(encoder, recent=100)
    lines = [f"line {number:05}" for number in range(200)]
    for line in lines:
        assert texts(memo, line) == texts(memo, line) == line
        assert held(memo) <= 2 * 100 + 30
    assert not memo._kept
    assert len(encoder.asked) == len(lines)
    for line in lines:
        assert texts(memo, line) == line
    assert set(memo._kept) == set(lines)


def test_in_the_second_reading_of_a_workload_it_is_kept() -> None:
    encoder = Encoder()
    memo = PieceMemo(encoder, recent=100)
    lines = [f"line {number:05}" for number in range(100)]
    for _ in range(4):
        for line in lines:
            assert texts(memo, line) == line
    assert len(encoder.asked) <= 2 * len(lines)


def test_the_mark_of_another_piece_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.text.tokens.tokenizer._MARKS", 1 << 10)
    memo = PieceMemo(Encoder(), recent=100)
    for number in range(4_000):
        memo([f"line {number:05}"])
    assert len(memo._kept) < 40  # a tenth of them found a mark in their place


def test_what_is_kept_is_bounded() -> None:
    memo = PieceMemo(Encoder(), recent=100, kept=500)
    for number in range(500):
        line = f"line {number:05}"
        assert texts(memo, line, "shared") == f"{line}|shared"
        assert texts(memo, line) == line
        assert held(memo) <= 500 + 2 * 100 + 30


def test_marks_are_wiped_before_everything_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.text.tokens.tokenizer._MARKS", 64)
    memo = PieceMemo(Encoder(), recent=20)
    for number in range(300):
        assert texts(memo, f"line {number:05}") == f"line {number:05}"
        assert sum(map(bool, memo._marks)) <= memo._marked <= 16 + 10


def test_ids_are_the_same_however_little_is_remembered(byte_tokenizer: Tokenizer) -> None:
    memo = PieceMemo(byte_tokenizer._encoded, recent=50, kept=200)
    for number in range(30):
        pieces = [f"line {number}\n", f"next {number * 7}\n", "shared tail\n"]
        assert np.concatenate(memo(pieces)).tolist() == byte_tokenizer.encode_ids("".join(pieces)).tolist()
