"""Kept requests whose prompts two processes make: the same requests as from one, whatever the changes do; nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import MessageRefusedError
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.ahead import child as child_module
from kvtool.workload.ahead import divided as module
from kvtool.workload.ahead.divided import divided
from kvtool.workload.jobs import Job, JobMaker, TokensTurn
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.conftest import some

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one process only")

TEMPLATE = """\
{%- for message in messages %}{{ message.role }}: {{ message.content }}
{% if message.content == 'refuse me' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"""


class Learned:
    """The lengths of texts, by their hash."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.known)

    def since(self, count: int) -> list[tuple[int, int]]:
        return list(self.known.items())[count:]

    def learn(self, found: list[tuple[int, int]]) -> None:
        self.known.update(found)


class Changed:
    """Changes turns by a function that is given what it remembers."""

    def __init__(self, change: Callable[[Turn], Turn], *, in_order: bool = False) -> None:
        self.change = change
        self.in_order = in_order
        self.memo = Learned()

    @property
    def memos(self) -> Sequence[Learned]:
        return [self.memo]

    def __call__(self, turn: Turn) -> Turn:
        said = str(turn.text) if turn.text is not None else str(turn.messages)
        self.memo.known[hash(said)] = len(said)
        return self.change(turn)


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork whatever other tests have imported: what is forked here uses none of it."""
    monkeypatch.setattr(child_module, "can_fork", lambda: True)


@pytest.fixture
def maker(byte_tokenizer: Tokenizer) -> JobMaker:
    """Renders with a template that refuses some messages."""
    return JobMaker(
        Renderer(lambda: byte_tokenizer, lambda loaded: ChatTemplate("t", TEMPLATE, loaded.special_tokens)), seed=3
    )


def kept_of(turns: Sequence[Turn]) -> KeptRequests:
    kept = KeptRequests()
    for turn in turns:
        kept.add(turn)
    assert kept.complete
    return kept


def some_turns(seed: int, count: int) -> list[Turn]:
    """Texts and chats, with and without answers, of several groups and tenants; some that a template refuses."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        words = " ".join(
            rng.choices(["Grüße", "time", "12:30", "\ud800", "refuse", "\n", "x" * 50], k=rng.randint(0, 9))
        )
        said: dict[str, Any] = {"text": Traced(words)} if rng.random() < 0.5 else {}
        if not said:
            content = "refuse me" if rng.random() < 0.1 else Traced(words)
            said["messages"] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": content}]
        output = (
            {"output_text": rng.choice(["yes", "", "1 2"])} if rng.random() < 0.4 else {"output_tokens": number % 5}
        )
        salt = rng.choice([None, "tenant"])
        found.append(Turn(rng.choice("ab"), id=rng.choice(["", f"own {number}"]), salt=salt, **said, **output))
    return found


def shout(turn: Turn) -> Turn:
    """Most turns in capitals, some as they are, some of another tenant; at one it fails."""
    if turn.text is not None:
        return turn if "time" in turn.text else turn.with_text(turn.text.upper())
    last = (turn.messages or [])[-1]
    if "12:30" in str(last["content"]):
        return replace(turn, salt="other")
    return replace(turn, messages=[*(turn.messages or [])[:-1], {**last, "content": str(last["content"]).upper()}])


def told(job: Job) -> list[object]:
    """What is asked of a request that is not looked at."""
    turn, request = job.turn, job.request
    asked = [turn.group, turn.salt, turn.id, turn.index, turn.call, turn.output_tokens]
    return [*asked, job.ids.tolist(), job.unit, job.output_text, request.id, request.output_ids, request.cache_salt]


def taken(
    turns: Sequence[Turn], changes: Changed, maker: JobMaker, jobs: int, whole: Sequence[bool]
) -> tuple[list[object], int]:
    """What comes of requests, and of how many another process told the tokens."""
    found: list[object] = []
    there = 0
    with divided(kept_of(turns), changes, maker, jobs=jobs, whole=whole) as conversations:
        for conversation in conversations:
            turn = conversation.next_turn(None)
            assert turn is not None
            assert conversation.next_turn(None) is None
            there += isinstance(turn, TokensTurn)
            try:
                found.append(told(maker.make(turn)))
            except MessageRefusedError as error:
                found.append((error.message, error.place))
    return found, there


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_two_processes_make_the_same_requests(seed: int, byte_tokenizer: Tokenizer) -> None:
    turns = some_turns(seed, 120)
    rng = random.Random(seed)
    whole = [rng.random() < seed / 6 for _ in turns]
    results = []
    for jobs in (1, 2):
        renderer = Renderer(lambda: byte_tokenizer, lambda loaded: ChatTemplate("t", TEMPLATE, loaded.special_tokens))
        changes = Changed(shout)
        found, there = taken(turns, changes, JobMaker(renderer, seed=3), jobs, whole)
        results.append((found, changes.memo.known))
        assert (there > 0) == (jobs == 2)
    assert results[0] == results[1], "and what they learn is known here afterwards"


