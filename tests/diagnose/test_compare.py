from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.compare.change import Change
from kvtool.diagnose.compare.messages import compare_turns, goes_on
from kvtool.diagnose.compare.order import order_kind
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

SYSTEM = "You help people who fly.\n\nBe kind.\nNever give refunds for basic fares, whatever they say.\n"


def chat(*messages: tuple[str, Any], tools: list[Any] | None = None) -> Turn:
    return Turn("g", messages=[{"role": role, "content": content} for role, content in messages], tools=tools)


def text(written: str) -> Turn:
    return Turn("g", text=Traced(written))


def kinds(changes: list[Change]) -> list[str]:
    return [change.kind.key for change in changes]


HISTORY = [
    ("system", SYSTEM),
    ("user", "I would like to change the flight that I booked last week, please."),
    ("assistant", "Of course. Which reservation is it about, and what is your name?"),
    ("user", "It is the one to Lisbon. My name is Ada."),
    ("assistant", "I found it. Shall I move it to the afternoon of the same day?"),
    ("user", "Yes."),
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": f"Finds the {name}.", "parameters": {"type": "object"}},
    }
    for name in ("airport", "booking", "customer", "discount")
]


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("s u1 a1 u2 a2 u3 a3 u4", True),
        ("s u1 - u2 a2 u3 - u4", True),  # answers were cut
        ("s u# u2 a2 u3 a3 u4", True),  # the front was made a summary
        ("s u# a1 u2 a2 u3 a3 u4", True),  # a state in the first message
        ("s u1. a1 u2. a2 u3. a3 u4.", False),
        ("s u1. a1 u2.", False),
        ("s u1 a1 u2", True),
    ],
)
def test_what_users_said_tells_conversations_apart(said: str, same: bool) -> None:
    def messages(text: str) -> list[dict[str, str]]:
        roles = {"s": "system", "u": "user", "a": "assistant", "-": "tool"}
        return [{"role": roles[word[0]], "content": f"It is {word}."} for word in text.split()]

    assert goes_on(messages("s u1 a1 u2 a2 u3"), messages(said)) is same


def test_what_only_goes_on_has_no_change() -> None:
    before = chat(*HISTORY, tools=TOOLS)
    after = chat(*HISTORY, ("assistant", "Done."), ("user", "Thanks."), tools=json.loads(json.dumps(TOOLS)))
    assert compare_turns(before, before) == []
    assert compare_turns(before, after) == []
    assert compare_turns(after, before) == []  # sent again without its end: all of it hits


def test_another_last_question_is_no_change() -> None:
    assert compare_turns(chat(HISTORY[0], HISTORY[1]), chat(HISTORY[0], ("user", "What do I pay for a bag?"))) == []
    assert compare_turns(text(SYSTEM + "Question: who?"), text(SYSTEM + "Question: why, and since when?")) == []
    assert compare_turns(text(SYSTEM), text(SYSTEM + "an answer and\nwhat follows it")) == []


def test_order_of_tools_and_of_their_keys() -> None:
    turned = [TOOLS[2], TOOLS[0], TOOLS[3], TOOLS[1]]
    (change,) = compare_turns(chat(*HISTORY, tools=TOOLS), chat(*HISTORY, tools=turned))
    assert (change.kind.key, change.kind.code, change.cosmetic) == ("tools_reordered", "KV111", True)
    assert change.after == "customer, airport, discount, booking"
    assert change.part.kind == "tools"
    spelled = [dict(reversed(tool.items())) for tool in TOOLS]
    (change,) = compare_turns(chat(*HISTORY, tools=TOOLS), chat(*HISTORY, tools=spelled))
    assert (change.kind.key, change.kind.code, change.cosmetic) == ("json_keys", "KV112", True)


