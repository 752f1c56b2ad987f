"""Conversations on their way to the engine: in which order they start, what they wait for, and what that costs in time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.latency import Accelerator, LatencyModel
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.sequential import account
from kvtool.workload.drive import Arrivals, first_turns, in_order_of_arrival, one_at_a_time, side_by_side
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation, Output, Turn
from kvtool.workload.yaml.sessions import Interleaved
from tests.conftest import some

# One second for each step, whatever it holds.
SECOND = LatencyModel(
    Geometry("dot", 1, 1, 1, 1, 1, 1, 1, True),
    Accelerator("instant", 1e30, 1e30, 1 << 30, "nowhere"),
    step_overhead=1.0,
    layer_overhead=0.0,
)


@dataclass
class Talk:
    """A conversation of so many turns; each answer that it hears is noted."""

    name: str
    turns: int = 1
    arrivals: Sequence[float | None] = ()
    outputs: int = 1
    length: int = 3
    heard: list[str] = field(default_factory=list)
    asked: int = 0

    def next_turn(self, previous: Output | None) -> Turn | None:
        if previous is not None:
            self.heard.append(previous.text)
        if self.asked == self.turns:
            return None
        number = self.asked
        self.asked += 1
        return Turn(
            "g",
            id=f"{self.name}{number}",
            token_ids=np.array([*self.name.encode(), *range(self.length - len(self.name))], np.int32),
            arrival=self.arrivals[number] if number < len(self.arrivals) else None,
            output_tokens=self.outputs,
        )


class Books:
    """Begins and ends jobs and keeps a diary of both, with the time of the engine's clock."""

    def __init__(self, *, refuse: Sequence[str] = (), **config: object) -> None:
        self.engine = Engine(EngineConfig(block_size=4, **config), DryRunner(), VirtualClock(SECOND))  # type: ignore[arg-type]
        self.refuse = refuse
        self.diary: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.most = 0
        self._open = 0

    def begin(self, turn: Turn) -> Job | None:
        if turn.id in self.refuse:
            self.diary.append(f"refused {turn.id}")
            return None
        assert turn.token_ids is not None
        ids = turn.token_ids
        outputs = list(range(40, 40 + (turn.output_tokens or 1)))
        text = " ".join(map(str, outputs))
        job = Job(turn, None, Request(turn.id, len(ids), prompt_ids=ids, output_ids=outputs), ids, 1, text)
        self.jobs[turn.id] = job
        self.diary.append(f"+{turn.id}")
        self._open += 1
        self.most = max(self.most, self._open)
        return job

    def execute(self, job: Job) -> None:
        account(self.engine.scheduler, job.request)

    def end(self, job: Job) -> None:
        self._open -= 1
        self.diary.append(f"-{job.request.id}")

    def arrive(self, *talks: Conversation, concurrency: int | None = None, use_arrivals: bool = False) -> str:
        arrivals = Arrivals(iter(talks), self.begin, self.end, concurrency=concurrency, use_arrivals=use_arrivals)
        arrivals.run(self.engine)
        return " ".join(self.diary)

    def times(self) -> dict[str, tuple[float, float]]:
        """When each request came and when it got its first token."""
        return {
            name: (job.request.arrival, job.request.first_token_at)
            for name, job in self.jobs.items()
            if job.request.first_token_at is not None
        }


def test_one_at_a_time() -> None:
    books = Books()
    talks = [Talk("a", 2, outputs=3), Talk("b", 1)]
    one_at_a_time(iter(talks), books.begin, books.execute, books.end)
    assert " ".join(books.diary) == "+a0 -a0 +a1 -a1 +b0 -b0"
    assert talks[0].heard == ["40 41 42", "40 41 42"]
    assert books.most == 1


def test_one_at_a_time_a_refused_turn_has_an_empty_answer() -> None:
    books = Books(refuse=["a1"])
    talk = Talk("a", 3)
    one_at_a_time(iter([talk]), books.begin, books.execute, books.end)
    assert " ".join(books.diary) == "+a0 -a0 refused a1 +a2 -a2"
    assert talk.heard == ["40", "", "40"]


