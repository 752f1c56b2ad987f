"""What names were assigned in branches, beside copies of a dictionary."""

from __future__ import annotations

import random

import pytest

from kvtool.lint.python.assignments import Assigned
from kvtool.lint.python.built_prompts import python_prompts
from kvtool.lint.python.text_values import Value
from kvtool.lint.python.work_budget import allow, work_left
from tests.conftest import some

_NAMES = ("a", "b", "a.x", "a.y.z", "ab", "ab.x")


@pytest.fixture(autouse=True)
def _work() -> None:
    allow(100_000)


def _value(rng: random.Random) -> Value:
    return (str(rng.random()),)


def _wander(rng: random.Random, values: Assigned, model: dict[str, Value], depth: int) -> None:
    """Change both in the same way; branches are taken back or kept, within each other."""
    for _ in range(rng.randint(0, 6)):
        name = rng.choice(_NAMES)
        match rng.randint(0, 4):
            case 0 | 1:
                values[name] = model[name] = _value(rng)
            case 2 if "." not in name:
                values.forget_below(name)
                for other in [one for one in model if one.startswith(f"{name}.")]:
                    del model[other]
            case 3 if depth:
                was = dict(model)
                mark = values.begin()
                _wander(rng, values, model, depth - 1)
                changed = values.undo(mark)
                assert {name: model.get(name) for name in changed} == changed
                assert all(model.get(name) == was.get(name) for name in {*model, *was} - changed.keys())
                model.clear()
                model.update(was)
            case _ if depth:
                was = dict(model)
                mark = values.begin()
                _wander(rng, values, model, depth - 1)
                before = values.end(mark)
                assert {name: was.get(name) for name in before} == before
        assert values == model


def test_branches_that_are_taken_back_leave_nothing() -> None:
    for seed in some(range(40), 10):
        rng = random.Random(seed)
        _wander(rng, Assigned(), {}, 3)


def test_nothing_is_copied_for_a_branch() -> None:
    """What a branch costs is what changes in it, however many names there are."""
    values = Assigned()
    for number in range(1000):
        values[f"name{number}"] = ("text",)
    mark = values.begin()
    values["name1"] = ("other",)
    assert values.undo(mark) == {"name1": ("other",)}
    assert len(values) == 1000


def test_what_stands_below_a_chain_of_calls_is_read_once() -> None:
    """However long the chain is: each call asks for what it is called on several times."""
    chain = "".join(f".format(name{number}=user)" for number in range(60))
    text = f'def build(user):\n    return "You help {{name0}}, and {{name1}} too, whatever they ask."{chain}\n'
    unread = python_prompts("a.py", text).unread
    assert work_left()
    assert not unread
