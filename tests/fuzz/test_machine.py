"""The engine's cache and scheduler against the plain ones: every operation is compared, block for block."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from tests.fuzz import machine
from tests.fuzz.both_engines import BEGINNINGS, BothEngines, random_config


class AgainstPlain(RuleBasedStateMachine):
    """Requests, steps and resets in any order, under any configuration."""

    @initialize(seed=st.integers(0, 100_000))
    def begin(self, seed: int) -> None:
        self.both = BothEngines(random_config(random.Random(seed)))

    @rule(
        start=st.sampled_from(BEGINNINGS),
        end=st.lists(st.integers(0, 1), max_size=4),
        outputs=st.integers(1, 10),
        salt=st.sampled_from(["", "", "s"]),
        priority=st.integers(0, 2),
        skips=st.sampled_from([False, False, True]),
    )
    def add(self, start: tuple[int, ...], end: list[int], outputs: int, salt: str, priority: int, skips: bool) -> None:
        self.both.add([*start, *end], outputs, salt=salt, priority=priority, skips=skips)

    @rule(count=st.integers(1, 5))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.both.step()
            self.both.compare()

    @rule(running=st.booleans())
    def reset(self, running: bool) -> None:
        self.both.reset(running=running)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "both"):
            self.both.compare()

    def teardown(self) -> None:
        if hasattr(self, "both"):
            self.both.finish()


TestAgainstPlain = AgainstPlain.TestCase
TestAgainstPlain.settings = settings(settings.get_profile("ci"), stateful_step_count=30)


def test_long_runs_reach_everything_that_schedulers_differ_in() -> None:
    seen = machine.run(seed=7, most=6000)
    assert seen.operations == 6000
    assert min(seen.steps, seen.admissions, seen.hit_tokens, seen.evictions) > 500
    assert seen.preemptions > 100


def test_a_scheduler_that_puts_back_at_the_wrong_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: one rule of the engine is changed, and it does."""

    class Impatient(Scheduler):
        def _preempt(self, request: Request) -> None:
            super()._preempt(request)
            if self.config.policy == "fcfs":
                self.waiting.remove(request)
                self.waiting.add(request)

    monkeypatch.setattr("tests.fuzz.both_engines.Scheduler", Impatient)
    with pytest.raises(AssertionError):
        machine.run(seed=7, most=6000)
