"""Misses in reported usage: a hidden cache makes the reports, and every miss that it makes is found with its cause."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
import pytest

from kvtool.accounting.misses import hypothesis_trials, miss_events, prompt_states
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.misses.prompt_states import NO_NAMES, CacheKey, PromptStates, chunk_names
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_table import price_table
from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.request import Request
from kvtool.results.misses import MissCause, MissEvent
from kvtool.workload.call import Began, CacheScope, Call, CallSettings, ReportedMiss, Usage
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

FRONT = 640
"""Tokens of system prompt and tools, which all requests of a session share."""
CLOCK = 1_760_000_000.0
CAUSES: tuple[MissCause, ...] = (
    "expired",
    "model_changed",
    "host_changed",
    "key_changed",
    "setting_changed",
    "provider",
    "compaction",
    "system_changed",
    "wire_form",
)


@dataclass
class HiddenSession:
    """A session and its provider's cache, of which the log shows only the usage."""

    source: random.Random
    name: str
    whole: bool
    front: np.ndarray
    now: float
    call: Call = field(default_factory=lambda: Call(model="claude-opus-4-8", provider="anthropic"))
    stored: int = 0
    listed: bool = False

    def __post_init__(self) -> None:
        self.ids = np.concatenate([self.front, self.text(200)])
        self.roles = ["system", "user"]

    def text(self, tokens: int) -> np.ndarray:
        return np.asarray([self.source.randrange(1_000, 100_000) for _ in range(tokens)], np.int32)

    def request(self, cause: MissCause | None) -> tuple[Turn, np.ndarray, int]:
        """Return the next request and the tokens that it misses by this cause; None: all that is cached is read."""
        self.now += 30.0
        cached = self.stored
        match cause:
            case "expired":
                self.now += 400.0
                cached = 0
            case "model_changed":
                self.call = replace(self.call, model=f"claude-opus-4-{self.source.choice([5, 6, 7])}-x{self.now}")
                cached = 0
            case "host_changed":
                self.call = replace(self.call, provider=f"host{self.now}")
                cached = 0
            case "key_changed":
                self.call = replace(self.call, scope=CacheScope(key=f"key{self.now}"))
                cached = 0
            case "setting_changed":
                self.call = replace(self.call, settings=CallSettings(thinking=f"{self.now}"))
                cached = FRONT
            case "provider":
                cached = FRONT
            case "compaction":
                self.ids = np.concatenate([self.front, self.text(150)])
                self.roles = ["system", "user"]
                cached = self.source.choice([0, FRONT // 2, FRONT])
            case "system_changed":
                self.roles.append("system")
                cached = 0
            case "wire_form":
                self.listed = not self.listed
                cached = FRONT
        self.ids = np.concatenate([self.ids, self.text(self.source.randrange(70, 300))])
        self.roles.append("user")
        prompt = len(self.ids)
        missed = min(self.stored, prompt) - cached if cause is not None else 0
        if cause == "compaction":
            missed = FRONT - cached  # the summary and what follows repeat nothing
        usage = Usage(prompt, cached, prompt - cached, prompt - cached, 0, 20)
        incomplete = None if self.whole else "system prompt and tools are not in the file"
        content = [{"type": "text", "text": "x"}] if self.listed else "x"
        turn = Turn(
            "g",
            messages=[{"role": role, "content": content} for role in self.roles],
            session=self.name,
            arrival=self.now,
            call=replace(self.call, usage=usage, incomplete=incomplete),
        )
        self.stored = prompt
        return turn, self.ids if self.whole else self.ids[FRONT:], missed


def enter(book: MissBook, turn: Turn, ids: np.ndarray, name: str) -> None:
    request = Request(name, len(ids), prompt_ids=ids, output_ids=[0])
    book.end(Job(turn, None, request, ids, 1, ""), None, ServedRequest(0))


def made_log(seed: int, *, whole: bool) -> tuple[MissBook, dict[str, tuple[MissCause, int]]]:
    """Return the book of a made log, and the misses that were made, by request."""
    source = random.Random(seed)
    fronts = [np.asarray([source.randrange(1_000, 100_000) for _ in range(FRONT)], np.int32) for _ in range(3)]
    book = MissBook(None, CLOCK, True)
    made: dict[str, tuple[MissCause, int]] = {}
    sessions = [HiddenSession(source, f"s{number}", whole, front, 1e4 * number) for number, front in enumerate(fronts)]
    allowed = [cause for cause in CAUSES if whole != (cause == "compaction")]
    for number in range(60):
        session = source.choice(sessions)
        cause = source.choice(allowed) if source.random() < 0.3 and session.stored else None
        if cause == "compaction" and len(session.ids) < FRONT + 600:
            cause = None  # nobody compacts a short conversation
        turn, ids, missed = session.request(cause)
        if cause is not None:
            made[f"r{number}"] = cause, missed
        enter(book, turn, ids, f"r{number}")
    return book, made


@pytest.mark.parametrize("whole", [True, False])
def test_every_miss_is_found_with_its_cause(whole: bool) -> None:
    checked: Counter[str] = Counter()
    for seed in range(40):
        book, made = made_log(seed, whole=whole)
        misses = book.misses()
        assert misses is not None
        found = {event.request: (event.cause, event.tokens) for event in misses.events if event.cause != "first_use"}
        assert {name: cause for name, (cause, _) in found.items()} == {
            name: cause for name, (cause, tokens) in made.items() if tokens > 64
        }
        assert all(abs(found[name][1] - tokens) <= 96 for name, (_, tokens) in made.items() if tokens > 64)
        assert misses.promised - misses.read == sum(each.tokens for each in misses.by_cause.values())
        assert misses.promised - misses.read == sum(event.tokens for event in misses.events)
        checked.update(cause for cause, _ in made.values())
    assert min(checked.values()) > 30, "every cause was made often"


def test_a_healthy_log_has_no_misses() -> None:
    for whole in (True, False):
        source = random.Random(7)
        front = np.arange(FRONT, dtype=np.int32)
        session = HiddenSession(source, "s", whole, front, 0.0)
        book = MissBook(None, CLOCK, True)
        for number in range(30):
            turn, ids, _ = session.request(None)
            enter(book, turn, ids, f"r{number}")
        misses = book.misses()
        assert misses is not None
        assert (misses.events, misses.promised) == ([], misses.read)


def one_miss(*, written_1h: bool) -> MissEvent:
    book = MissBook(MoneyBook(price_table()), CLOCK, True)
    for number, read in enumerate((0, 0)):
        ids = np.arange(6_000, dtype=np.int32)
        usage = Usage(6_003, read, 6_000, 0 if written_1h else 6_000, 6_000 if written_1h else 0, 10)
        call = Call(model="claude-opus-4-8", provider="anthropic", usage=usage)
        enter(book, Turn("g", session="s", arrival=30.0 * number, call=call), ids, f"r{number}")
    misses = book.misses()
    assert misses is not None
    (event,) = misses.events
    return event


def test_a_miss_costs_what_its_mark_costs_above_a_read() -> None:
    """Anthropic: a write for 5 minutes costs 1.25 times the input, one for an hour 2 times, a read a tenth."""
    short, long = one_miss(written_1h=False), one_miss(written_1h=True)
    assert short.cost is not None
    assert long.cost is not None
    assert short.tokens == long.tokens == pytest.approx(6_000, abs=32)
    assert Decimal(long.cost) / Decimal(short.cost) == (Decimal(2) - Decimal("0.1")) / (
        Decimal("1.25") - Decimal("0.1")
    )


def test_agreement_of_predictions_decides_whether_they_advise() -> None:
    """Of 40 requests some read nothing where the rules predict a read of the prompt before."""
    for wrong in (0, 4, 5, 20):
        book = MissBook(None, CLOCK, hosted=False)
        for number in range(40):
            ids = np.arange(1_000 + number * 100, dtype=np.int32)
            hit = len(ids) - 100 if number else 0
            usage = Usage(len(ids), 0 if 0 < number <= wrong else hit, output=1)
            turn = Turn("g", session="s", arrival=float(number), call=Call(usage=usage))
            request = Request("r", len(ids), prompt_ids=ids, output_ids=[0])
            book.end(Job(turn, None, request, ids, 1, ""), None, ServedRequest(hit))
        misses = book.misses()
        assert misses is not None
        assert (misses.calibration.requests, misses.calibration.agree) == (40, 40 - wrong)
        assert misses.calibration.advises == book.advisable == (wrong <= 4)


def test_requests_without_usage_are_not_judged() -> None:
    book = MissBook(None, CLOCK, True)
    for usage in (None, Usage(prompt=100), Usage(cached=3)):
        enter(book, Turn("g", call=Call(usage=usage)), np.arange(100, dtype=np.int32), "r")
    assert book.misses() is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_states, "_MOST_NAMES", 50)
    monkeypatch.setattr(prompt_states, "_MOST_HELD", 400)
    monkeypatch.setattr(miss_events, "_PACKED", 3)
    source = random.Random(1)
    book = MissBook(None, CLOCK, True)
    for number in range(40):
        session = HiddenSession(source, f"s{number}", True, np.arange(FRONT, dtype=np.int32), 0.0)
        for cause in (None, "provider"):
            turn, ids, _ = session.request(cause)
            enter(book, turn, ids, f"r{number}")
    misses = book.misses()
    assert misses is not None
    assert len(misses.events) == sum(total.events for total in misses.by_cause.values()) > 30
    assert [int(event.request[1:]) for event in misses.events] == sorted(
        int(event.request[1:]) for event in misses.events
    )
    assert len(book._events._latest) < 3
    assert len(book._states._any) <= 60
    assert len(book._states._sessions) <= 6


def test_names_of_chunks_are_of_the_beginning() -> None:
    ids = np.arange(200, dtype=np.int32)
    other = ids.copy()
    other[70] += 1
    assert chunk_names(ids)[:2] == chunk_names(other)[:2]
    assert not set(chunk_names(ids)[2:]) & set(chunk_names(other)[2:])
    assert PromptStates().find(NO_NAMES, CacheKey(None, None, None, (None, None, None)), None).any is None


def test_the_providers_own_diagnosis_is_a_fact() -> None:
    book = MissBook(None, CLOCK, True)
    for number, missed in enumerate((None, ReportedMiss("tools_changed", 3_000), ReportedMiss("a new word", 3_000))):
        usage = Usage(3_020, 0, 3_000, 3_000, 0, 5)
        call = Call(model="claude-sonnet-5", usage=usage, missed=missed)
        ids = np.full(3_020, number, np.int32)
        enter(book, Turn("g", session="s", arrival=30.0 * number, call=call), ids, f"r{number}")
    misses = book.misses()
    assert misses is not None
    assert [(event.request, event.cause, event.certainty, event.tokens) for event in misses.events] == [
        ("r1", "tools_changed", "proven", 3_000),
        ("r2", "provider", "excluded", 3_000),
    ]


def test_a_log_too_long_to_be_rerun_keeps_no_miss_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypothesis_trials, "_MOST_NAMES", 200)
    for tokens in (200, 8):
        book = MissBook(None, CLOCK, hosted=False)
        ids = np.arange(tokens, dtype=np.int32)
        for number in range(300):
            call = Call(usage=Usage(tokens, 0, output=1))
            enter(book, Turn("g", session="s", arrival=float(number), call=call), ids, f"r{number}")
            assert max(len(book._open), len(book._trials._kept)) <= 200
        assert (len(book._open), len(book._trials._kept)) == (0, 0)
        misses = book.misses()
        assert misses is not None
        assert (misses.hypothesis, misses.by_cause.get("unknown") is not None) == (None, tokens == 200)