def test_a_set_of_tools_that_is_not_the_same() -> None:
    for tools, gone, new in (
        (TOOLS[1:], "airport", ""),
        ([*TOOLS[:3], {"name": "seat"}], "discount", "seat"),
        (None, "airport", ""),
    ):
        (change,) = compare_turns(chat(*HISTORY, tools=TOOLS), chat(*HISTORY, tools=tools))
        assert (change.kind.key, change.kind.code, change.cosmetic) == ("tools_changed", "KV115", False)
        assert gone in change.before
        assert new in change.after


def test_a_value_is_named_and_found_whole() -> None:
    for before, after, code, value in [
        ("Now: 2024-05-01T10:00:00Z.", "Now: 2025-05-02T11:30:59Z.", "KV101", "2025-05-02T11:30:59Z"),
        ("Today is May 3, 2024.", "Today is June 4, 2024.", "KV101", "June 4, 2024"),
        (
            "id 550e8400-e29b-41d4-a716-446655440000 ok",
            "id 550e8400-e29b-41d4-a716-446655440fff ok",
            "KV102",
            "550e8400-e29b-41d4-a716-446655440fff",
        ),
        ("Step 9 of 30", "Step 10 of 30", "KV105", "10"),
        ("cwd: /home/ada/src", "cwd: /home/ada/build", "KV106", "/home/ada/build"),
        ("mail ada@example.com", "mail bob@example.com", "KV104", "bob@example.com"),
        ("user name: Ada Lovelace.", "user name: Grace Hopper.", "KV104", "Grace Hopper."),
        ("locale=en_US", "locale=pt_BR", "KV104", "pt_BR"),
    ]:
        for place in [0, 1, 2]:
            role, content = HISTORY[place]
            old, new = list(HISTORY), [*HISTORY, ("assistant", "Done."), ("user", "Thanks.")]
            old[place], new[place] = (role, f"{before}\n{content}"), (role, f"{after}\n{content}")
            (change,) = compare_turns(chat(*old), chat(*new))
            assert change.kind.code == code
            assert (change.part.kind, change.part.index, change.part.role) == ("message", place, role)
            assert new[place][1][change.start : change.stop] == change.after == value
            (change,) = compare_turns(text(f"{before}\n{SYSTEM}"), text(f"{after}\n{SYSTEM}and more"))
            assert (change.kind.code, change.after) == (code, value)


def test_what_nobody_sees() -> None:
    for kind, respell in [
        ("line_endings", lambda each: each.replace("\n", "\r\n")),
        ("trailing_space", lambda each: each.replace("kind.\n", "kind.  \n")),
        ("whitespace", lambda each: each.replace("help people", "help  people")),
        ("whitespace", lambda each: each.replace("\n\n", "\n\n\n")),
        ("unicode_form", lambda each: each.replace("café", "cafe\u0301")),
        ("bom", lambda each: "\ufeff" + each),
    ]:
        system = SYSTEM + "Meet at the café.\n"
        for before, after in (
            (chat(("system", system), *HISTORY[1:]), chat(("system", respell(system)), *HISTORY[1:])),
            (text(system + "End of it."), text(respell(system) + "End of it.\n\nassistant: something new")),
        ):
            found = compare_turns(before, after)
            assert set(kinds(found)) == {kind}
            assert all(change.cosmetic and change.kind.code == "KV121" for change in found)


def test_json_inside_text_that_differs_in_the_order_of_keys() -> None:
    value = {"name": "Ada", "seat": {"row": 3, "letter": "C"}, "bags": [1, 2]}
    other = {"bags": [1, 2], "seat": {"letter": "C", "row": 3}, "name": "Ada"}
    for form in ("{}", "Profile: {} (as booked)", "```json\n{}\n```", "a\n{}\nb"):
        for indent in (None, 2):
            old, new = (form.format(json.dumps(each, indent=indent)) for each in (value, other))
            (change,) = compare_turns(chat(("system", old), *HISTORY[1:]), chat(("system", new), *HISTORY[1:]))
            assert (change.kind.key, change.cosmetic) == ("json_keys", True)
            assert json.loads(new[change.start : change.stop]) == value


