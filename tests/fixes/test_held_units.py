"""Units that are remembered are those that would be found again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.slots import WHOLE_LINE, Slot
from kvtool.fixes.moves import move_target as held_units
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.moves.split_text import contained_units, parted
from kvtool.text.traced import Origin, Traced

PIECES = [
    "Now: 2026-01-05T08:00:07",
    "ref a7f3",
    "You are Bo's help.",
    "- one",
    "## Rules",
    "Never guess.",
    "",
    "1. b",
    "| a |",
]
kinds = st.sampled_from(["timestamp_iso", WHOLE_LINE, "uuid", "number"])


def slot(line: int, kind: str, part: str) -> Slot:
    return Slot("", 0, 0, part=part, line_in_text=line, kind=kind, logged=True)


@given(
    st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("\n".join), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 4), kinds, st.sampled_from(["text", "messages[0]"])), min_size=1, max_size=3),
)
def test_what_is_remembered_is_what_is_found(bodies: list[str], slots: list[tuple[int, str, str]]) -> None:
    """The same texts in one part and in another, read by the same targets twice."""
    targets = [MoveTarget(slot(*each)) for each in slots]
    for _ in range(2):
        for body in bodies:
            for part in ("text", "messages[0]"):
                text = Traced.of(body, Origin("log", part=part, pointer=("content",), text=body))
                assert parted(text, targets, "", len(body)) == parted(text, fresh_of(targets), "", len(body))


def fresh_of(targets: list[MoveTarget]) -> list[MoveTarget]:
    """The same targets, with nothing remembered."""
    return [replace(target) for target in targets]


def test_a_text_is_read_once_for_each_place_that_it_has() -> None:
    units = held_units.UnitMemo()
    asked: list[str] = []

    def find(name: str) -> list[Movable | str]:
        asked.append(name)
        return [Movable(0, 1, "statement"), "a reason"]

    body = "a b"
    here, there = (Traced.of(body, Origin("log", part=part, text=body)) for part in ("system", "user"))
    for _ in range(2):
        assert units.of(here, "system", lambda: find("here")) == (Movable(0, 1, "statement"),)
        units.of(there, "system", lambda: find("there"))
        units.of(here, "user", lambda: find("as a user's"))
        units.of(Traced.of(body, Origin("log", part="system", text="x a b")), "system", lambda: find("elsewhere"))
        units.of(body, "system", lambda: find("of nowhere"))
    assert asked == ["here", "there", "as a user's", "elsewhere", "of nowhere"]


def test_a_target_that_is_another_one_remembers_nothing() -> None:
    target = MoveTarget(slot(0, WHOLE_LINE, "text"))
    target.held.of("a", "", lambda: [Movable(0, 1, "statement")])
    other = replace(target, steady=frozenset({"a"}))
    assert other.held.of("a", "", list) == ()
    assert target == replace(target)


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("\n".join),
    st.sampled_from(["text", "messages[0]", "messages (user)"]),
    st.sampled_from([None, "", "ref", "Now"]),
    st.integers(0, 4),
    kinds,
)
def test_a_text_that_cannot_hold_a_target_is_not_read(
    body: str, part: str, words: str | None, line: int, kind: str
) -> None:
    target = MoveTarget(replace(slot(line, kind, "messages[0]"), words=words))
    texts = [Traced.of(body, Origin("log", part=part, pointer=("content",), text=body)), Traced(body)]
    for text in texts:
        found = parted(text, [target], "", len(body))
        if not target.held._known:
            assert not found.units
            assert not list(contained_units(text, target, ""))


def test_texts_of_other_messages_take_no_room() -> None:
    target = MoveTarget(slot(0, WHOLE_LINE, "messages[0]"))
    for part in ("messages[0]", "messages[1]"):
        text = Traced.of("Now: 1\nBe kind.", Origin("log", part=part, text="Now: 1\nBe kind."))
        parted(text, [target], "", len(text))
    assert len(target.held._known) == 1


def test_only_so_many_texts_are_remembered() -> None:
    units = held_units.UnitMemo()
    for number in range(held_units._MOST + 10):
        units.of(str(number), "", list)
    assert len(units._known) == held_units._MOST
