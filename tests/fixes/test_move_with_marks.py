"""Cache marks and moves: what a mark ends stays stable, no block is left empty, and no mark is added."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.slots import Slot
from kvtool.fixes.forms.json_form import sort_tools
from kvtool.fixes.moves.move import move_targets
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.turn_texts import marks_in, texts_of
from kvtool.text.cache_marks import is_marked
from kvtool.text.templates.template import compile_template
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn

MARK = {"cache_control": {"type": "ephemeral"}}
FILE = "prompt.yaml"
CLOCK = Slot(FILE, 3, 7, variable="now")
TARGETS = [MoveTarget(CLOCK)]


def literal(text: str) -> Traced:
    return Traced.of(text, Origin(FILE, 1, text=text))


def clock(number: int) -> Traced:
    text = f"2026-11-20T09:{number:02}:11"
    return Traced.of(text, Origin(FILE, CLOCK.line, CLOCK.column, verbatim=False, variable="now", text=text))


def block(lines: list[str], *, at: int | None = None, marked: bool = False) -> dict[str, Any]:
    pieces: list[str] = []
    for number, line in enumerate(lines):
        pieces += [literal("\n")] * (number > 0)
        pieces += [literal("Time: "), clock(5)] if number == at else [literal(line)]
    return {"type": "text", "text": concat(pieces), **(MARK if marked else {})}


LINES = st.lists(
    st.sampled_from(["Be polite to all.", "Cite the handbook.", "Answer in French."]), min_size=1, max_size=4
)


@st.composite
def marked_turns(draw: st.DrawFn) -> Turn:
    """A request with a clock in one block of its instructions, and with marks anywhere."""
    count = draw(st.integers(1, 3))
    holder = draw(st.integers(0, count - 1))
    system = []
    for number in range(count):
        lines = draw(LINES)
        at = draw(st.integers(0, len(lines) - 1)) if number == holder else None
        system.append(block(lines, at=at, marked=draw(st.booleans())))
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for number in range(draw(st.integers(0, 2))):
        messages.append({"role": "user", "content": [block([f"Question {number}"])]})
        messages.append({"role": "assistant", "content": literal(f"Answer {number}")})
    as_text = draw(st.booleans())
    marked = draw(st.booleans())
    last: dict[str, Any] = {"role": "user", "content": literal("And now?\n")}
    if not as_text:
        last["content"] = [block(["And now?", ""], marked=marked)]
    elif marked:
        last |= MARK
    tools = [{"name": "b"}, {"name": "a", **MARK}] if draw(st.booleans()) else None
    return Turn("g", messages=[*messages, last], tools=tools)


@given(marked_turns(), st.sampled_from([{}, {"within": True}, {"own_message": True}]))
def test_a_move_keeps_marks_at_the_end_of_what_is_stable(turn: Turn, where: dict[str, bool]) -> None:
    after = move_targets(turn, TARGETS, **where)
    words = [sorted(word for at in texts_of(each) for word in str.__str__(at.text).split()) for each in (turn, after)]
    assert words[0] == words[1]
    assert marks_in(after) <= marks_in(turn)
    assert move_targets(after, TARGETS, **where) is after, "once is enough"
    for message in after.messages or []:
        content = message["content"]
        parts = content if isinstance(content, list) else [{"text": content, **message}]
        assert all(part["text"].strip() for part in parts), "no API takes an empty block"
        value = [at for at, part in enumerate(parts) if "2026-11-20" in part["text"]]
        marks = [at for at, part in enumerate(parts) if is_marked(part)]
        assert all(at > mark for at in value for mark in marks), "nothing that changes is before a mark of its message"


@given(marked_turns())
def test_what_comes_before_the_value_in_an_earlier_mark_stays_as_it_was(turn: Turn) -> None:
    """Blocks that a mark ends and that have no value are the same to the byte: later requests read them."""
    after = move_targets(turn, TARGETS)
    texts = {str.__str__(at.text) for at in texts_of(after)}
    for message in turn.messages or []:
        content = message["content"]
        for part in content if isinstance(content, list) else [{"text": content, **message}]:
            if is_marked(part) and "2026-11-20" not in part["text"]:
                assert str.__str__(part["text"]) in texts


def test_a_mark_on_a_line_that_moves_goes_to_the_block_before_it() -> None:
    system = [block(["Be polite to all."]), block(["x"], at=0, marked=True)]
    turn = Turn("g", messages=[{"role": "system", "content": system}, {"role": "user", "content": "Now?"}])
    after = move_targets(turn, TARGETS)
    assert after.messages is not None
    assert after.messages[0]["content"] == [{"type": "text", "text": "Be polite to all.", **MARK}]


def test_a_mark_on_instructions_that_all_move_goes_to_the_last_tool() -> None:
    system = [block(["x"], at=0, marked=True)]
    turn = Turn("g", messages=[{"role": "system", "content": system}, {"role": "user", "content": "Now?"}])
    turn.tools = [{"name": "a"}, {"name": "b"}]
    assert move_targets(turn, TARGETS).tools == [{"name": "a"}, {"name": "b", **MARK}]


def test_nothing_goes_into_the_marked_result_of_a_tool() -> None:
    result = {"role": "tool", "tool_call_id": "1", "content": literal("12 degrees"), **MARK}
    system = {"role": "system", "content": block(["Be polite to all.", "x"], at=1)["text"]}
    after = move_targets(Turn("g", messages=[system, {"role": "user", "content": "Now?"}, result]), TARGETS)
    assert after.messages is not None
    assert after.messages[2] == result
    assert after.messages[3] == {"role": "user", "content": [{"type": "text", "text": "Time: 2026-11-20T09:05:11"}]}


def test_sorted_tools_keep_the_mark_at_their_end() -> None:
    turn = Turn("g", messages=[], tools=[{"name": "b"}, {"name": "a", **MARK}])
    assert sort_tools(turn).tools == [{"name": "a"}, {"name": "b", **MARK}]


@given(marked=st.booleans(), lines=LINES)
def test_inserted_content_stays_in_the_block_that_a_mark_ends(marked: bool, lines: list[str]) -> None:
    """After a mark the line is in a block of its own, so it can go past what a template inserts; no edit of the text does that."""
    template = "\n".join(["Time: {{ now }}", *lines, "Examples:", "{{ examples }}", ""])
    examples = "My parcel did not arrive, and nobody answers my mails.\nI am sorry."
    text = compile_template(template, chat=False, origin=Origin("p.j2")).render({"now": "09:00", "examples": examples})
    slot = Slot("p.j2", 1, 7, variable="now")
    mark = MARK if marked else {}
    turn = Turn("g", messages=[{"role": "system", "content": text, **mark}, {"role": "user", "content": "Hi"}])
    content = (move_targets(turn, [MoveTarget(slot)], within=True).messages or [])[0]["content"]
    if not marked:
        assert content.index("Time: 09:00") < content.index("My parcel")
        return
    stays, moved = content
    assert "I am sorry." in stays["text"]
    assert is_marked(stays)
    assert not is_marked(moved)
    assert moved["text"] == "Time: 09:00"
