"""Replay of gaps: under its own time to live a log costs what was paid; another one gains and loses by its gaps."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.accounting.misses.advised_change import beside_pauses, first_change, pauses_cost_less
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_table import price_table
from kvtool.report.views.time_to_live import compaction_sentence, ttl_sentence
from kvtool.results.misses import CacheMisses
from kvtool.workload.call import Call, Usage
from kvtool.workload.turn import Turn
from tests.accounting.misses.test_miss_book import CLOCK, enter

PRICES = price_table()
MODEL = "claude-opus-4-8"


def session_of(steps: list[tuple[float, int]], *, hour: bool, cut: int | None = None) -> CacheMisses:
    """Return the misses of a session with these gaps and new tokens; at step `cut` it begins anew, shorter.

    Its provider keeps prompts as long as it promises.
    """
    book, source = MissBook(MoneyBook(PRICES), CLOCK, True), random.Random(1)
    ids, now, stored = np.arange(8_000, dtype=np.int32), 0.0, 0
    for number, (gap, new) in enumerate(steps):
        now += gap
        if number == cut:
            ids, stored = np.arange(50_000, 52_000, dtype=np.int32), 0
        ids = np.concatenate([ids, np.asarray([source.randrange(100_000) for _ in range(new)], np.int32)])
        read = stored if gap <= (3600 if hour else 300) else 0
        written = len(ids) - read
        usage = Usage(len(ids), read, written, 0 if hour else written, written if hour else 0, 10)
        call = Call(model=MODEL, provider="anthropic", usage=usage, incomplete="no system prompt")
        enter(book, Turn("g", session="s", arrival=now, call=call), ids, f"r{number}")
        stored = len(ids)
    misses = book.misses()
    assert misses is not None
    return misses


STEPS = st.lists(
    st.tuples(st.sampled_from([10.0, 250.0, 900.0, 3_000.0, 9_000.0]), st.integers(10, 500)), min_size=1, max_size=8
)


@settings(max_examples=25)
@given(steps=STEPS, hour=st.booleans())
def test_its_own_time_to_live_costs_what_was_paid(steps: list[tuple[float, int]], hour: bool) -> None:
    ttl = session_of(steps, hour=hour).ttl
    other = session_of(steps, hour=not hour).ttl
    assert ttl is not None
    assert other is not None
    assert (ttl.one_hour if hour else ttl.five_minutes) == ttl.paid
    assert (ttl.five_minutes if hour else ttl.one_hour) == other.paid, "as if the other one had been asked for"


def test_an_hour_is_worth_it_by_the_gaps() -> None:
    """Opus 4.8: input $5 for a million tokens; written for 5 minutes 1.25 times that, for an hour 2 times, read a tenth."""
    ttl = session_of([(10.0, 0), (900.0, 0)], hour=False).ttl
    assert ttl is not None
    million, answers = Decimal(1_000_000), 2 * 10 * Decimal(25)
    assert Decimal(ttl.paid) == (2 * 8_000 * Decimal("6.25") + answers) / million
    assert Decimal(ttl.one_hour) == (8_000 * (Decimal(10) + Decimal("0.5")) + answers) / million
    said = ttl_sentence(ttl)
    assert said.startswith(f"2 requests to {MODEL} cost $0.10 as sent")
    assert "sent, with 5-minute caching. 1-hour caching would cost $" in said
    assert said.endswith("Caching for 1 hour saves $0.0160.")
    assert ttl_sentence(None) == ""


def test_a_pause_that_lost_less_than_an_hour_costs_is_left_alone() -> None:
    misses = session_of([(10.0, 0), (400.0, 0), *[(10.0, 500)] * 40], hour=False)
    assert list(misses.by_cause) == ["expired"]
    assert first_change(misses) == ""
    said = pauses_cost_less(misses)
    assert said.startswith("1 of 42 requests came after the prefix expired, $")
    assert "1-hour caching would cost $" in said
    lost = misses.by_cause["expired"]
    both = misses.model_copy(update={"by_cause": {"expired": lost, "model_changed": lost}})
    assert beside_pauses(first_change(both), both).startswith("Keep one model for a session")
    assert beside_pauses(first_change(both), both).endswith(f". The largest loss stays: {said}")
    other = misses.model_copy(update={"by_cause": {"model_changed": lost, "expired": lost}})
    assert beside_pauses("Keep one model", other) == "Keep one model"


def test_a_compaction_has_its_price_and_its_gain() -> None:
    (found,) = session_of([(10.0, 0)] * 4, hour=False, cut=2).compactions
    million = Decimal(1_000_000)
    assert (found.before, found.after, found.computed, found.turns) == (8_000, 2_000, 2_000, 2)
    assert Decimal(found.cost or 0) == 2_000 * (Decimal("6.25") - Decimal("0.5")) / million
    per_turn = 6_000 * Decimal("0.5") / million
    assert Decimal(found.saved or 0) == 2 * per_turn - Decimal(found.cost or 0)
    assert found.break_even == 4
    assert compaction_sentence([found]) == (
        "1 compaction: cost $0.0115, saved $0.0060; to be paid back after 4 requests. "
        "The log does not have the price of the summary."
    )
    assert compaction_sentence([]) == ""


def test_a_provider_without_a_choice_has_no_replay() -> None:
    book = MissBook(MoneyBook(PRICES), CLOCK, True)
    for number in range(2):
        call = Call(model="gpt-5", usage=Usage(prompt=3_000, cached=0, output=5))
        enter(
            book,
            Turn("g", session="s", arrival=30.0 * number, call=call),
            np.arange(3_000, dtype=np.int32),
            f"r{number}",
        )
    misses = book.misses()
    assert misses is not None
    assert misses.ttl is None


def test_misses_by_exclusion_have_a_hash_of_the_prefix() -> None:
    book = MissBook(None, CLOCK, True)
    for number in range(3):
        usage = Usage(6_000, 0, 6_000, 6_000, 0, 5)
        call = Call(model=MODEL, usage=usage)
        enter(
            book,
            Turn("g", session="s", arrival=30.0 * number, call=call),
            np.arange(6_000, dtype=np.int32),
            f"r{number}",
        )
    misses = book.misses()
    assert misses is not None
    first, second = misses.events
    assert first.cause == "provider"
    assert first.prefix == second.prefix
    assert len(first.prefix or "") == 16


def mixed(gaps: list[float], lost: int | None) -> CacheMisses:
    """Requests of one system prompt, marked for an hour, each with a question of its own, marked for 5 minutes.

    The provider loses the system prompt before request `lost`, and else keeps it as long as it promises.
    """
    book, source = MissBook(MoneyBook(PRICES), CLOCK, True), random.Random(len(gaps))
    front, now, kept = np.arange(4_000, dtype=np.int32), 0.0, False
    for number, gap in enumerate([0.0, *gaps]):
        now += gap
        ids = np.concatenate([front, np.asarray([source.randrange(10**6) for _ in range(200)], np.int32)])
        read = len(front) if kept and number != lost and gap <= 3_600 else 0
        written, kept = len(ids) - read, True
        usage = Usage(len(ids), read, written, 200, written - 200, 10)
        enter(
            book, Turn("g", arrival=now, call=Call(model=MODEL, provider="anthropic", usage=usage)), ids, f"r{number}"
        )
    misses = book.misses()
    assert misses is not None
    return misses


@settings(max_examples=20)
@given(gaps=st.lists(st.sampled_from([20.0, 600.0, 3_000.0, 9_000.0]), min_size=1, max_size=6), data=st.data())
def test_each_mark_keeps_its_own_part_for_its_own_time(gaps: list[float], data: st.DataObject) -> None:
    lost = data.draw(st.none() | st.integers(1, len(gaps)))
    misses = mixed(gaps, lost)
    expired = [f"r{number}" for number, gap in enumerate(gaps, 1) if gap > 3_600]
    assert [event.request for event in misses.events if event.cause == "expired"] == expired
    others = [event.request for event in misses.events if event.cause != "expired"]
    assert others == [f"r{lost}" for _ in range(1) if lost is not None and f"r{lost}" not in expired]
    assert misses.ttl is not None
    if any(300 < gap <= 3_600 for number, gap in enumerate(gaps, 1) if number != lost):
        assert Decimal(misses.ttl.five_minutes) > Decimal(mixed([20.0 for _ in gaps], lost).ttl.five_minutes)  # type: ignore[union-attr]


def test_a_system_prompt_whose_text_changed_is_no_message_that_was_added_later() -> None:
    misses = session_of([(10.0, 0), (900.0, 0)], hour=False)
    lost = misses.by_cause["expired"]

    def advised(certainty: str, place: str) -> str:
        event = misses.events[0].model_copy(update={"cause": "system_changed", "certainty": certainty, "place": place})
        return first_change(misses.model_copy(update={"events": [event], "by_cause": {"system_changed": lost}}))

    said = advised("proven", "a.jsonl:4, messages[0] (system), line 3")
    assert said.startswith("Send the same text each time")
    assert said.endswith("line 3")
    assert advised("consistent", "a.jsonl:4, messages[5]").startswith("Send system messages that come after the first")


def test_a_model_is_replayed_by_the_gap_since_its_own_last_use() -> None:
    """Opus, four minutes later Sonnet, two minutes later Opus again: after 5 minutes Opus keeps nothing, after an hour it does."""
    book, ids = MissBook(MoneyBook(PRICES), CLOCK, True), np.arange(8_000, dtype=np.int32)
    for number, (model, now, read) in enumerate(
        [(MODEL, 0.0, 0), ("claude-sonnet-4-5", 240.0, 0), (MODEL, 360.0, 8_000)]
    ):
        usage = Usage(8_000, read, 8_000 - read, 0, 8_000 - read, 10)
        call = Call(model=model, provider="anthropic", usage=usage, incomplete="no system prompt")
        enter(book, Turn("g", session="s", arrival=now, call=call), ids, f"r{number}")
    misses = book.misses()
    assert misses is not None
    assert misses.ttl is not None
    million, answers = Decimal(1_000_000), 10 * (2 * Decimal(25) + 15)
    assert Decimal(misses.ttl.five_minutes) == (8_000 * (2 * Decimal("6.25") + Decimal("3.75")) + answers) / million
    assert misses.ttl.one_hour == misses.ttl.paid