def test_arguments_of_calls() -> None:
    def calling(arguments: object, name: str = "call_1") -> Turn:
        call = {"id": name, "type": "function", "function": {"name": "book", "arguments": arguments}}
        turn = chat(*HISTORY)
        assert turn.messages is not None
        return replace(
            turn,
            messages=[
                *turn.messages[:2],
                {"role": "assistant", "content": None, "tool_calls": [call]},
                *turn.messages[2:],
            ],
        )

    (change,) = compare_turns(calling('{"to": "LIS", "day": 4}'), calling('{"day": 4, "to": "LIS"}'))
    assert (change.kind.key, change.part.index, change.cosmetic) == ("json_keys", 2, True)
    (change,) = compare_turns(calling({"to": "LIS", "day": 4}), calling({"day": 4, "to": "LIS"}))
    assert change.kind.key == "json_keys"
    (change,) = compare_turns(calling('{"to": "LIS", "day": 4}'), calling('{"to":"LIS","day":4}'))
    assert (change.kind.code, change.cosmetic) == ("KV121", True)
    (change,) = compare_turns(calling("{}", "call_8Zk2"), calling("{}", "call_9Ab7"))
    assert change.kind.code == "KV102"


DOCUMENTS = [
    "<document>\nLisbon lies on the Tagus.\nIt has trams.\n</document>",
    "<document>\nPorto is known for its wine.\n</document>",
    "<document>\nFaro has the beaches.\nAnd an airport.\n</document>",
]
QUESTION = "\n\nUse what is above and answer in one sentence, without a list, in the language of the question."


def test_documents_in_another_order() -> None:
    for joint in ("\n", "\n\n"):
        old = "Documents:\n" + joint.join(DOCUMENTS) + QUESTION
        new = "Documents:\n" + joint.join([DOCUMENTS[2], DOCUMENTS[0], DOCUMENTS[1]]) + QUESTION
        for before, after in ((text(old), text(new)), (chat(("user", old)), chat(("user", new)))):
            (change,) = compare_turns(before, after)
            assert (change.kind.key, change.kind.code, change.cosmetic) == ("documents_reordered", "KV113", False)
            assert "Faro" in new[change.start : change.stop]


def test_numbers_do_not_hide_another_order() -> None:
    facts = ["Lisbon lies on the Tagus.", "Porto has wine.", "Faro has beaches."]
    for label in ("[{}] {}", "{}. {}", "Document {}: {}", '<doc index="{}">{}</doc>'):
        old, new = (
            "\n".join(label.format(at, fact) for at, fact in enumerate(order, 1)) + QUESTION
            for order in (facts, facts[::-1])
        )
        assert kinds(compare_turns(text(old), text(new))) == ["documents_reordered"]


def test_a_renumbered_line_is_no_other_order() -> None:
    assert kinds(compare_turns(text("Step 3\nA rule." + QUESTION), text("Step 4\nA rule." + QUESTION))) == ["number"]


def test_examples_in_another_order() -> None:
    examples = [("2 + 2", "four"), ("3 + 5", "eight"), ("1 + 6", "seven")]
    for form in ("Q: {1}\nA: {2}", "Example {0}:\nInput: {1}\nOutput: {2}", "User: {1}\nAssistant: {2}"):
        old, new = (
            "\n\n".join(form.format(at, *each) for at, each in enumerate(order, 1)) + QUESTION
            for order in (examples, [examples[1], examples[2], examples[0]])
        )
        (change,) = compare_turns(chat(("system", old), *HISTORY[1:]), chat(("system", new), *HISTORY[1:]))
        assert (change.kind.key, change.kind.code) == ("examples_reordered", "KV114")


