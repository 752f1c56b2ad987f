"""How the tokens that a difference blocks are divided between causes, and what is predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.alignment import Gap, attribute
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.turn import Turn
from tests.diagnose.made_causes import compared


def test_blame_share_and_prediction_by_hand(byte_tokenizer: Tokenizer) -> None:
    """Three differences: 27 tokens stand behind the first, 33 behind the first two, 17 behind all three."""
    before = "A: 10:31\n" + "x" * 18 + "\n" + "B: 1.2.3\n" + "y" * 28 + "\n" + "C: bob@a.de\n" + "z" * 11
    after = before.replace("10:31", "10:32").replace("1.2.3", "1.2.4").replace("bob", "eve")
    gaps = [Gap(7, 8, 7, 8, 27), Gap(35, 36, 35, 36, 33), Gap(69, 72, 69, 72, 17)]
    assert all(before[: gap.start] != after[: gap.stop] for gap in gaps)
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    assert book.add(turn, prompt, alignment) == ("blocked",) * 3
    clock, version, mail = sorted(book, key=lambda cause: cause.slot.line)
    assert [cause.kind.key for cause in (clock, version, mail)] == ["clock", "version", "email"]
    assert (clock.blocked, version.blocked, mail.blocked) == (27 + 33 + 17, 0, 0)
    assert clock.share == pytest.approx(27 + 33 / 2 + 17 / 3)
    assert version.share == pytest.approx(33 / 2 + 17 / 3)
    assert mail.share == pytest.approx(17 / 3)
    # What stands behind a value on its line goes with it: nothing behind the clock and the version, `@a.de` behind the name.
    assert book.predicted("g", [clock.slot]) == 27
    assert book.predicted("g", [version.slot, mail.slot]) == 0
    assert book.predicted("g", [clock.slot, mail.slot, version.slot]) == 27 + 33 + 17 - len("@a.de")
    assert book.predicted("another", [clock.slot]) == 0
    assert [(cause.requests, cause.seen) for cause in (clock, version, mail)] == [(1, 1), (0, 1), (0, 1)]


def test_what_is_predicted_comes_in_whole_blocks(byte_tokenizer: Tokenizer) -> None:
    """Seven tokens are known, 35 follow the clock, 33 the version: 7, 42 and 75 tokens reach 0, 2 and 4 blocks of 16."""
    before = "A: 10:31\n" + "x" * 26 + "\n" + "B: 1.2.3\n" + "y" * 32
    after = before.replace("10:31", "10:32").replace("1.2.3", "1.2.4")
    gaps = [Gap(7, 8, 7, 8, 35), Gap(43, 44, 43, 44, 33)]
    book = CauseBook(block_size=16)
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    book.add(turn, prompt, replace(alignment, known=7))
    clock, version = sorted(book, key=lambda cause: cause.slot.line)
    assert book.predicted("g", [clock.slot]) == (7 + 35) // 16 * 16
    assert book.predicted("g", [clock.slot, version.slot]) == (7 + 35 + 33) // 16 * 16


def test_the_last_token_is_never_predicted(byte_tokenizer: Tokenizer) -> None:
    """A prompt of exactly two blocks: all of it would be known, and the block of its last token is computed all the same."""
    before, after = "A: 10:31\n" + "x" * 23, "A: 10:32\n" + "x" * 23
    book = CauseBook(block_size=16)
    turn, prompt, alignment = compared(byte_tokenizer, before, after, [Gap(7, 8, 7, 8, 24)])
    assert len(prompt) == 32
    book.add(turn, prompt, replace(alignment, known=8))  # as if the clock had been known
    (clock,) = book
    assert book.predicted("g", [clock.slot]) == 16


def test_a_request_has_sixteen_names_at_most(byte_tokenizer: Tokenizer) -> None:
    before = "".join(f"{number:02d}: 10:31\n.........\n" for number in range(40))
    after = before.replace("10:31", "10:32")
    size = len(before) // 40
    gaps = [Gap(size * number + 8, size * number + 9, 0, 0, size - 1) for number in range(40)]
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    assert len(book.add(turn, prompt, alignment)) == 40
    assert len(list(book)) == 16
    total = 40 * (size - 1)
    assert sum(cause.blocked for cause in book) == total
    assert sum(cause.share for cause in book) == pytest.approx(total)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5), st.booleans()), min_size=1, max_size=30))
def test_shares_add_up_to_what_is_blocked(byte_tokenizer: Tokenizer, pieces: list[tuple[int, int, bool]]) -> None:
    before = after = "head\n"
    gaps: list[Gap] = []
    for run, slot, empty in pieces:
        start = len(after)
        before, after = before + f"{slot}: a", after + f"{slot}: b" * (not empty)
        gaps.append(Gap(start, len(after), len(before) - 4, len(before), run))
        before, after = before + "." * (run - 1) + "\n", after + "." * (run - 1) + "\n"
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    rungs = book.add(turn, prompt, alignment)
    want = sum(found.stop - found.start for found in attribute(alignment, rungs))
    assert sum(cause.blocked for cause in book) == want
    assert sum(cause._share_units for cause in book) == want * 720_720  # exactly, not as floats
    assert 0 <= book.predicted("g", [cause.slot for cause in book]) <= want


def test_volatility_is_changes_by_comparisons(byte_tokenizer: Tokenizer) -> None:
    """In one session the clock changed in two of three comparisons, between sessions in one of two."""
    book = CauseBook()
    for index, sessions in enumerate([("s", "s"), ("s", "s"), ("s", "t")]):
        before, after = (f"Now: 10:{30 + index + side}\n" + "x" * 20 for side in (0, 1))
        turn, prompt, alignment = compared(byte_tokenizer, before, after, [Gap(9, 10, 9, 10, 21)], sessions=sessions)
        book.add(turn, prompt, alignment)
    book.met(Turn("g", session="s"), Turn("g", session="s"))
    book.met(Turn("g"), Turn("g"))  # without sessions, each request is one of its own
    (cause,) = book
    assert cause.volatility_within == pytest.approx(2 / 3)
    assert cause.volatility_across == pytest.approx(1 / 2)
