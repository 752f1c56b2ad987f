"""The planted prompts of `benchmarks/scenarios`: their truth holds before anything is measured."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("structure", "scripts", "repeated", "form", "hidden", "traps")
SEEDS = range(300, 330)


@pytest.fixture(scope="module")
def scenarios() -> Iterator[SimpleNamespace]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield SimpleNamespace(
        case_of=importlib.import_module("scenarios.kinds").case_of,
        judge=importlib.import_module("scenarios.judge"),
    )
    sys.path.remove(str(ROOT / "benchmarks"))


def texts(record: dict[str, object]) -> list[str]:
    messages = record["messages"]
    assert isinstance(messages, list)
    return [str(message.get("content") or "") for message in messages]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_log(scenarios: SimpleNamespace, kind: str) -> None:
    for seed in SEEDS:
        one, two = (scenarios.case_of(kind, seed) for _ in range(2))
        assert [one.record(at) for at in range(one.requests)] == [two.record(at) for at in range(two.requests)]


@pytest.mark.parametrize("kind", KINDS)
def test_units_are_whole_before_any_fix_and_causes_stand_where_they_are_said_to_be(
    scenarios: SimpleNamespace, kind: str
) -> None:
    for seed in SEEDS:
        case = scenarios.case_of(kind, seed)
        sent = []
        for number in range(case.requests):
            said = texts(case.record(number))
            sent.append("\n".join(said))
            assert all(scenarios.judge.is_whole(unit, said) for unit in case.units(number) if unit), case.name
        assert len(set(sent)) > 1
        for cause in case.causes:
            assert cause.part or not cause.lines or any(line and line in "\n".join(sent) for line in cause.lines)


@pytest.mark.parametrize("kind", KINDS)
def test_only_traps_have_nothing_to_mend(scenarios: SimpleNamespace, kind: str) -> None:
    for seed in SEEDS:
        case = scenarios.case_of(kind, seed)
        assert (case.best == "none") == (kind == "traps") == (not case.causes)
        assert (kind == "traps") or any(
            json.dumps(ideal(number)) != json.dumps(case.record(number))
            for ideal in case.ideals
            for number in range(case.requests)
        )


def test_a_torn_unit_is_seen(scenarios: SimpleNamespace) -> None:
    whole = scenarios.judge.is_whole
    assert whole(("## Now\n", "\nKeep to it."), ["Rules\n\n## Now\n12:30\nKeep to it.\n"])
    assert not whole(("## Now\n", "\nKeep to it."), ["## Now\n\nRules\n12:30\nKeep", " to it."])
