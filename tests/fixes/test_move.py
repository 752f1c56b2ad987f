"""Moving a volatile line: what is around it stays as it was, and moving it again changes nothing."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.slots import WHOLE_LINE, Slot
from kvtool.fixes.moves.move import destination, move_targets
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.logs.files.plain_text_files import read_prompt
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.yaml_source import load_yaml_workload

FILE = "prompt.yaml"
CLOCK = Slot(FILE, 3, 7, variable="now")


def literal(text: str, line: int = 1) -> Traced:
    return Traced.of(text, Origin(FILE, line, text=text))


def value(text: str, slot: Slot = CLOCK) -> Traced:
    """What the slot's variable produced."""
    return Traced.of(text, Origin(FILE, slot.line, slot.column, verbatim=False, variable=slot.variable, text=text))


def move_to_end(turn: Turn, *slots: Slot) -> Turn:
    return move_targets(turn, [MoveTarget(slot) for slot in slots])


def lines_of(turn: Turn) -> Counter[str]:
    """The lines of a prompt, wherever they stand; empty ones do not count."""
    texts = [turn.text] if turn.text is not None else []
    for message in turn.messages or []:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
    return Counter(line.strip() for text in texts for line in str.splitlines(text) if line.strip())


def words_of(turn: Turn) -> Counter[str]:
    """The words of a prompt, wherever they stand."""
    return Counter(word for line, count in lines_of(turn).items() for word in line.split() * count)


def moved(turn: Turn, slot: Slot = CLOCK, *, whole_lines: bool = True) -> Turn:
    """The turn with the slot's line at its end; the turn that was given is untouched, and once is enough."""
    before = copy.deepcopy(turn)
    after = move_to_end(turn, slot)
    assert (turn.text, turn.messages) == (before.text, before.messages)
    if whole_lines:
        assert words_of(after) == words_of(before)
    again = move_to_end(after, slot)
    assert (again.text, again.messages) == (after.text, after.messages)
    return after


def test_a_variable_takes_its_line_to_the_end() -> None:
    text = concat([literal("You help.\nIt is "), value("10:31"), literal(" o'clock.\nBe brief.\n")])
    after = moved(Turn("g", text=text))
    assert after.text == "You help.\nBe brief.\nIt is 10:31 o'clock.\n"
    assert after.text is not None
    origin, _ = after.text.at(after.text.index("10:31"))
    assert origin is not None
    assert origin.variable == "now"  # it is still known where it came from


def test_shapes_of_lines() -> None:
    for text, want in [
        (["It is ", "10:31", "\nBe brief."], "Be brief.\nIt is 10:31"),
        (["Be brief.\nIt is ", "10:31"], "Be brief.\nIt is 10:31"),
        (["Be brief.\nIt is ", "10:31", "\n"], "Be brief.\nIt is 10:31\n"),
        (["", "10:31", ""], "10:31"),
        (["A\n", "10:31", "\n\n\nB\n\n"], "A\n\n\nB\n10:31\n\n"),
        (["A\r\n", "10:31", "\r\nB\r\n"], "A\r\nB\r\n10:31\r\n"),
        (["A\n", "10:31\nand 20 s", " past.\nB\n"], "A\nB\n10:31\nand 20 s past.\n"),
        (["A\n", "10:31", "\n", "10:32", "\nB"], "A\nB\n10:31\n10:32"),
        (["A\n", "10:31", " to ", "10:32", "\nB"], "A\nB\n10:31 to 10:32"),
        (["A\n", "10:31\nx", " and ", "10:32", "\nB"], "A\nB\n10:31\nx and 10:32"),
    ]:
        pieces = [value(piece) if index % 2 else literal(piece) for index, piece in enumerate(text)]
        assert moved(Turn("g", text=concat(pieces))).text == want


def test_a_slot_that_does_not_occur_leaves_the_turn_alone() -> None:
    for slot in [
        Slot(FILE, 3, 8, variable="now"),
        Slot(FILE, 4, 7, variable="now"),
        Slot("other.yaml", 3, 7, variable="now"),
        Slot(FILE, 3, 7, variable="then"),
        Slot(FILE, 9, 1),
        Slot("", 0, 0, part="chat template"),
    ]:
        turn = Turn("g", text=concat([literal("A\n"), value("10:31"), literal("\nB")]))
        assert move_to_end(turn, slot) is turn
        chat = Turn("g", messages=[{"role": "user", "content": turn.text}, {"role": "user", "content": None}])
        assert move_to_end(chat, slot) is chat