def test_what_changed_places_is_known_by_its_labels_or_its_heading() -> None:
    for item, head, kind in [
        ("Mail: {} is late\nLabel: {}", "Sort mails.", "examples_reordered"),
        ("Pregunta: {} is late\nRespuesta: {}", "Sort mails.", "examples_reordered"),
        ("Title: {} is late\nText: {}", "Sort mails.", "documents_reordered"),
        ("### {}\nIt says {}", "## Tools", "tools_reordered"),
        ("### {}\nIt says {}", "## Notes", "documents_reordered"),
        ("<doc>{} is {}</doc>", "You know all tools.\n<docs>", "documents_reordered"),
        ("<item>{} is {}</item>", "You know all files.\n<tools>", "tools_reordered"),
        ("<entry>{} is {}</entry>", "Actions that you may call:", "tools_reordered"),
    ]:
        items = [
            item.format(f"the {noun} number {at}", f"word{at}")
            for at, noun in enumerate(("tram", "bus", "ship", "train"))
        ]
        before, after = (
            chat(
                (
                    "system",
                    f"{SYSTEM}\n{head}\n\n"
                    + "\n\n".join(items[at] for at in order)
                    + "\n\nBe brief in all that you say.",
                )
            )
            for order in ((0, 1, 2, 3), (2, 0, 3, 1))
        )
        assert kinds(compare_turns(before, after)) == [kind]


def test_examples_that_are_messages() -> None:
    pairs = [
        [("user", f"Say {word} in Portuguese."), ("assistant", said)] for word, said in (("yes", "sim"), ("no", "não"))
    ]
    before = chat(HISTORY[0], *pairs[0], *pairs[1], ("user", "Say cat."))
    after = chat(HISTORY[0], *pairs[1], *pairs[0], ("user", "Say dog."))
    assert kinds(compare_turns(before, after)) == ["examples_reordered"]


def test_items_of_a_line() -> None:
    old, new = "You know lions, tigers, bears and owls.\n", "You know tigers, bears and owls, lions.\n"
    assert kinds(compare_turns(text(old + QUESTION), text(new + QUESTION))) == ["list_reordered"]


def test_dotted_names_on_one_line() -> None:
    for line, key in [
        ("Tools \u2192 {}", "tools_reordered"),
        ("Callable now \u00bb {}", "tools_reordered"),
        ("At hand: {}", "tools_reordered"),
        ("Documents: {}", "documents_reordered"),
    ]:
        names = ["fs.read", "web.search", "mail.send", "cal.list"]
        old, new = (line.format(" \u00b7 ".join(order)) + "\n" for order in (names, names[2:] + names[:2]))
        assert kinds(compare_turns(text(old + QUESTION), text(new + QUESTION))) == [key]


def test_names_of_files_on_one_line_are_no_tools() -> None:
    old, new = "At hand: a.md; b.pdf; c.txt.\n", "At hand: c.txt; a.md; b.pdf.\n"
    assert kinds(compare_turns(text(old + QUESTION), text(new + QUESTION))) == ["list_reordered"]


def test_a_section_that_is_there_or_not() -> None:
    section = "## New fares\nThe fares of the spring apply to everybody.\n"
    for old, new in (
        (SYSTEM + section + QUESTION, SYSTEM + QUESTION),
        (SYSTEM + QUESTION, SYSTEM + section + QUESTION),
    ):
        for before, after in (
            (text(old), text(new)),
            (chat(("system", old), *HISTORY[1:]), chat(("system", new), *HISTORY[1:])),
        ):
            (change,) = compare_turns(before, after)
            assert (change.kind.key, change.kind.code) == ("optional", "KV107")
            assert (change.before or change.after).strip() == section.strip()


def test_a_window() -> None:
    for head, cut in ((1, 3), (1, 2), (0, 2)):
        kept = [*HISTORY[:head], *HISTORY[cut:], ("assistant", "Done."), ("user", "Thanks.")]
        (change,) = compare_turns(chat(*HISTORY), chat(*kept))
        assert (change.kind.key, change.kind.code) == ("window", "KV141")
        assert (change.part.kind, change.part.index) == ("history", head)
        assert HISTORY[max(head, 0)][1] in change.before


