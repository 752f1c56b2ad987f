"""Breakpoints of Anthropic prompts, by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvtool.profiler.optimize.breakpoint_plan import plan_breakpoints
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn
from tests.profiler.optimize.conftest import RULES


def turns(*contents: str) -> list[Turn]:
    return [
        Turn(
            "g", messages=[{"role": "system", "content": Traced(RULES * 20)}, {"role": "user", "content": Traced(each)}]
        )
        for each in contents
    ]


def test_breakpoints_by_hand() -> None:
    """Ten requests with one system block of 1,660 tokens and ten of their own: written once, read nine times."""
    size = len(RULES) * 20
    plan = plan_breakpoints("g", turns(*(f"question {n}" for n in range(10))), len, 4)
    assert plan is not None
    assert plan.cost.no_caching == 10 * (size + 10)
    assert plan.best.where == ["after system block 1"]
    assert plan.cost.best == pytest.approx(1.25 * size + 9 * 0.1 * size + 100)
    assert plan.cost.naive == pytest.approx(1.25 * size + 9 * 0.1 * size + 10 * 1.25 * 10)


def test_breakpoints_of_a_conversation_move_with_its_end() -> None:
    """What a turn adds is read by the next one only where a breakpoint stood at its end."""
    rounds = 8
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": Traced(f"{n} {RULES * 15}")} for n in range(15)
    ]
    conversation = [Turn("g", messages=messages[: 2 * n + 1]) for n in range(rounds)]
    plan = plan_breakpoints("g", conversation, len, 1)
    assert plan is not None
    assert (plan.best.after_blocks, plan.best.last_message) == ([], True)
    sizes = [sum(len(message["content"]) for message in turn.messages or ()) for turn in conversation]
    added = [sizes[0], *(after - before for before, after in pairwise(sizes))]
    assert plan.cost.best == pytest.approx(sum(1.25 * each for each in added) + 0.1 * sum(sizes[:-1]))


def test_no_breakpoints_where_they_cost_more() -> None:
    plan = plan_breakpoints("g", turns("only once"), len, 4)
    assert plan is not None
    assert plan.best.where == []
    assert plan.cost.best == plan.cost.no_caching < plan.cost.naive
    assert plan_breakpoints("g", [Turn("g", text=Traced("no messages"))], len, 4) is None