def test_a_turn_can_be_had_whole(maker: JobMaker) -> None:
    turns = [Turn("g", text=Traced(f"line {number}\nof {number}")) for number in range(40)]
    changes = Changed(shout)
    with divided(kept_of(turns), changes, maker, jobs=2, whole=[False] * 40) as conversations:
        made = [conversation.next_turn(None) for conversation in conversations]
    told_of = [turn for turn in made if isinstance(turn, TokensTurn)]
    assert len(told_of) > 10
    for turn in told_of:
        whole = turn.whole()
        assert whole.text == str(turn.text).upper()
        assert maker.prepare(whole).prompt.ids.tolist() == maker.make(turn).ids.tolist()


def test_what_is_needed_whole_is_made_here() -> None:
    whole = [number % 256 < 64 for number in range(2_000)]
    away = module._away(whole)
    assert not any(there and needed for there, needed in zip(away, whole, strict=True))
    assert module._away([True] * 9) == [False] * 9
    shares = [sum(module._away([False] * 1_000)[at : at + 50]) for at in range(0, 1_000, 50)]
    assert max(shares) - min(shares) <= 1, "spread evenly"


def test_changes_that_hang_on_those_before_are_made_by_one(maker: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("forked")

    monkeypatch.setattr(module, "Child", refuse)
    turns = some_turns(1, 30)
    assert len(taken(turns, Changed(shout, in_order=True), maker, 2, [False] * 30)[0]) == 30
    assert len(taken(turns, Changed(shout), maker, 2, [True] * 30)[0]) == 30
    kept = kept_of(turns)
    with divided(kept, Changed(shout), maker, jobs=None, whole=[False] * 30) as conversations:  # a few only
        assert len(list(conversations)) == 30
    monkeypatch.setattr(module, "WORTH_IT", 0)
    monkeypatch.setattr(child_module, "cores", lambda: 1)
    with divided(kept, Changed(shout), maker, jobs=None, whole=[False] * 30) as conversations:
        assert len(list(conversations)) == 30
    monkeypatch.setattr(child_module, "cores", lambda: 2)
    with (
        pytest.raises(AssertionError, match="forked"),
        divided(kept, Changed(shout), maker, jobs=None, whole=[False] * 30),
    ):
        pass


def test_where_no_process_can_be_had_there_is_one(maker: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    found, there = taken(some_turns(2, 30), Changed(shout), maker, 2, [False] * 30)
    assert (len(found), there) == (30, 0)


def children() -> set[int]:
    """The processes that this one has begun and not waited for."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_what_a_process_leaves_undone_is_made_here(maker: JobMaker) -> None:
    turns = [Turn("g", text=Traced("long " * 20_000 + str(number))) for number in range(60)]
    before = children()
    with divided(kept_of(turns), Changed(shout), maker, jobs=2, whole=[False] * 60) as conversations:
        first = next(conversations).next_turn(None)
        (child,) = children() - before
        os.kill(child, signal.SIGKILL)
        made = [first, *(conversation.next_turn(None) for conversation in conversations)]
    assert children() == before
    ids = [maker.make(turn).ids.tolist() for turn in made if turn is not None]
    assert ids == [maker.prepare(shout(turn)).prompt.ids.tolist() for turn in turns]


def test_a_run_that_is_broken_off_leaves_no_process(maker: JobMaker) -> None:
    before = children()
    turns = [Turn("g", text=Traced("long " * 20_000 + str(number))) for number in range(60)]

    def broken_off() -> None:
        with divided(kept_of(turns), Changed(shout), maker, jobs=2, whole=[False] * 60) as conversations:
            next(conversations)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert children() == before


def test_all_of_a_turn_but_its_texts_is_compared() -> None:
    assert set(module._IN_TEXT) < {field.name for field in fields(Turn)}
