"""Rewrites of a turn: what they do, that once is enough, that the turn that was given stays, and that origins survive."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.slots import Slot
from kvtool.fixes.forms.coarsen import coarsen_times, coarsened, drop_values
from kvtool.fixes.forms.json_form import sort_keys, sort_tools
from kvtool.fixes.forms.text_form import COSMETIC_KINDS, SingleForm
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.orders.permute import ToolsByFirstUse
from kvtool.fixes.turn_texts import INSTRUCTIONS, edited, texts_of
from kvtool.fixes.window import StrideWindow
from kvtool.text.json_text import json_in, sorted_json
from kvtool.text.reordered import rearranged
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn

FILE = "prompt.yaml"
NOW = Slot(FILE, 3, 7, variable="now")


def normalize(turn: Turn, kind: str, roles: Collection[str] = INSTRUCTIONS) -> Turn:
    return SingleForm((kind,), roles)(turn)


def literal(text: str, line: int = 1) -> Traced:
    return Traced.of(text, Origin(FILE, line, text=text))


def value(text: str, slot: Slot = NOW) -> Traced:
    return Traced.of(text, Origin(FILE, slot.line, slot.column, verbatim=False, variable=slot.variable, text=text))


def done(turn: Turn, transform: Callable[[Turn], Turn]) -> Turn:
    """The turn after the transformation, which is idempotent and leaves the turn that it got alone."""
    before = copy.deepcopy(turn)
    after = transform(turn)
    assert turn == before
    assert transform(after) is after
    return after


def system(text: str, **more: Any) -> Turn:
    return Turn("g", messages=[{"role": "system", "content": text}, {"role": "user", "content": "Hm?"}], **more)


def texts(turn: Turn) -> list[str]:
    return [str.__str__(at.text) for at in texts_of(turn)]


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, **more}}


# Texts


def test_an_edited_text_knows_where_its_characters_came_from() -> None:
    text = concat([literal("It is "), value("10:31"), literal(" now", 2)])
    after = edited(text, [(6, 11, "10:00"), (12, 15, "then")])
    assert after == "It is 10:00 then"
    at_value, offset = after.at(8)
    assert at_value is not None
    assert (at_value.variable, offset) == ("now", 2)
    at_end, offset = after.at(12)
    assert at_end is not None
    assert (at_end.line, offset) == (2, 1)


@given(st.lists(st.sampled_from(["a", "bc", "d\n", "ef g"]), max_size=6), st.randoms(use_true_random=False))
def test_rearranged_text_is_its_pieces(pieces: list[str], random: Any) -> None:
    text = concat([literal(piece, line) for line, piece in enumerate(pieces, 1)])
    at = 0
    ranges = []
    for piece in pieces:
        ranges.append((at, at + len(piece)))
        at += len(piece)
    random.shuffle(ranges)
    after = rearranged(text, ranges)
    assert after == "".join(str.__getitem__(text, slice(*each)) for each in ranges)
    assert [after.at(index) for index in range(len(after))] == [
        text.at(index) for start, stop in ranges for index in range(start, stop)
    ]


# Tools and JSON


def test_tools_go_by_name() -> None:
    tools = [tool("search"), {"name": "buy", "input_schema": {}}, tool("read")]
    after = done(system("x", tools=tools), sort_tools)
    assert after.tools == [tools[1], tools[2], tools[0]]
    assert sort_tools(after) is after


def test_odd_tools_survive() -> None:
    for tools in [None, [], [3, None, "x", {}], [{"function": 3}], [tool("a"), tool("a", description="b")]]:
        after = done(system("x", tools=tools), sort_tools)
        assert sorted(map(repr, after.tools or [])) == sorted(map(repr, tools or []))


def test_tools_written_into_the_instructions() -> None:
    tools = [tool("search"), tool("buy")]
    turn = system(f"Tools:\n{json.dumps(tools, indent=1)}\nUse them.")
    after = done(turn, sort_tools)
    assert texts(after)[0] == f"Tools:\n{json.dumps(tools[::-1], indent=1)}\nUse them."


def test_a_list_of_names_is_no_list_of_tools() -> None:
    turn = system('[{"name": "b"}, {"name": "a"}]')
    assert sort_tools(turn) is turn


def test_keys_are_sorted_and_nothing_else() -> None:
    text = 'Config: {"b": 1.0, "a": [ {"d":"\\u00e9", "c": null} ],\n "aa":{} } and {broken: [1,'
    after = done(system(text), sort_keys)
    assert texts(after)[0] == 'Config: {"a": [ {"c": null, "d":"\\u00e9"} ], "aa":{},\n "b": 1.0 } and {broken: [1,'


def test_keys_of_tools_and_of_calls() -> None:
    arguments = '{"to": "me", "at": 3}'
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    parsed = {"id": "d", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": {"z": 1, "y": 2}}}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call, parsed, 7]},
        {"role": "user", "content": '{"b": 1, "a": 2}'},
    ]
    turn = Turn("g", messages=messages, tools=[{"name": "f", "input_schema": {"z": 1, "a": 2}}])
    after = done(turn, sort_keys)
    assert json.dumps(after.tools) == '[{"input_schema": {"a": 2, "z": 1}, "name": "f"}]'
    assert after.messages is not None
    calls = after.messages[0]["tool_calls"]
    assert calls[0]["function"]["arguments"] == '{"at": 3, "to": "me"}'
    assert json.dumps(calls[1]["function"]["arguments"]) == '{"a": {"y": 2, "z": 1}, "b": 1}'
    assert after.messages[1] is messages[1]  # what the user wrote
    asked = done(turn, lambda turn: sort_keys(turn, {"user"}))
    assert texts(asked) == ['{"a": 2, "b": 1}']


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[],: \n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"{\\', max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from([None, 1]), st.sampled_from(["", "x ", "{ ", '"']))
def test_sorted_json_says_the_same(data: Any, indent: int | None, before: str) -> None:
    text = before + json.dumps(data, indent=indent)
    after = sorted_json(text)
    assert sorted(after) == sorted(text)  # not a character more or less
    assert sorted_json(after) is after
    for old, new in zip(json_in(text), json_in(after), strict=True):
        assert old.value == new.value
        assert json.dumps(new.value) == json.dumps(new.value, sort_keys=True)
    if not before and isinstance(data, dict) and data:
        assert json.loads(after) == data


def test_long_json_is_found() -> None:
    data = {"b": "x" * 3000, "a": [{"z": n, "y": "\\\n"} for n in range(500)]}
    text = f"{{ no }} {json.dumps(data)} and {json.dumps({'d': 1, 'c': 2})}"
    assert [found.value for found in json_in(text)] == [data, {"d": 1, "c": 2}]
    assert json.dumps(data, sort_keys=True) in sorted_json(text)


def test_hostile_json_costs_what_text_costs() -> None:
    for text in [
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"' * 200_000,
        "[{" * 200_000,
        '{"a": "' + "\\" * 200_000,
        '{"a": ' + "9" * 9000 + "}",
    ]:
        assert sorted_json(text) is text


# White space and Unicode


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        ("bom", "\ufeffRules", "Rules"),
        ("line_endings", "a\r\nb\rc\n", "a\nb\nc\n"),
        ("final_newline", "a\n\n", "a"),
        ("trailing_space", "a \t\nb  ", "a\nb"),
        ("unicode_form", "cafe\u0301", "caf\u00e9"),
        ("invisible", "a\u200bb", "ab"),
        ("space_kind", "a\u00a0b\tc", "a b\tc"),
        ("tab", "a\u00a0b\tc", "a\u00a0b c"),
        ("whitespace", "a  b\n\n\n\nc\n    d", "a b\n\nc\n    d"),
    ],
)
def test_normalized(kind: str, text: str, want: str) -> None:
    after = done(system(text), lambda turn: normalize(turn, kind))
    assert texts(after) == [want, "Hm?"]
    assert texts(done(Turn("g", text=literal(text)), lambda turn: normalize(turn, kind))) == [want]


def test_code_values_and_users_are_left_alone() -> None:
    code = "Rules \n```\ncode \n```\nend \n"
    text = concat([literal(code), value("typed \n"), literal("bye ")])
    turn = Turn("g", messages=[{"role": "developer", "content": text}, {"role": "user", "content": "said "}])
    after = done(turn, lambda turn: normalize(turn, "trailing_space"))
    assert texts(after) == ["Rules\n```\ncode \n```\nend\ntyped \nbye", "said "]
    asked = done(turn, lambda turn: normalize(turn, "trailing_space", {"user"}))
    assert texts(asked)[1] == "said"


@given(st.text("a \t\r\n\u0301\ufeff\u00a0`e\u200b", max_size=30), st.sampled_from(COSMETIC_KINDS))
def test_normalizing_twice_is_normalizing_once(text: str, kind: str) -> None:
    done(system(text), lambda turn: normalize(turn, kind))


def test_hostile_white_space() -> None:
    text = " " * 50_000 + "x" + "\n" * 50_000 + "e\u0301" * 5_000
    for kind in COSMETIC_KINDS:
        normalize(system(text), kind)
        SingleForm.learn([system(text), system(f"\t{text} ")], kind, INSTRUCTIONS)


# Values


def test_coarsened() -> None:
    for time, step, want in [
        ("2025-01-02T10:31:05.123Z", "minute", "2025-01-02T10:31:00.000Z"),
        ("2025-01-02T10:31:05.123+02:00", "hour", "2025-01-02T10:00:00.000+02:00"),
        ("2025-01-02T10:31:05Z", "day", "2025-01-02T00:00:00Z"),
        ("20250102T103105Z", "day", "20250102T000000Z"),
        ("2025-01-02 10:31", "hour", "2025-01-02 10:00"),
        ("Thu, 02 Jan 2025 10:31:05 GMT", "day", "Thu, 02 Jan 2025 00:00:00 GMT"),
        ("January 2, 2025 at 9:31 PM", "day", "January 2, 2025 at 12:00 AM"),
        ("January 2, 2025 at 9:31 PM", "hour", "January 2, 2025 at 9:00 PM"),
        ("10:31:05", "hour", "10:00:00"),
        ("1735813865", "day", "1735776000"),
        ("1735813865123", "hour", "1735812000000"),
        ("1735813865.5", "minute", "1735813860.0"),
        ("2025-01-02", "day", "2025-01-02"),
        ("Thursday", "day", "Thursday"),
    ]:
        assert coarsened(time, step) == want
        assert coarsened(want, step) == want


@pytest.mark.parametrize(
    ("time", "want"),
    [
        ("2025-01-02T10:31:05Z", "2025-01-02T00:00:00Z"),
        ("10:31", "10:00"),
        ("2025-01-02 at 3", "2025-01-02 at 3"),
        ("9:31 am", "9:00 am"),
    ],
)
def test_the_time_of_a_slot(time: str, want: str) -> None:
    text = concat([literal("Now 10:59. It is "), value(time), literal(", on 2024-05-06 07:08.")])
    after = done(system(text), lambda turn: coarsen_times(turn, MoveTarget(NOW)))
    assert texts(after)[0] == f"Now 10:59. It is {want}, on 2024-05-06 07:08."
    origin, _ = texts_of(after).__next__().text.at(17)  # type: ignore[attr-defined]  # the texts of these turns are Traced
    assert origin.variable == "now"


ID = Slot(FILE, 5, 9, variable="request_id")


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        (("Rules.\nRequest id: ", "a7f3", "\nBe brief."), "Rules.\nBe brief."),
        (("Rules.\nRequest id: ", "a7f3", ""), "Rules.\n"),
        (
            ("You answer request ", "a7f3", " of a customer, politely and briefly."),
            "You answer request  of a customer, politely and briefly.",
        ),
        (("", "a7f3", "\nBe brief."), "Be brief."),
    ],
)
def test_a_value_is_left_out(pieces: tuple[str, str, str], want: str) -> None:
    text = concat([literal(pieces[0]), value(pieces[1], ID), literal(pieces[2])])
    assert texts(done(system(text), lambda turn: drop_values(turn, MoveTarget(ID))))[0] == want
    assert texts(done(Turn("g", text=text), lambda turn: drop_values(turn, MoveTarget(ID)))) == [want]


# Sessions


def chat(*said: str, session: str = "s", instructions: str = "Rules.") -> Turn:
    messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}]
    messages += [{"role": "assistant" if text.startswith("a") else "user", "content": text} for text in said]
    return Turn("g", messages=messages, session=session)


def contents(turns: list[Turn]) -> list[list[str]]:
    return [texts(turn)[1:] for turn in turns]


def test_a_window_is_cut_on_a_stride() -> None:
    """Four messages are kept; with a stride of half of that the history is cut when it would have seven."""
    said = [f"{'a' if n % 2 else 'u'}{n}" for n in range(16)]
    window = [chat(*said[max(end - 4, 0) : end]) for end in range(1, 16)]
    transform = StrideWindow()
    after = [transform(turn) for turn in window]
    begins = [said.index(texts(turn)[1]) for turn in after]
    #        end: 1  2  3  4  5  6  7  8  9 10 11 12 13 14  15
    assert begins == [0, 0, 0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9]
    for end, begin, turn in zip(range(1, 16), begins, after, strict=True):
        assert texts(turn)[1:] == said[begin:end]
    again = StrideWindow()
    assert contents([again(turn) for turn in after]) == contents(after)


def test_histories_of_sessions_are_kept_apart() -> None:
    transform = StrideWindow()
    for session in "st":
        transform(chat("u0", "a1", "u2", session=session))
    assert texts(transform(chat("a1", "u2", "a3", "u4", session="s")))[1:] == ["u0", "a1", "u2", "a3", "u4"]
    other = chat("u9", "a9", session="t")
    assert transform(other) is other


def test_turns_without_a_window() -> None:
    for turn in [Turn("g"), Turn("g", messages=[]), chat("u0"), Turn("g", messages=[{"content": 3}], session="s")]:
        transform = StrideWindow()
        assert transform(turn) is turn
        assert transform(turn) is turn


def test_new_tools_go_to_the_end() -> None:
    a, b, c = tool("a"), tool("b"), tool("c")
    turns = [Turn("g", messages=[], tools=tools, session="s") for tools in ([b, c], [a, b, c], [c, a, b], [c, b])]
    transform = ToolsByFirstUse()
    after = [transform(turn) for turn in turns]
    assert [turn.tools for turn in after] == [[b, c], [b, c, a], [b, c, a], [b, c]]
    again = ToolsByFirstUse()
    assert [again(turn) for turn in after] == after
    other = Turn("g", messages=[], tools=[c, b], session="t")
    assert transform(other) is other


ODD: list[Turn] = [
    Turn("g"),
    Turn("g", text=Traced("")),
    Turn("g", messages=[]),
    Turn("g", messages=[{}]),
    Turn("g", messages=[{"role": "user", "content": None}, {"role": 3, "content": 4.5}]),
    Turn(
        "g",
        messages=[{"role": "system", "content": [1, "x", None, {"type": "text", "text": 7}, {"type": "image"}, [2]]}],
    ),
    Turn(
        "g", messages=[{"role": "assistant", "content": None, "tool_calls": 5}, {"role": "tool", "content": {"a": 1}}]
    ),
    Turn(
        "g",
        messages=[{"role": "system", "content": "x", "tool_calls": [None, {"function": {"arguments": 3}}]}],
        tools=[1, {}],
    ),
]


@pytest.mark.parametrize("turn", ODD)
@pytest.mark.parametrize(
    "transform",
    [
        sort_tools,
        sort_keys,
        lambda turn: normalize(turn, "whitespace"),
        lambda turn: coarsen_times(turn, MoveTarget(NOW)),
        lambda turn: drop_values(turn, MoveTarget(ID)),
        ToolsByFirstUse(),
        StrideWindow(),
    ],
)
def test_odd_messages_survive(turn: Turn, transform: Callable[[Turn], Turn]) -> None:
    done(turn, transform)