def test_at_most_so_many_requests_at_once_and_open_conversations_go_on_first() -> None:
    books = Books()
    talks = [Talk(name, 2) for name in "abcd"]
    assert books.arrive(*talks, concurrency=2) == "+a0 +b0 -a0 -b0 +a1 +b1 -a1 -b1 +c0 +d0 -c0 -d0 +c1 +d1 -c1 -d1"
    assert books.most == 2
    assert books.engine.clock.now() == 4.0
    assert all(talk.heard == ["40", "40"] for talk in talks)


def test_a_place_that_becomes_free_is_taken_at_once() -> None:
    books = Books()
    # a decodes for four steps; b, c and d pass beside it.
    assert books.arrive(Talk("a", outputs=4), *(Talk(name) for name in "bcd"), concurrency=2) == (
        "+a0 +b0 -b0 +c0 -c0 +d0 -d0 -a0"
    )
    assert books.times() == {"a0": (0.0, 1.0), "b0": (0.0, 1.0), "c0": (1.0, 2.0), "d0": (2.0, 3.0)}


class EnoughError(Exception):
    pass


def test_conversations_are_taken_as_they_are_needed() -> None:
    taken = 0

    def endless() -> Iterator[Conversation]:
        nonlocal taken
        while True:
            taken += 1
            yield Talk("t", 5)

    books = Books()

    def end(job: Job) -> None:
        books.end(job)
        if len(books.diary) > 40:
            raise EnoughError

    with pytest.raises(EnoughError):
        Arrivals(endless(), books.begin, end, concurrency=3, use_arrivals=False).run(books.engine)
    # 20 turns are the first four conversations of each of three places at most; as many stand behind them.
    assert taken <= 9


def test_requests_start_when_they_arrive() -> None:
    books = Books()
    talks = [Talk("late", arrivals=[7.5]), Talk("first", arrivals=[0.0]), Talk("second", arrivals=[0.4])]
    assert books.arrive(*talks, use_arrivals=True) == "+first0 -first0 +second0 -second0 +late0 -late0"
    # `second` comes while the step of `first` runs: it waits 0.6 s for the next one. Before `late` the engine idles.
    assert books.times() == {"first0": (0.0, 1.0), "second0": (0.4, 2.0), "late0": (7.5, 8.5)}


def test_a_turn_comes_when_it_is_due_but_never_before_its_answer() -> None:
    books = Books()
    talk = Talk("a", 3, arrivals=[1.0, 1.5, 9.0], outputs=2)
    assert books.arrive(talk, use_arrivals=True) == "+a0 -a0 +a1 -a1 +a2 -a2"
    assert books.times() == {"a0": (1.0, 2.0), "a1": (3.0, 4.0), "a2": (9.0, 10.0)}


def test_without_an_arrival_of_its_own_a_turn_follows_its_answer() -> None:
    books = Books()
    assert books.arrive(Talk("a", 2, arrivals=[4.0, None]), use_arrivals=True) == "+a0 -a0 +a1 -a1"
    assert books.times() == {"a0": (4.0, 5.0), "a1": (5.0, 6.0)}