def test_a_window_over_a_text() -> None:
    old = "\n\n".join(f"{role}: {content}" for role, content in HISTORY)
    new = "\n\n".join(f"{role}: {content}" for role, content in [HISTORY[0], *HISTORY[3:], ("assistant", "Done.")])
    (change,) = compare_turns(text(old), text(new))
    assert change.kind.key == "window"
    assert HISTORY[1][1] in change.before
    (change,) = compare_turns(text(old[200:]), text(old[300:] + "\n\nassistant: Done."))
    assert (change.kind.key, change.start) == ("window", 0)


def test_history_that_was_edited() -> None:
    more = [("assistant", "Done."), ("user", "Thanks.")]
    rewritten = (
        *HISTORY[:2],
        ("assistant", "Sure thing! Please tell me the code of your booking."),
        *HISTORY[3:],
        *more,
    )
    for after in (
        rewritten,
        (*HISTORY[:3], *HISTORY[5:], *more),  # two taken out of the middle
        (HISTORY[0], ("user", "Summary: Ada wants another flight to Lisbon, in the afternoon."), *HISTORY[4:], *more),
        (*HISTORY[:4], ("assistant", "One moment."), *HISTORY[4:], *more),
    ):
        (change,) = compare_turns(chat(*HISTORY), chat(*after))
        assert (change.kind.key, change.kind.code) == ("history_edited", "KV142")


@pytest.mark.parametrize("mark", ["<|im_start|>{}\n", "{}: ", "## {}\n"])
def test_a_prompt_without_an_answer_has_no_history(mark: str) -> None:
    """Another question after the same document, and the mark of the answer that is asked for."""

    def asked(question: str) -> Turn:
        roles = (
            ("system", "Answer from the document."),
            ("user", f"{SYSTEM}\nQuestion: {question}"),
            ("assistant", ""),
        )
        return text("\n".join(mark.format(role) + said for role, said in roles))

    questions = ("Which train goes to Lisbon on a Monday? " * 3, "How heavy may a bag be that is carried on board?")
    for change in compare_turns(*map(asked, questions)):
        assert change.kind.code not in ("KV141", "KV142", "KV143")


def test_several_changes_come_in_order() -> None:
    old = [("system", f"Now: 10:15:00\n{SYSTEM}"), *HISTORY[1:]]
    new = [("system", f"Now: 10:17:30\n{SYSTEM}"), HISTORY[1], ("assistant", "Which one is it?"), *HISTORY[3:]]
    found = compare_turns(chat(*old, tools=TOOLS), chat(*new, tools=TOOLS[::-1]))
    assert kinds(found) == ["tools_reordered", "clock", "history_edited"]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "name", "x"]), ODD, max_size=4)
    | st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": ODD})
    | ODD,
    max_size=5,
)  # fmt: skip


@given(MESSAGES, MESSAGES, st.lists(ODD, max_size=3), st.lists(ODD, max_size=3))
def test_odd_shapes_are_no_error(before: Any, after: Any, tools_before: Any, tools_after: Any) -> None:
    a, b = Turn("g", messages=before, tools=tools_before), Turn("g", messages=after, tools=tools_after)
    assert compare_turns(a, b) == compare_turns(a, b)
    assert compare_turns(a, a) == []
    assert compare_turns(a, Turn("g", messages=[*before, *after], tools=tools_before)) == []


@given(st.lists(st.text(alphabet='ab \n{}[]":,0é\r<>-.', max_size=30), max_size=6), st.integers(0, 1 << 30))
def test_any_texts(pieces: list[str], seed: int) -> None:
    old = "\n".join(pieces)
    drawn = random.Random(seed)
    new = "\n".join(drawn.sample(pieces, len(pieces)))
    found = compare_turns(text(old), text(new))
    assert found == compare_turns(text(old), text(new))
    for change in found:
        assert 0 <= change.start <= change.stop <= len(new)
        assert change.after == new[change.start : change.stop]
        assert change.before in old
    assert compare_turns(text(old), text(old + new)) == []


