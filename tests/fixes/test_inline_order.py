"""Lists on one line: found by the order of their items, put in one order, and nothing else changed."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.compare.inline_items import reordered
from kvtool.diagnose.compare.messages import compare_turns
from kvtool.fixes.orders.inline_order import InlineOrder
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn
from tests.conftest import some

NAMES = ["orders.search", "web.fetch", "mail_send", "crm.find", "calendar"]
FORMS = [
    ("Tools: {}", ", ", "", NAMES),
    ("You can use {}", ", ", " Be kind.", [f"`{name}`" for name in NAMES]),
    ("Enabled functions: {}", " \u00b7 ", "", NAMES),
    ("Enabled tools: {}", " -> ", "", NAMES),
    ("Actions: {}", " / ", "", [f"{name}(q, n)" for name in NAMES]),
    ("Tools: [{}]", ", ", "", [f'"{name}"' for name in NAMES]),
    ("<tools>{}</tools>", "", "", [f'<tool name="{name}">does {name}</tool>' for name in NAMES]),
    ("Tools: {}", "; ", "", [f"{name} finds, reads and writes" for name in NAMES]),
]


def turn(text: str) -> Turn:
    return Turn("g", messages=[{"role": "system", "content": Traced(text)}, {"role": "user", "content": Traced("Hm?")}])


def said(one: Turn) -> str:
    assert one.messages is not None
    return str(one.messages[0]["content"])


def test_tools_on_a_line() -> None:
    for form, separator, behind, items in FORMS:
        for seed in some(range(4), 2):
            chance = random.Random(seed)
            rules = "\n".join(f"- Rule {number}, which is short, plain and kind." for number in range(20))
            turns = []
            for _ in range(6):
                order = chance.sample(items, len(items))
                turns.append(turn(f"You are Ada.\n{form.format(separator.join(order))}{behind}\n{rules}"))
            for one, other in pairwise(turns):
                kinds = [change.kind.code for change in compare_turns(one, other)]
                assert kinds == ([] if said(one) == said(other) else ["KV111"])
            fix = InlineOrder.learn(turns, {"system"})
            assert fix is not None
            assert len({said(fix(each)) for each in turns}) == 1
            for each in turns:
                assert sorted(said(fix(each))) == sorted(said(each))


def test_a_list_of_documents_is_none_of_tools() -> None:
    one, other = (
        turn(f"Be kind.\nSources: {', '.join(order)}\nEnd.")
        for order in (["Alpha", "Beta", "Gamma"], ["Gamma", "Alpha", "Beta"])
    )
    assert [change.kind.code for change in compare_turns(one, other)] == ["KV113"]


def test_what_is_no_list_is_left_alone() -> None:
    assert reordered("Ada gave it to Bob", "Bob gave it to Ada") is None
    assert reordered("Tools: a, b, c", "Tools: a, b, d") is None
    assert InlineOrder.learn([turn(f"Hello {name}, be kind, be short.") for name in ("Ada", "Bob")], {"system"}) is None


@given(st.lists(st.text("ab(,;| .:<>[]`", max_size=40), min_size=2, max_size=6))
def test_no_text_is_lost(texts: list[str]) -> None:
    turns = [turn(text) for text in texts]
    fix = InlineOrder.learn(turns, {"system"})
    for each in turns if fix is not None else []:
        after = fix(each)
        assert sorted(said(after)) == sorted(said(each))
        assert said(fix(after)) == said(after)


def test_words_that_introduce_nothing_elsewhere_introduce_what_all_lines_have_behind_them() -> None:
    names = ["find_berth", "call_pilot", "weigh_cargo", "print_permit", "close_gate"]
    chance = random.Random(5)
    turns = []
    for _ in range(8):
        order = chance.sample(names, len(names))
        turns.append(turn(f"You are Ada.\nIn need, reach for {', '.join(order[:-1])} and {order[-1]}.\nBe brief."))
    for one, other in pairwise(turns):
        assert [change.kind.code for change in compare_turns(one, other)] in (["KV111"], [])
    order_of = InlineOrder.learn(turns, None)
    assert order_of is not None
    assert len({said(order_of(each)) for each in turns}) == 1
    line = said(order_of(turns[0])).split("\n")[1]
    assert line.startswith("In need, reach for ")
    assert sorted(line.removeprefix("In need, reach for ").rstrip(".").replace(" and ", ", ").split(", ")) == sorted(
        names
    )


def test_what_always_comes_first_is_no_item_where_nothing_introduces_the_list() -> None:
    lines = ["We never sell ropes, sails, oars and masts.", "We never sell ropes, oars, masts and sails."]
    order_of = InlineOrder.learn([turn(f"Hi.\n{line}") for line in lines], None)
    for line in lines:
        changed = turn(f"Hi.\n{line}") if order_of is None else order_of(turn(f"Hi.\n{line}"))
        assert said(changed).split("\n")[1].startswith("We never sell ")


@pytest.mark.parametrize(
    ("intro", "code"), [("Within reach", "KV111"), ("Columns of the table", "KV113"), ("Known fields", "KV113")]
)
def test_identifiers_on_a_line_are_tools_unless_it_says_otherwise(intro: str, code: str) -> None:
    names = ["berth_id", "pilot_name", "cargo_tons", "gate_no"]
    one, other = (turn(f"Hi.\n{intro}: {', '.join(order)}\nBe brief.") for order in (names, names[::-1]))
    assert [change.kind.code for change in compare_turns(one, other)] == [code]


def test_commands_with_a_slash_are_a_list() -> None:
    one, other = (turn(f"Commands: {line}\nBe brief.") for line in ("/moor /weigh /pay", "/pay /moor /weigh"))
    assert [change.kind.code for change in compare_turns(one, other)] == ["KV111"]


def test_what_a_list_below_each_other_is_of() -> None:
    for intro, items, code in [
        ("Samples:", ["ropes are wet => deck", "crane is slow => gear", "box is warm => cold store"], "KV114"),
        ("Notes:", ["Ropes are wet.", "The crane is slow today.", "The box is warm again."], "KV113"),
        ("Actions:", ["1) moor(ship)", "2) weigh(box)", "3) hail(pilot)"], "KV111"),
    ]:
        for first in [0, 1]:
            bodies = [item.partition(") ")[2] or item for item in items]
            marks = [item.partition(") ")[0] + ") " if ") " in item else "" for item in items]
            swapped = [*bodies[:first], *reversed(bodies[first:])]
            one, other = (
                turn(
                    f"Hi.\n{intro}\n"
                    + "\n".join(mark + body for mark, body in zip(marks, order, strict=True))
                    + "\n\nBe brief."
                )
                for order in (bodies, swapped)
            )
            assert [change.kind.code for change in compare_turns(one, other)] == [code]


def test_a_mark_that_changes_is_no_section_that_comes_and_goes() -> None:
    one, other = (turn(f"Hi.\n- [{mark}] ropes are dry\n- [ ] crane is up\nBe brief.") for mark in " x")
    assert [change.kind.code for change in compare_turns(one, other)] == ["KV201"]