def test_the_providers_diagnosis_is_compared_with_ours() -> None:
    """Of four diagnoses, kvtool sees the model and the key change itself; the log shows no other text, nor a setting."""
    book = MissBook(None, CLOCK, True)
    said = ("", "model_changed", "input_changed", "prompt_cache_key_changed", "verbosity_changed")
    for number, reason in enumerate(said):
        call = Call(
            model="gpt-5.6-sol" if number in (0, 2, 3, 4) else "gpt-5.6-other",
            usage=Usage(3_020, 0, output=5),
            scope=CacheScope(key="b" if number >= 3 else "a"),
            missed=ReportedMiss(reason, 3_000) if reason else None,
        )
        ids = np.arange(3_020, dtype=np.int32)
        enter(book, Turn("g", session="s", arrival=30.0 * number, call=call), ids, f"r{number}")
    misses = book.misses()
    assert misses is not None
    assert misses.diagnosis is not None
    assert [(event.cause, event.certainty) for event in misses.events] == [
        ("model_changed", "proven"),
        ("prompt_changed", "proven"),
        ("key_changed", "proven"),
        ("setting_changed", "proven"),
    ]
    assert (misses.diagnosis.misses, misses.diagnosis.agree) == (4, 2)


@pytest.mark.parametrize(("gap", "expired"), [(0.0, False), (400.0, True)])
def test_a_changed_text_whose_prefix_has_expired_is_expired_once(gap: float, expired: bool) -> None:
    """All that was cached is gone after the time to live, so the change cost nothing."""
    source = random.Random(7)
    front = np.asarray([source.randrange(1_000, 100_000) for _ in range(FRONT)], np.int32)
    session, book = HiddenSession(source, "s", True, front, CLOCK), MissBook(None, CLOCK, True)
    turn, ids, _ = session.request(None)
    enter(book, turn, ids, "r0")
    session.ids = np.concatenate([ids[: FRONT - 100], session.text(100), ids[FRONT:]])
    session.now, session.stored = session.now + gap, 0
    turn, ids, _ = session.request(None)
    enter(book, turn, ids, "r1")
    misses = book.misses()
    assert misses is not None
    assert ("prompt_changed" in misses.by_cause) is not expired
    assert not expired or {cause: each.events for cause, each in misses.by_cause.items()} == {"expired": 1}


