"""What is said to differ in values alone has no change of structure in a whole comparison."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.diagnose.causes.structure_changes import STRUCTURAL
from kvtool.diagnose.compare.change import Change, in_full
from kvtool.diagnose.compare.messages import compare_structure, compare_turns
from kvtool.diagnose.compare.only_values import differ_in_values
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

RULES = "You help people who fly.\n\nBe kind to all of them, always.\nNever give refunds for basic fares, whatever they say.\n"
QUESTION = {"role": "user", "content": "Where is my suitcase?"}


def text(written: str) -> Turn:
    return Turn("g", text=Traced(written))


def says(before: str, after: str) -> bool:
    """Whether two texts are said to differ in values; where they are, the whole comparison must agree."""
    one, other = text(before), text(after)
    said = differ_in_values(one, other)
    if said:
        assert not changes_of_structure(one, other)
    same_in_full(one, other)
    return said


def changes_of_structure(before: Turn, after: Turn) -> list[Change]:
    return [change for change in compare_turns(before, after) if change.cosmetic or change.kind in STRUCTURAL]


def same_in_full(before: Turn, after: Turn) -> list[Change]:
    """What is told without naming values: it must lack no change of structure, and be the whole comparison once they are named."""
    found = compare_structure(before, after)
    told = [change for change in found if change.cosmetic or change.kind in STRUCTURAL]
    assert told or not changes_of_structure(before, after)
    assert in_full(found) == compare_turns(before, after)
    return found


def test_a_value_before_what_is_shared_is_told_at_once() -> None:
    for one, other in [
        ("Now: 2026-01-05T08:00:07+00:00", "Now: 2026-01-05T08:07:00+00:00"),
        ("Now: 2026-01-05 08:00:07 UTC", "Now: 2026-01-05 18:07:00 UTC"),
        ("The customer is Ada now", "The customer is Grace now"),
        ("step 9", "step 10"),
    ]:
        assert says(f"{one}\n{RULES}Where is my suitcase?", f"{other}\n{RULES}May I move the flight?")
        assert says(f"{RULES}Where is my suitcase?\n{one}", f"{RULES}May I move the flight?\n{other}")


def test_whatever_is_not_plain_is_left_to_the_whole_comparison() -> None:
    for before, after in [
        ("Answer in French.\n" + RULES + "Why?", RULES + "When?"),
        ("It is {name}.\n" + RULES + "Why?", "It is not.\n" + RULES + "Why?"),
        ("a, b, c\n" + RULES + "Why?", "b, c, a\n" + RULES + "When?"),
        (RULES + "one line of its own\nanother\nWhy?", RULES + "another\none line of its own\nWhen?"),
        ("Now: 1\n" + RULES.replace("fly", "fly ") + "Why?", "Now: 2\n" + RULES + "When?"),
        ('[{"a": 1}]\n' + RULES + "Why?", '[{"a": 2}]\n' + RULES + "When?"),
        (
            "System: be kind\nUser: a b c d\nAssistant: yes\nUser: why?",
            "System: be kind\nAssistant: yes\nUser: why?\nAssistant: no\nUser: when?",
        ),
    ]:
        assert not says(before, after)


def test_requests_with_tools_and_of_two_forms_are_compared() -> None:
    message = Turn("g", messages=[{"role": "user", "content": "a"}])
    assert not differ_in_values(message, text("a"))
    assert not differ_in_values(Turn("g", text=Traced("a"), tools=[{"name": "b"}]), text("b"))


values = st.sampled_from(
    [
        "2026-01-05T08:00:07+00:00", "12:30", "7", "Ada", "Ada Lovelace", "req-12ab34cd", "a, b", "b, a", "", " ",
        "é", "x. y", "off",
    ]
)  # fmt: skip
lines = st.lists(
    st.sampled_from(
        ["alpha beta gamma delta epsilon", "Example 3:", "zeta eta", "", "user: hello", "and 44 more words"]
    ),
    max_size=6,
)


@given(
    st.sampled_from(["", "Now: ", "id=", "user "]), st.lists(values, min_size=4, max_size=4), lines, lines, lines, lines
)
@example(
    "Now: ", ["7", "12:30", "", ""], [], ["alpha beta gamma delta epsilon"] * 3, ["zeta eta"], ["and 44 more words"]
)
def test_the_whole_comparison_agrees(
    label: str, given_values: list[str], front: list[str], shared: list[str], end: list[str], other_end: list[str]
) -> None:
    one, other, last, other_last = given_values
    shared = [*shared, "these words stand in both of them, and there are enough of these words"]
    before = [*front, label + one, *shared, *end, label + last]
    after = [*front, label + other, *shared, *other_end, label + other_last]
    says("\n".join(before), "\n".join(after))
    roles = ("system", "user")[: 1 + bool(end)] * 2
    texts = ["\n".join(each) for each in (before, end, shared, [last])]
    others = ["\n".join(each) for each in (after, other_end, shared, [other_last])]
    same_in_full(
        *(
            Turn("g", messages=[{"role": role, "content": each} for role, each in zip(roles, written, strict=False)])
            for written in (texts, others)
        )
    )


def test_values_are_named_when_somebody_asks() -> None:
    one, other = (
        Turn("g", messages=[{"role": "system", "content": f"Now: {now}\nYou speak with {name}.\n{RULES}"}, QUESTION])
        for now, name in (("2026-01-05T08:00:07", "Ada"), ("2026-01-05T08:00:14", "Grace"))
    )
    (change,) = same_in_full(one, other)
    assert change.in_full is not None
    assert [each.kind.key for each in change.in_full()] == ["timestamp_iso", "other"]
