"""Breakpoints of Anthropic prompts, by hand."""

from __future__ import annotations

import pytest

from kvtool.profiler.optimize.breakpoint_plan import plan_breakpoints
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn
from tests.profiler.optimize.conftest import RULES

TEXT = (RULES * 20).strip()
SYSTEM = len("system: ") + len(TEXT)
"""Tokens up to the end of the system text."""


def turns(*contents: str) -> list[Turn]:
    return [
        Turn("g", messages=[{"role": "system", "content": Traced(TEXT)}, {"role": "user", "content": Traced(each)}])
        for each in contents
    ]


def test_breakpoints_by_hand(byte_tokenizer: Tokenizer) -> None:
    """Ten requests with one system block and a question of their own: written once, read nine times."""
    plan = plan_breakpoints("g", turns(*(f"question {n}" for n in range(10))), byte_tokenizer, 4)
    assert plan is not None
    own = len("\nuser:\nquestion 1")
    rest = plan.cost.no_caching - 10 * SYSTEM
    assert rest == 10 * (own + len("\nassistant:\n"))
    assert plan.best.where == ["after system[-1]"]
    assert (plan.best.after_blocks, plan.best.last_message) == ([1], False)
    assert plan.cost.best == pytest.approx(1.25 * SYSTEM + 9 * 0.1 * SYSTEM + rest)
    assert plan.cost.naive == pytest.approx(1.25 * SYSTEM + 9 * 0.1 * SYSTEM + rest + 10 * 0.25 * own)


def test_breakpoints_of_a_conversation_move_with_its_end(byte_tokenizer: Tokenizer) -> None:
    """What a turn adds is read by the next one only where a breakpoint was at its end."""
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": Traced(f"{n} {RULES * 15}")} for n in range(15)
    ]
    conversation = [Turn("g", messages=messages[: 2 * n + 1]) for n in range(8)]
    plan = plan_breakpoints("g", conversation, byte_tokenizer, 1)
    assert plan is not None
    assert (plan.best.after_blocks, plan.best.last_message) == ([], True)
    assert plan.best.where == ["after messages[-1]"]
    assert plan.cost.best == plan.cost.naive < plan.cost.no_caching / 2


def test_no_breakpoints_where_they_cost_more(byte_tokenizer: Tokenizer) -> None:
    plan = plan_breakpoints("g", turns("only once"), byte_tokenizer, 4)
    assert plan is not None
    assert plan.best.where == []
    assert plan.cost.best == plan.cost.no_caching < plan.cost.naive
    assert plan_breakpoints("g", [Turn("g", text=Traced("no messages"))], byte_tokenizer, 4) is None
