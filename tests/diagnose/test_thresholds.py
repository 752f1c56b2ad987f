"""Each threshold of diagnosis decides something: changed by half, a small scenario has another result."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial

from kvtool.diagnose.compare.order import is_short_list, order_kind
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.severity import severity_of
from kvtool.diagnose.values.classify import classify
from kvtool.diagnose.values.slot_values import SlotValues
from kvtool.diagnose.values.value_shapes import shape_of
from kvtool.profiler.reported.rule_agreement import RuleDifference
from tests.changed_thresholds import changed, changes


def _kind(values: list[str], label: str = "", absent: int = 0) -> str:
    slot = SlotValues()
    for number, value in enumerate(values):
        slot.add(value, classify(value), label, str(number), absent=number < absent)
    return slot.resolve(None, constant_within=False).kind.key


def _ids(count: int, length: int, alphabet: str, same: int = 0) -> list[str]:
    """Random words of one length; of each the first characters may be the same ones, past a first that differs."""
    chance = random.Random(7)
    return [
        alphabet[number % len(alphabet)] + "k7" * same + "".join(chance.choices(alphabet, k=length - 1))
        for number in range(count)
    ]


@cache
def _severities() -> list[tuple[float, float]]:
    return [(lost, prompt) for lost in (8, 10, 20, 30, 40, 60, 80, 100) for prompt in (100, 900, 1_500, 3_000, 7_000)]


def _scenarios() -> dict[str, Callable[[], object]]:
    """Scenarios by name, each with what computes its result."""
    hexes, letters = "0123456789abcdef", "bcdfghjklmnpqrstvwxz"
    found: dict[str, Callable[[], object]] = {f"severity {case}": partial(severity_of, *case) for case in _severities()}
    for points in range(10):
        found[f"reads {points}"] = partial(getattr, RuleDifference(0.5 + points / 100, 0.5), "is_large")
    for odd in range(8):  # of 20 values so many are no branch, no date, no number
        mixed = ["notes"] * odd
        branches = [f"feature/part-{number}" for number in range(20 - odd)]
        found[f"branches {odd}"] = partial(shape_of, [*branches, *(f"{word} {n}!" for n, word in enumerate(mixed))])
    for odd in range(0, 20, 2):
        dates = [f"2026-03-{number + 1:02d}" for number in range(20 - odd)]
        words = [f"plain words {letters[number]}" for number in range(odd)]
        found[f"dates {odd}"] = partial(_kind, [*dates, *words])
        others = [
            *(f"mail{n}@example.org" for n in range(odd // 2)),
            *(f"{n}{n}:{n}{n}:aa::1" for n in range(odd // 2)),
        ]
        found[f"dates and others {odd}"] = partial(_kind, [*dates, *others])
        found[f"absent {odd}"] = partial(_kind, [*[""] * odd, *["Be brief."] * (20 - odd)], absent=odd)
        even = [str(100 + number * 3) for number in range(20)]
        for at in range(1, odd, 2):
            even[at] = str(int(even[at]) + 1 + at % 2)
        even[-1] = "5"
        found[f"steps {odd}"] = partial(_kind, even)
        numbers = [str(number * 7_919 % 9_973) for number in range(20 - odd)]
        found[f"records {odd}"] = partial(_kind, [*numbers, *numbers[:1] * odd], label="order")
    for count in range(2, 14):
        found[f"rises {count}"] = partial(_kind, [str(number * number + number * 3) for number in range(count)])
        found[f"ids {count}"] = partial(shape_of, _ids(count, 12, hexes))
        found[f"letters {count}"] = partial(shape_of, _ids(count, 12, letters))
        found[f"length {count}"] = partial(shape_of, _ids(16, count, hexes))
        found[f"letters of length {count}"] = partial(shape_of, _ids(16, count, letters))
        numbered = [f"pod-{letters[n]}{letters[n + 1]}-node{n if n < count else ''}" for n in range(14)]
        found[f"numbered {count}"] = partial(
            shape_of, [name.replace("node", "node-" + "x" * (n % 3 + 1)) for n, name in enumerate(numbered)]
        )
        found[f"vowels {count}"] = partial(shape_of, _ids(16, 12, letters * 3 + "aeiou" * count))
        found[f"alike {count}"] = partial(shape_of, _ids(16, 12, hexes, same=count // 2))
        items = ", ".join(" ".join(letters[n : n + count]) for n in range(3))
        found[f"list {count}"] = partial(is_short_list, items, 0, len(items))
    for lines in range(4, 60, 4):
        text = "\n".join("\n".join([f"Example {n}", *(f"The sea is {m} deep." for m in range(lines))]) for n in (1, 2))
        found[f"example of {lines}"] = partial(order_kind, text, 0, len(text))
    return found


@cache
def _usual() -> dict[str, object]:
    return {name: compute() for name, compute in _scenarios().items()}


def test_a_threshold_changed_by_half_changes_a_result() -> None:
    for name, value in changes(THRESHOLDS):
        usual = _usual()
        with changed(THRESHOLDS, name, value):
            assert any(compute() != usual[scenario] for scenario, compute in _scenarios().items())
