"""What is said of lists of messages without comparing them is what the whole comparison tells."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kvtool.diagnose.causes.structure_changes import STRUCTURAL
from kvtool.diagnose.compare.messages import compare_turns
from kvtool.diagnose.compare.only_values import messages_differ_in_values
from kvtool.text.message import Message
from kvtool.workload.turn import Turn

RULES = """Be kind to all who write, always.
Never give refunds for basic fares, whatever they say.
Answer in two lines, or in three."""


def said(before: list[Message], after: list[Message]) -> bool:
    """Whether values alone are said to differ; the whole comparison must agree."""
    plain = messages_differ_in_values(before, after)
    if plain:
        changes = compare_turns(Turn("g", messages=before), Turn("g", messages=after))
        assert not [change for change in changes if change.cosmetic or change.kind in STRUCTURAL]
    return plain


def chat(*texts: str) -> list[Message]:
    """A system prompt, then user and assistant in turn."""
    roles = ["system", *(("user", "assistant")[at % 2] for at in range(len(texts) - 1))]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Now: 08:00:07, request 34f267def005\nYou speak with Ada.", "Now: 08:00:14, request 2310ff64fb1b\nYou speak with Bo."),
        ("Now: 2026-01-05", "Now: 2026-01-06"),
        ("Customer 17 of Lisbon", "Customer 23 of Porto"),
    ],
)  # fmt: skip
def test_values_in_front_of_rules_and_a_question_are_told_at_once(one: str, other: str) -> None:
    assert said(chat(f"{one}\n{RULES}", "Where is my suitcase?"), chat(f"{other}\n{RULES}", "May I move it?"))
    assert said(chat(f"{RULES}\n{one}\n{RULES}!", "Why?"), chat(f"{RULES}\n{other}\n{RULES}!", "When?"))


def test_whatever_is_not_plain_is_left_to_the_whole_comparison() -> None:
    for before, after in [
        (chat("a b\nc\n" + RULES, "Why?"), chat("a\nb c\n" + RULES, "When?")),
        (chat("one of them\nanother one\n" + RULES, "Why?"), chat("another one\none of them\n" + RULES, "Why not?")),
        (chat("Example 1: x\nExample 2: y\n" + RULES, "Why?"), chat("Example 3: y\nExample 4: x\n" + RULES, "When?")),
        (chat("Now: 1\n\n" + RULES, "Why?"), chat("\nNow: 2\n" + RULES, "When?")),
        (chat("Now: 1\n" + RULES, "Why?"), chat("Now: 2\nYou see.\n" + RULES, "When?")),
        (chat('{"a": 1, "b": 2}\n' + RULES, "Why?"), chat('{"b": 2, "a": 1}\n' + RULES, "When?")),
        (chat("a, b, c\n" + RULES, "Why?"), chat("b, c, a\n" + RULES, "When?")),
        (chat("Now: 1\n" + RULES, "Why?", "So.", "Why?"), chat("Now: 2\n" + RULES, "Why?", "So.", "Why?", "No.")),
        (chat(RULES, "Why?", "So.", "And?"), chat(RULES, "And?", "So.", "Why?")),
        (
            [{"role": "system", "content": RULES, "name": "a"}, {"role": "user", "content": "Why?"}],
            [{"role": "system", "content": RULES, "name": "b"}, {"role": "user", "content": "Why?"}],
        ),
    ]:
        assert not said(before, after)


pieces = st.sampled_from(
    [
        "Now: 2026-01-05T08:00:07+00:00",
        "Now: 2026-01-05T08:07:00+00:00",
        "You speak with Ada Lovelace.",
        "You speak with Ada.",
        "Step 7",
        "Step 11",
        "Step  7",
        "a, b, c",
        "c, b, a",
        "a b",
        "",
        " ",
        "Example 3: he asks",
        "Example 4: he asks",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda",
        "[x] done",
        "é",
    ]
)
texts = st.lists(pieces, max_size=3).map("\n".join)


@given(
    st.lists(st.tuples(texts, texts, st.booleans(), st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["", RULES]),
    st.sampled_from(["", RULES]),
    st.integers(0, 3),
)
def test_the_whole_comparison_agrees(
    written: list[tuple[str, str, bool, bool]], front: str, end: str, moved: int
) -> None:
    sides: tuple[list[str], list[str]] = ([], [])
    for one, other, framed, same in written:
        for side, text in zip(sides, (one, one if same else other), strict=True):
            side.append("\n".join(filter(None, (front, text, end))) if framed else text)
    before, after = chat(*sides[0]), chat(*sides[1])
    if moved == 1:
        after.append({"role": "user", "content": "And?"})
    elif moved == 2:
        after[-1] = {"role": "tool", "content": after[-1]["content"]}
    event(f"said: {said(before, after)}")