def test_a_lone_surrogate_and_huge_numbers() -> None:
    odd = chat(
        ("system", "a \ud800 b"), ("user", [{"type": "text", "text": "x\ud800"}, 1 << 80, None]), tools=[{"n": 1 << 80}]
    )
    other = chat(("system", "a \ud801 b"), ("user", [{"type": "text", "text": "x"}, 1 << 90]), tools=[{"n": "\ud800"}])
    assert compare_turns(odd, odd) == []
    assert "tools_changed" in kinds(compare_turns(odd, other))


def test_nesting_without_end() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    old, new = "[" * 200_000, '{"a":' * 200_000
    assert isinstance(compare_turns(text(old + QUESTION), text(new + QUESTION)), list)
    assert kinds(compare_turns(chat(*HISTORY, tools=[deep]), chat(*HISTORY, tools=[[]]))) == ["tools_changed"]


def test_many_lines_and_one_long_line() -> None:
    lines = [f"line {at} of the log says {at * 7919 % 1000}" for at in range(60_000)]
    old, new = "\n".join(lines), "\n".join([*lines[:30_000], "Now: 2025-01-01", *lines[30_000:]])
    (change,) = compare_turns(text(old), text(new + "\nmore"))
    assert change.kind.key == "optional"
    assert "Now: 2025-01-01" in change.after
    long = "word " * 500_000
    (change,) = compare_turns(text(f"10:15:00 {long}"), text(f"11:30:00 {long}"))
    assert (change.kind.key, change.after) == ("clock", "11:30:00")


def test_tools_in_a_text_that_ends_with_them() -> None:
    lines = [json.dumps(tool) for tool in TOOLS]
    old = text("\n".join(lines) + "\nHi!")
    assert kinds(compare_turns(old, text("\n".join(lines[::-1]) + "\nHi! How are you?"))) == ["tools_reordered"]
    assert compare_turns(old, text("\n".join(lines[:3]) + "\nSomething else that goes on for a while.")) == []


def test_many_messages_in_another_order_cost_little() -> None:
    many = [("user", f"note {at}: {at * 7919 % 1000}") for at in range(5_000)]
    found = compare_turns(chat(*many), chat(*random.Random(0).sample(many, 5_000), ("user", "What now?")))
    assert 0 < len(found) <= 100


def test_a_tool_that_is_gone_from_a_text_is_no_window() -> None:
    lines = [json.dumps(tool) + "\n" for tool in TOOLS]
    for gone in range(4):
        kept = "".join(lines[:gone] + lines[gone + 1 :])
        assert kinds(compare_turns(text("".join(lines) + QUESTION), text(kept + QUESTION + "More."))) == [
            "tools_changed"
        ]


def test_a_call_in_a_text_is_no_tool() -> None:
    call = json.dumps({"name": "book", "parameters": {"to": "Lisbon", "day": 4}}) + "\n"
    assert kinds(compare_turns(text("Be kind.\n" + call + QUESTION), text("Be kind.\n" + QUESTION))) == ["optional"]


def test_items_are_what_the_heading_above_them_says() -> None:
    for before in ["", "\n", "You help.\n\n", "one\ntwo\n\n", "word " * 2_000 + "\n\n"]:
        for head in ["# Examples", "Examples:", "Examples\uff1a", "# Documents", "Examples"]:
            said = f"{before}{head}\n\nRead them first.\n\nThe lift is stuck between two floors.\nThe light on the stairs is out.\n"
            kind = order_kind(said, said.index("The lift"), len(said))
            assert kind.key == (
                "examples_reordered" if head not in ("# Documents", "Examples") else "documents_reordered"
            )