def test_arrivals_with_a_limit_wait_for_a_place() -> None:
    """Who waits for a place has not sent yet: the time to the first token counts from when it is sent."""
    books = Books()
    talks = [Talk(name, arrivals=[0.0], outputs=2) for name in "abc"]
    assert books.arrive(*talks, concurrency=2, use_arrivals=True) == "+a0 +b0 -a0 -b0 +c0 -c0"
    assert books.times() == {"a0": (0.0, 1.0), "b0": (0.0, 1.0), "c0": (2.0, 3.0)}


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_what_is_held_of_a_log_are_the_seconds_by_which_it_is_late(seed: int) -> None:
    """The order is that of a log all of which is held."""
    chance = random.Random(seed)
    most, now, talks = chance.choice((0.0, 3.0)), 0.0, []
    for number in range(60):
        now += chance.choice((0.0, 1.0, 2.0, 20.0))
        at = max(now - chance.choice((0.0, most)), 0.0)
        talks.append((f"{number}.", [at, *sorted(at + chance.uniform(0, 30) for _ in range(chance.choice((0, 0, 2))))]))
    lateness = max(max(at[0] for _, at in talks[: number + 1]) - talks[number][1][0] for number in range(60))

    def order(known: float | None) -> tuple[str, int]:
        books, open_, widest = Books(), 0, 0

        def taken() -> Iterator[Conversation]:
            nonlocal open_, widest
            for name, arrivals in talks:
                open_ += 1
                widest = max(widest, open_ - len(books.jobs))
                yield Talk(name, len(arrivals), arrivals)

        in_order_of_arrival(
            taken(),
            books.begin,
            books.execute,
            books.end,
            seconds=lambda _: 0.5,
            required=True,
            lateness=known,
        )
        return " ".join(books.diary), widest

    whole, held = order(None), order(lateness)
    assert held[0] == whole[0]
    assert held[1] < whole[1] == 60


def test_a_refused_request_makes_way() -> None:
    books = Books(refuse=["a0", "b1"])
    talks = [Talk("a", 2), Talk("b", 3)]
    assert books.arrive(*talks, concurrency=1) == "refused a0 +a1 -a1 +b0 -b0 refused b1 +b2 -b2"
    assert (talks[0].heard, talks[1].heard) == (["", "40"], ["40", "", "40"])


def test_interleaved_members_run_side_by_side() -> None:
    def members() -> Interleaved:
        return Interleaved([Talk("a", 2), Talk("b", 2)])

    serial = Books()
    one_at_a_time(iter([members()]), serial.begin, serial.execute, serial.end)
    assert " ".join(serial.diary) == "+a0 -a0 +b0 -b0 +a1 -a1 +b1 -b1"
    books = Books()
    assert books.arrive(*side_by_side(iter([members()])), concurrency=2) == "+a0 +b0 -a0 -b0 +a1 +b1 -a1 -b1"


def test_a_limit_counts_turns() -> None:
    for limit, diary in [
        (None, "+a0 +a1 +b0"),
        (0, ""),
        (1, "+a0"),
        (2, "+a0 +a1"),
        (3, "+a0 +a1 +b0"),
        (9, "+a0 +a1 +b0"),
    ]:
        books = Books()
        talks: list[Conversation] = [Talk("a", 2), Talk("b", 1)]
        one_at_a_time(first_turns(iter(talks), limit), books.begin, books.execute, books.end)
        assert " ".join(entry for entry in books.diary if entry.startswith("+")) == diary


def test_a_limit_ends_conversations_that_run_together_without_losing_any() -> None:
    books = Books()
    talks: list[Conversation] = [Talk(name, 4, outputs=2) for name in "abc"]
    diary = books.arrive(*first_turns(iter(talks), 5), concurrency=2).split()
    assert sum(entry.startswith("+") for entry in diary) == 5
    assert sorted(entry[1:] for entry in diary if entry[0] == "+") == sorted(
        entry[1:] for entry in diary if entry[0] == "-"
    )


def test_time_to_first_token_of_a_prompt_in_chunks() -> None:
    """10 tokens in steps of 4: the first token comes with the third step. A hit of two blocks saves two steps."""
    books = Books(max_num_batched_tokens=4)
    books.arrive(Talk("a", 2, length=10), concurrency=1)
    assert books.times() == {"a0": (0.0, 3.0), "a1": (3.0, 4.0)}
    assert books.jobs["a1"].request.num_cached_tokens == 8


def test_a_clock_that_runs_already() -> None:
    books = Books()
    books.engine.clock.wait_until(0.1)
    books.arrive(Talk("a", arrivals=[0.05]), Talk("b", arrivals=[0.7]), use_arrivals=True)
    (a, b) = books.times().values()
    assert a == pytest.approx((0.15, 1.15))
    assert b == pytest.approx((0.8, 2.15))