@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B", "claude-sonnet-4-5"])
def test_no_provider_is_blamed_for_the_misses_of_open_weights(model: str) -> None:
    """In a log of hosted models, too, the server of open weights may have evicted what it does not read."""
    book, ids = MissBook(None, CLOCK, True), np.arange(2_000, dtype=np.int32)
    for number, read in enumerate([0, 2_000, 0]):
        turn = Turn("g", arrival=10.0 * number, call=Call(model=model, usage=Usage(2_000, read)))
        book.leave_out(Job(turn, None, Request(f"r{number}", 2_000, prompt_ids=ids, output_ids=[0]), ids, 1, ""))
    misses = book.misses()
    assert misses is not None
    assert [event.cause for event in misses.events] == ["provider" if model.startswith("claude") else "unknown"]


@pytest.mark.parametrize(("began", "cause"), [("resumed", ["resumed"]), (None, [])])
def test_a_resumed_session_is_compared_with_the_one_that_it_goes_on_from(began: Began | None, cause: list[str]) -> None:
    book, ids = MissBook(None, CLOCK, True), np.arange(2_000, dtype=np.int32)
    for name, start, read in (("a", None, 0), ("b", began, 0)):
        usage = Usage(len(ids), read, len(ids) - read)
        call = Call(model="claude-opus-4-8", usage=usage, incomplete="system prompt is not in the file", began=start)
        enter(book, Turn("g", session=name, arrival=float(len(ids)), call=call), ids, name)
        ids = np.concatenate([ids, np.arange(50_000, 50_200, dtype=np.int32)])
    misses = book.misses()
    assert misses is not None
    assert [event.cause for event in misses.events] == cause