def test_turns_without_text_stay() -> None:
    turn = Turn("g", messages=[])
    assert move_to_end(turn, CLOCK) is turn


def test_out_of_a_system_message_behind_the_last_question() -> None:
    system = concat([literal("You help.\nIt is "), value("10:31"), literal("\nBe brief.")])
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes.", "name": "helper"},
        {"role": "user", "content": "Second?"},
        {"role": "assistant", "content": "No."},
    ]
    after = moved(Turn("g", messages=messages))
    assert after.messages == [
        {"role": "system", "content": "You help.\nBe brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes.", "name": "helper"},
        {"role": "user", "content": "Second?\nIt is 10:31"},
        {"role": "assistant", "content": "No."},
    ]


def test_without_a_question_it_goes_to_the_last_message() -> None:
    system = concat([value("10:31"), literal("\nBe brief.")])
    after = moved(Turn("g", messages=[{"role": "system", "content": system}]))
    assert after.messages == [{"role": "system", "content": "Be brief.\n10:31"}]


def test_messages_of_parts() -> None:
    system = [{"type": "text", "text": concat([literal("You help.\n"), value("10:31"), literal("\nBe brief.")])}]
    image = {"type": "image_url", "image_url": {"url": "x"}}
    question = {"type": "text", "text": "What is this?"}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": [image, question]},
    ]
    after = moved(Turn("g", messages=messages))
    assert after.messages == [
        {"role": "system", "content": [{"type": "text", "text": "You help.\nBe brief."}]},
        {"role": "user", "content": [image, {"type": "text", "text": "What is this?\n10:31"}]},
    ]
    messages[1] = {"role": "user", "content": [question, image]}
    after = moved(Turn("g", messages=messages))
    assert after.messages is not None
    assert after.messages[1]["content"] == [question, image, {"type": "text", "text": "10:31"}]


def test_a_message_without_content_gets_the_line() -> None:
    messages = [{"role": "system", "content": value("10:31")}, {"role": "tool", "content": None}]
    after = move_to_end(Turn("g", messages=messages), CLOCK)
    assert after.messages == [{"role": "system", "content": ""}, {"role": "tool", "content": "10:31"}]


FILLER = "A rule that is always the same. " * 8


def test_of_a_long_line_only_the_sentence_moves() -> None:
    text = concat([literal(FILLER + "It is "), value("10:31"), literal(" now. Be brief. Bye.\nEnd.")])
    after = moved(Turn("g", text=text), whole_lines=False)
    assert after.text == FILLER + "Be brief. Bye.\nEnd.\nIt is 10:31 now."
    assert Counter(str.split(after.text)) == Counter(str.split(text))


def test_the_last_sentence_of_a_long_line_leaves_the_line_its_end() -> None:
    text = concat([literal(FILLER + "It is "), value("10:31"), literal("\nEnd.")])
    after = moved(Turn("g", text=text), whole_lines=False)
    assert after.text == FILLER.rstrip() + "\nEnd.\nIt is 10:31"


def test_a_sentence_does_not_end_inside_the_value() -> None:
    text = concat([literal(FILLER + "It is "), value("May 3. 2025"), literal(" today. Be brief.")])
    after = moved(Turn("g", text=text), whole_lines=False)
    assert after.text == FILLER + "Be brief.\nIt is May 3. 2025 today."


def test_a_long_line_of_one_sentence_moves_as_a_whole() -> None:
    long = "word " * 80
    text = concat([literal("Top.\n" + long), value("10:31"), literal(" end\nB")])
    assert moved(Turn("g", text=text)).text == f"Top.\nB\n{long}10:31 end"


def test_a_line_of_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("One.\nToday is 2025-01-02.\nThree.\n")
    turn = read_prompt(str(path), "prompt.txt")
    first, second, fourth = (
        Slot("", 0, 0, part="prompt", line_in_text=line, kind=WHOLE_LINE, logged=True) for line in (0, 1, 3)
    )
    assert moved(turn, second).text == "One.\nThree.\nToday is 2025-01-02.\n"
    assert moved(turn, first).text == "Today is 2025-01-02.\nThree.\nOne.\n"
    assert move_to_end(turn, fourth) is turn


def test_a_line_of_a_large_file() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 100_001))
    turn = Turn("g", text=literal(text))
    after = move_to_end(turn, Slot(FILE, 99_999, 1))
    assert after.text is not None
    assert after.text.endswith("line 99998\nline 100000\nline 99999\n")


