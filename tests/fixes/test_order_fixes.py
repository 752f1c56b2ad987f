"""Lists and blocks in one order for all requests: what moves, what stays, and that numbers keep their places."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.orders.block_order import BlockOrder, blocks_of
from kvtool.fixes.orders.items import lines, paragraphs, tagged
from kvtool.fixes.orders.permute import ExampleMessages, GlobalOrder, ItemOrder
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn


def asked(text: str, question: str = "Hm?") -> Turn:
    traced = Traced.of(text, Origin("log.jsonl", part="messages[0] (system)", text=text))
    return Turn("g", messages=[{"role": "system", "content": traced}, {"role": "user", "content": question}])


def done(turn: Turn, transform: Callable[[Turn], Turn]) -> str:
    """The first text after the transformation, which is idempotent and leaves the turn that it got alone."""
    before = copy.deepcopy(turn)
    after = transform(turn)
    assert turn == before
    assert transform(after) is after
    return next(str.__str__(at.text) for at in texts_of(after))


def learned(samples: Sequence[str]) -> ItemOrder:
    order = ItemOrder.learn([asked(text) for text in samples], {"system"})
    assert order is not None
    return order


def test_the_most_frequent_goes_first_and_the_unknown_last() -> None:
    order = GlobalOrder.learn([["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"]], whole=True)
    assert order is not None
    items = ["y", "c", "x", "a", "b"]
    assert [items[place] for place in order.arranged(items)] == ["b", "a", "c", "x", "y"]
    assert GlobalOrder.learn([["a", "b"], ["a", "b", "c"], ["c"]], whole=True) is None  # the order never varies


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=6),
    st.lists(st.sampled_from("abcdefgh"), max_size=8),
    st.booleans(),
)
def test_any_list_is_put_in_order_once(samples: list[list[str]], items: list[str], whole: bool) -> None:
    order = GlobalOrder.learn(samples, whole=whole)
    if order is None:
        return
    once = [items[place] for place in order.arranged(items)]
    assert sorted(once) == sorted(items)
    assert order.arranged(once) == list(range(len(items)))


def test_tagged_documents_leave_their_numbers() -> None:
    def text(*bodies: str) -> str:
        documents = "\n".join(
            f'<document index="{n}">\n{body}\n\nMore.\n</document>' for n, body in enumerate(bodies, 1)
        )
        return f"<rules>Be brief.</rules>\n<documents>\n{documents}\n</documents>\nAnswer."

    order = learned([text("A", "B"), text("B", "A"), text("B", "C")])
    assert order.numbered
    assert done(asked(text("A", "B")), order) == text("B", "A")
    assert done(asked(text("D", "C", "A")), order) == text("A", "C", "D")


def test_numbered_documents_end_where_they_are_known_to() -> None:
    def text(*bodies: str, question: str = "Which?") -> str:
        return "\n".join(
            ["Use these.", *(f"[{n}] {body}" for n, body in enumerate(bodies, 1)), "", f"Question: {question}"]
        )

    order = learned([text("A a\nb", "B"), text("B", "A a\nb"), text("B", "C", question="Where?")])
    assert done(asked(text("A a\nb", "B", "E")), order) == text("B", "A a\nb", "E")


def test_numbered_rules_are_no_documents() -> None:
    def text(*bodies: str) -> str:
        found = "\n".join(f"Document {n}: {body}" for n, body in enumerate(bodies, 1))
        return f"1. Be kind.\n2. Be brief.\n3. Be right.\n\n{found}\n\nAnswer."

    order = learned([text("A", "B"), text("B", "A"), text("B", "C")])
    assert done(asked(text("C", "A", "B")), order) == text("B", "A", "C")


def test_memories_are_lines_among_others() -> None:
    def text(*memories: str) -> str:
        return "\n".join(["You help.", "Memories:", *(f"- {each}" for each in memories), "", "Be brief.", ""])

    order = learned(
        [
            text("likes tea", "has a dog", "is tall"),
            text("is tall", "likes tea", "has a dog"),
            text("likes tea", "is tall"),
        ]
    )
    wanted = text("is tall", "likes tea", "has a dog")
    for memories in (["likes tea", "has a dog", "is tall"], ["has a dog", "is tall", "likes tea"]):
        assert done(asked(text(*memories)), order) == wanted


@pytest.mark.parametrize(
    ("examples", "between"),
    [
        (
            ["Review: great\n\nSentiment: good", "Review: bad\n\nSentiment: poor", "Review: meh\n\nSentiment: so so"],
            "\n\n",
        ),
        (
            ["Review: great\n\nSentiment: good", "Review: fine\n\nSentiment: good", "Review: meh\n\nSentiment: poor"],
            "\n\n",
        ),
        (["Review: great\nSentiment: good", "Review: fine\nSentiment: good", "Review: meh\nSentiment: poor"], "\n"),
        (["great = good", "bad = poor", "meh = so so"], "\n\n---\n\n"),
        (["```py\nx = 1\n```", "```py\ny = 2\n```", "```py\nz = 3\n```"], "\n"),
        (["```py\nx = 1\n\nprint(x)\n```", "```py\ny = 2\n\nprint(y)\n```", "```py\nz = 3\n```"], "\n\n"),
    ],
)
def test_what_belongs_together_stays_together(examples: list[str], between: str) -> None:
    """Answers behind their questions, the rule between examples, the two fences of a block of code."""

    def text(*order: int) -> str:
        return f"You judge.\n\n{between.join(examples[each] for each in order)}\n\nJudge what comes."

    order = learned([text(0, 1, 2), text(2, 0, 1), text(1, 2, 0), text(0, 2, 1)])
    arranged = {done(asked(text(*each)), order) for each in permutations(range(3))}
    assert len(arranged) == 1
    assert arranged < {text(*each) for each in permutations(range(3))}


def test_what_stands_twice_at_odd_places_is_left_alone() -> None:
    """Nobody can say which document the line belongs to, so nothing is put in order."""
    lists = [["Old:", "a", "Old:", "b", "c"], ["c", "Old:", "b", "Old:", "a"], ["b", "c", "Old:", "a", "Old:"]]
    assert GlobalOrder.learn(lists, whole=False) is None


def test_examples_of_question_and_answer_stay_together() -> None:
    def text(*examples: str) -> str:
        return "\n\n".join(["Answer like this.", *(f"Q: {each}?\n\nA: {each}!" for each in examples), "Now you."])

    order = learned([text("one", "two"), text("two", "one"), text("one", "three"), text("three", "two", "one")])
    assert done(asked(text("two", "three", "one")), order) == text("one", "two", "three")


def test_nothing_that_varies_in_order() -> None:
    samples = [asked(f"Rules.\n\nIt is {n}.\n\nBe brief.") for n in range(5)]
    assert ItemOrder.learn(samples, {"system"}) is None
    assert ItemOrder.learn([], None) is None
    assert ExampleMessages.learn(samples) is None


def test_examples_that_are_messages() -> None:
    def turn(*examples: str, session: str | None = None) -> Turn:
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Rules."}]
        for each in examples:
            messages += [{"role": "user", "content": f"{each}?"}, {"role": "assistant", "content": f"{each}!"}]
        return Turn("g", messages=[*messages, {"role": "user", "content": "Now?"}], session=session)

    order = ExampleMessages.learn([turn("a", "b"), turn("b", "a"), turn("b", "c")])
    assert order is not None
    after = order(turn("a", "b", "d"))
    assert after.messages == turn("b", "a", "d").messages
    assert order(after) is after
    in_session = turn("a", "b", session="s")
    assert order(in_session) is in_session


@pytest.mark.parametrize(
    "text", ["<a>" * 20_000, "<doc>x</doc>" + "<doc>" * 20_000, "[1] " * 20_000, "1.\n" * 20_000, "\n \n" * 20_000]
)
def test_hostile_lists(text: str) -> None:
    ItemOrder.learn([asked(text), asked(text + "x")], None)
    blocks_of(text)


@given(st.text("ab<>/d1[] \n.", max_size=60))
def test_items_do_not_overlap(text: str) -> None:
    for split in (tagged, paragraphs, lines):
        items = split(text, ())
        assert all(item.start < item.stop for item in items)
        assert all(a.stop <= b.start for a, b in pairwise(items))


# Blocks of a prompt


def segments(**parts: str) -> Turn:
    pieces: list[str] = []
    for name, text in parts.items():
        pieces += ["\n", Traced.of(text, Origin("w.yaml", part=name, text=text))]
    return Turn("g", text=concat(pieces[1:]))


def test_segments_that_alternate() -> None:
    """One move alone would win nothing: behind the clock stands the user's name, and behind that the user's question."""
    steady = {"rules": "Be brief, be right. " * 20 + "Bye.", "style": "Be kind. " * 20 + "Bye."}
    samples = [
        segments(
            clock=f"It is {n}:00.",
            rules=steady["rules"],
            name=f"User {n % 3}.",
            style=steady["style"],
            question=f"{n}?",
        )
        for n in range(12)
    ]
    order = BlockOrder.learn(samples, "")
    assert order is not None
    text = done(samples[4], order)
    # Of the three that vary, the name has the fewest values, and the clock says which it is.
    assert text.split("\n") == [steady["rules"], steady["style"], "User 1.", "It is 4:00.", "4?"]
    assert BlockOrder.learn([order(turn) for turn in samples], "") is None


def test_paragraphs_of_a_system_message() -> None:
    samples = [
        asked(f"It is {n}:00 o'clock.\n\nRules are rules.\n\n```\na\n\nb\n```\n\nHello {n % 2}.") for n in range(6)
    ]
    order = BlockOrder.learn(samples, "system")
    assert order is not None
    assert done(samples[3], order) == "Rules are rules.\n\n```\na\n\nb\n```\n\nHello 1.\n\nIt is 3:00 o'clock."
    strange = asked("Something else.\n\nWith two blocks.")
    assert order(strange) is strange


def test_what_refers_to_its_neighbour_stays_behind_it() -> None:
    samples = [asked(f"It is {n}:00 o'clock.\n\nThe time above is local.\n\nRules are rules.") for n in range(6)]
    order = BlockOrder.learn(samples, "system")
    assert order is not None
    assert done(samples[3], order) == "Rules are rules.\n\nIt is 3:00 o'clock.\n\nThe time above is local."


def test_what_a_few_requests_have_moves_nothing_that_all_have() -> None:
    heads = ["Trial run 4\nYou help.", *["You help."] * 11]
    samples = [asked(f"{head}\n\nRules are rules.\n\nBe brief.") for head in heads]
    assert BlockOrder.learn(samples, "system") is None


def test_sections_move_with_what_is_under_their_headings() -> None:
    samples = [asked(f"# Now\n\n{n}:00\n\n# Rules\n\nBe brief.\n\n## Tone\n\nKind.") for n in range(4)]
    order = BlockOrder.learn(samples, "system")
    assert order is not None
    assert done(samples[0], order) == "# Rules\n\nBe brief.\n\n## Tone\n\nKind.\n\n# Now\n\n0:00"


def test_no_shared_layout() -> None:
    assert BlockOrder.learn([asked("a\n\nb"), asked("a")], "system") is None
    assert BlockOrder.learn([asked("Rules.\n\n1"), asked("Rules.\n\n2")], "system") is None  # it is best already
    assert BlockOrder.learn([], "system") is None


@given(st.integers(0, 10_000))
def test_any_layout_keeps_its_blocks(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"part{index}" for index in range(rng.randint(2, 6))]
    kinds = {name: rng.choice([1, 2, 50]) for name in names}
    samples = [segments(**{name: f"{name} says {rng.randrange(kinds[name])}." for name in names}) for _ in range(8)]
    order = BlockOrder.learn(samples, "")
    if order is not None:
        for turn in samples:
            after = done(turn, order)
            assert Counter(after.split("\n")) == Counter(str.__str__(turn.text or "").split("\n"))


def test_blocks_are_whole_units() -> None:
    for text, blocks in [
        ("# T\n\nOne.\n\nTwo.\n", ["# T", "One.", "Two."]),
        ("## T\n\nOne.\n", ["## T\n\nOne."]),
        ("# T\nIn.\n\n## A\na\n\n## B\nb\n\nc\n", ["# T\nIn.", "## A\na", "## B\nb\n\nc"]),
        ("Rules:\n\n- a b\n\n- c d\n\nEnd.", ["Rules:\n\n- a b\n\n- c d", "End."]),
        ("<doc>\na\n\nb\n</doc>\n\nAfter.", ["<doc>\na\n\nb\n</doc>", "After."]),
        ("Code:\n\n```\n# no heading\n\n# none\n```\n\nx", ["Code:\n\n```\n# no heading\n\n# none\n```", "x"]),
        ("<r>\n## A\na\n## B\nb\n</r>\n\nEnd.", ["<r>\n## A\na\n## B\nb\n</r>", "End."]),
        ("\n\n \n", []),
    ]:
        assert [text[block.start : block.stop] for block in blocks_of(text)] == blocks