def test_a_variable_in_a_yaml_message(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "version: 1\nvars:\n  now: {datetime: 1m}\n"
        "groups:\n  - name: bot\n    requests: 2\n    messages:\n"
        "      - role: system\n        text: |\n          You help.\n          It is {{ now }}.\n          Be brief.\n"
        "      - {role: user, text: 'Hello?'}\n"
    )
    source = load_yaml_workload(str(path))
    turns = [conversation.next_turn(None) for conversation in source.conversations()]
    assert len(turns) == 2
    for turn in turns:
        assert turn is not None
        assert turn.messages is not None
        text = turn.messages[0]["content"]
        line = str.splitlines(text)[1]
        origin, _ = text.at(text.index("It is ") + len("It is "))
        assert (origin.line, origin.column, origin.variable) == (11, 17, "now")
        after = moved(turn, Slot(str(path), 11, 17, variable="now"))
        assert after.messages is not None
        assert [message["content"] for message in after.messages] == ["You help.\nBe brief.\n", f"Hello?\n{line}"]
    assert turns[0] != turns[1]


def logged(*contents: Any) -> Turn:
    """Messages of a chat log, whose texts know the JSON that they stand in."""

    def traced(text: str, index: int, *path: str | int) -> Traced:
        pointer = ("messages", index, "content", *path)
        origin = Origin("log.jsonl", 1, 1, verbatim=False, pointer=pointer, part=f"messages[{index}] (x)", text=text)
        return Traced.of(text, origin)

    messages: list[dict[str, Any]] = []
    for index, content in enumerate(contents):
        role = "system" if index == 0 else "user"
        if isinstance(content, str):
            messages.append({"role": role, "content": traced(content, index)})
        else:
            parts = [{"type": "text", "text": traced(text, index, at, "text")} for at, text in enumerate(content)]
            messages.append({"role": role, "content": parts})
    return Turn("log", messages=messages)


def log_slot(message: int, line: int, kind: str = "timestamp_iso", part: int | None = None) -> Slot:
    return Slot("", 0, 0, part=f"messages[{message}] (x)", line_in_text=line, kind=kind, logged=True, content_part=part)


STAMP = "It is 2025-01-02T10:31:05Z."


def test_the_line_of_a_logged_message() -> None:
    turn = logged(f"You help.\n{STAMP}\nBe brief.", f"Hm.\n{STAMP}\nWhat now?")
    after = moved(turn, log_slot(0, 1))
    assert after.messages is not None
    assert [message["content"] for message in after.messages] == [
        "You help.\nBe brief.",
        f"Hm.\n{STAMP}\nWhat now?\n{STAMP}",  # the same line of another message is none of its business
    ]


def test_another_line_or_kind_of_a_logged_message_stays() -> None:
    for slot in [log_slot(0, 0), log_slot(0, 7), log_slot(1, 1), log_slot(0, 1, "uuid"), log_slot(0, 1, OTHER.key)]:
        turn = logged(f"You help.\n{STAMP}\nBe brief.", "Hm?")
        assert move_to_end(turn, slot) is turn


def test_the_part_of_a_logged_message() -> None:
    turn = logged([f"Top.\n{STAMP}", f"Two.\n{STAMP}\nEnd."], "Hm?")
    after = moved(turn, log_slot(0, 1, part=1))
    assert after.messages is not None
    assert [part["text"] for part in after.messages[0]["content"]] == [f"Top.\n{STAMP}", "Two.\nEnd."]
    assert after.messages[1]["content"] == f"Hm?\n{STAMP}"


def test_two_lines_of_one_message_go_together() -> None:
    other = "Ref 7a1d2f3e-5b6c-4d7e-8f90-a1b2c3d4e5f6"
    turn = logged(f"{STAMP}\nYou help.\n{other}\nBe brief.", "Hm?")
    for slots in ((log_slot(0, 0), log_slot(0, 2, "uuid")), (log_slot(0, 2, "uuid"), log_slot(0, 0))):
        after = move_to_end(turn, *slots)
        assert after.messages is not None
        assert [message["content"] for message in after.messages] == ["You help.\nBe brief.", f"Hm?\n{STAMP}\n{other}"]


@pytest.mark.parametrize("role", ["user", "tool"])
def test_what_was_said_stays_in_its_message(role: str) -> None:
    content = concat([value("10:31"), literal("\nRead this.")])
    messages = [{"role": role, "content": content}, {"role": "assistant", "content": "Yes."}]
    after = moved(Turn("g", messages=[*messages, {"role": "user", "content": "Now?"}]))
    assert after.messages is not None
    assert [message["content"] for message in after.messages] == ["Read this.\n10:31", "Yes.", "Now?"]


def test_the_place_that_it_goes_to_has_a_name() -> None:
    for part, where in [
        ("messages[0] (system)", "the end of the last message"),
        ("system", "the end of the last message"),
        ("messages[3] (user)", "the end of the message"),
        ("messages[3] (tool)", "the end of the message"),
        ("prompt", "the end of the prompt"),
        ("rules", "the end of the prompt"),
    ]:
        assert destination(Slot(FILE, 1, 1, part=part)) == where


words = st.sampled_from(["", "A", "rule", "It is ", "x. y", "\n", "\n\n", "\r\n", "end.\n"])


@given(st.lists(st.tuples(words, st.sampled_from([None, "10:31", "a\nb", "z."])), max_size=5), st.booleans())
def test_any_text_keeps_its_lines(pieces: list[tuple[str, str | None]], chat: bool) -> None:
    text = concat([piece for before, after in pieces for piece in (literal(before), value(after) if after else "")])
    if chat:
        moved(Turn("g", messages=[{"role": "system", "content": text}, {"role": "user", "content": "Q?"}]))
    else:
        moved(Turn("g", text=text))


@given(
    st.lists(st.sampled_from(["", "steady", "Tree:", "<t>", "</t>", "file a", "file b"]), max_size=8),
    st.integers(0, 8),
    st.sampled_from(["10:31", "a\nb", "x"]),
    st.booleans(),
)
def test_any_block_keeps_its_lines(lines: list[str], at: int, varying: str, chat: bool) -> None:
    before, after = "".join(f"{line}\n" for line in lines[:at]), "".join(f"\n{line}" for line in lines[at:])
    text = concat([literal(before), value(varying), literal(after)])
    turn = Turn("g", messages=[{"role": "system", "content": text}, {"role": "user", "content": "Q?"}])
    turn = turn if chat else Turn("g", text=text)
    target = MoveTarget(CLOCK, steady=frozenset(["steady", "Tree:", "<t>", "</t>"]))
    once = move_targets(turn, [target])
    assert lines_of(once) == lines_of(turn)
    assert move_targets(once, [target]) is once


@given(st.lists(st.sampled_from(["", "A", "B", "One\nTwo", "Two"]), max_size=8), st.booleans())
@example(["B", "A", "", ""], False)
@example(["A", "", "B"], True)
def test_any_section_keeps_its_lines(pieces: list[str], chat: bool) -> None:
    text = Traced("\n".join(pieces))
    turn = Turn("g", messages=[{"role": "system", "content": text}, {"role": "user", "content": "Q?"}])
    turn = turn if chat else Turn("g", text=text)
    target = MoveTarget(
        Slot("", 0, 0, part="messages[0] (system)", kind="optional", logged=True), sections=("One\nTwo", "B")
    )
    once = move_targets(turn, [target])
    assert lines_of(once) == lines_of(turn)
    assert move_targets(once, [target]) is once


def test_only_rows_of_a_tree_or_a_status_go_with_a_path() -> None:
    for line, goes_along in [
        (" M src/shop.py", True),
        ("├── readme", True),
        ("Summary: all is well", False),
        ("Id: 7f3c9a", False),
    ]:
        text = concat([literal("You help.\nIn "), value("/home/ana/shop"), literal(f"\n{line}\nBe brief.")])
        target = MoveTarget(CLOCK, steady=frozenset(["You help.", "Be brief."]))
        after = move_targets(Turn("g", text=text), [target]).text
        moved_along = f"In /home/ana/shop\n{line}"
        assert after == (
            f"You help.\nBe brief.\n{moved_along}" if goes_along else f"You help.\n{line}\nBe brief.\nIn /home/ana/shop"
        )


def test_what_moves_stays_before_the_line_that_leads_over_to_the_answer() -> None:
    text = concat([literal("It is "), value("10:31"), literal(".\nBe brief.\nMessage: where?\n\nLabel:\n")])
    after = moved(Turn("g", text=text))
    assert after.text == "Be brief.\nMessage: where?\nIt is 10:31.\n\nLabel:\n"
    said: list[dict[str, Any]] = [
        {"role": "system", "content": concat([literal("It is "), value("10:31"), literal(".\nBe brief.")])},
        {"role": "user", "content": literal("Message: where?\nLabel:")},
    ]
    messages = moved(Turn("g", messages=said)).messages
    assert messages is not None
    assert [each["content"] for each in messages] == ["Be brief.", "Message: where?\nIt is 10:31.\nLabel:"]
