"""What is proposed for each kind of cause, what it warns of, and that proofs hold for it and for nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.invisible_differences import NORMALIZERS
from kvtool.diagnose.slots import Slot, structural_slot
from kvtool.fixes.fix import Fix, Tier
from kvtool.fixes.moves.dangling_references import dangling_references, role_changes
from kvtool.fixes.proofs import OTHER_TEXT_WARNING, ROLE_WARNING, check_proof
from kvtool.fixes.propose import propose
from kvtool.fixes.turn_texts import texts_of
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn

FILE = "prompt.yaml"
NOW = Slot(FILE, 3, 7, variable="now", part="system")
TIME = DifferenceKind("timestamp_iso", "timestamp (ISO 8601)", "KV101")
UUID = DifferenceKind("uuid", "UUID", "KV102")
TREE = DifferenceKind("path", "path", "KV106")


def literal(text: str) -> Traced:
    return Traced.of(text, Origin(FILE, 1, part="system", text=text))


def value(text: str) -> Traced:
    return Traced.of(text, Origin(FILE, 3, 7, verbatim=False, variable="now", part="system", text=text))


def logged(text: str, index: int = 0, role: str = "system") -> dict[str, Any]:
    pointer = ("messages", index, "content")
    origin = Origin("log.jsonl", 1, 1, verbatim=False, pointer=pointer, part=f"messages[{index}] ({role})", text=text)
    return {"role": role, "content": Traced.of(text, origin)}


def cause(kind: DifferenceKind, slot: Slot | None = None, origin: Origin | None = None) -> SlotCause:
    slot = slot or structural_slot("messages[0] (system)", kind)
    return SlotCause("g", slot, kind, origin, 0, "", 0, 0, 0)


def chat(system: str, question: str = "Hm?", **more: Any) -> Turn:
    return Turn("g", messages=[{"role": "system", "content": system}, {"role": "user", "content": question}], **more)


def texts(turn: Turn) -> list[str]:
    return [str.__str__(at.text) for at in texts_of(turn)]


def proposed(kind: DifferenceKind, samples: list[Turn], slot: Slot | None = None) -> dict[str, Fix]:
    """The fixes by the first word of their key; each that changes a sample proves itself, and none is text of a prompt."""
    fixes = propose(cause(kind, slot), samples, block_size=16)
    order: tuple[Tier, ...] = ("P0", "P1", "P2", "P3")
    tried = [fix for fix in fixes if fix.can_be_tried]
    assert fixes[: len(tried)] == tried
    assert [order.index(fix.tier) for fix in tried] == sorted(order.index(fix.tier) for fix in tried)
    for fix in tried:
        assert fix.make is not None
        transform, again = fix.make(), fix.make()
        after = [transform(turn) for turn in samples]
        assert any(new is not old for new, old in zip(after, samples, strict=True))
        assert [check_proof(fix, old, new) for old, new in zip(samples, after, strict=True)] == [None] * len(samples)
        assert [again(turn) for turn in after] == after
    assert [fix.key for fix in propose(cause(kind, slot), samples, block_size=16)] == [fix.key for fix in fixes]
    assert len({fix.key for fix in fixes}) == len(fixes)
    return {fix.key.split(":")[0]: fix for fix in fixes}


def made(fix: Fix, turn: Turn) -> list[str]:
    assert fix.make is not None
    return texts(fix.make()(turn))


def clocks() -> list[Turn]:
    return [
        chat(concat([literal("You help.\nThe time: "), value(f"2025-01-02T10:{n}:00Z"), literal("\nBe brief.")]))
        for n in range(10, 14)
    ]


def test_a_clock() -> None:
    fixes = proposed(TIME, clocks(), NOW)
    assert list(fixes) == ["move-within", "move", "coarsen"]
    assert made(fixes["move-within"], clocks()[0]) == ["You help.\nBe brief.\nThe time: 2025-01-02T10:10:00Z", "Hm?"]
    assert fixes["move-within"].warnings == ()
    assert made(fixes["move"], clocks()[0]) == ["You help.\nBe brief.", "Hm?\nThe time: 2025-01-02T10:10:00Z"]
    assert fixes["move"].warnings == (f"{ROLE_WARNING}: from system to user message",)
    assert made(fixes["coarsen"], clocks()[0])[0] == "You help.\nThe time: 2025-01-02T00:00:00Z\nBe brief."
    assert fixes["coarsen"].tier == "P3"


def test_an_id_may_be_left_out() -> None:
    samples = [
        Turn(
            "g",
            messages=[logged(f"Request: 7a1d2f3e-5b6c-4d7e-8f90-a1b2c3d4e5f{n}\nBe brief."), logged("Hm?", 1, "user")],
        )
        for n in range(4)
    ]
    slot = Slot("", 0, 0, part="messages[0] (system)", kind="uuid", logged=True)
    fixes = proposed(UUID, samples, slot)
    assert list(fixes) == ["move-within", "move", "drop"]
    assert made(fixes["drop"], samples[0]) == ["Be brief.", "Hm?"]


def test_an_id_that_a_user_asked_with_is_not_left_out() -> None:
    for role, dropped in (("system", True), ("user", False)):
        order = "Request: 7f3a1c52-8d0e-4b6f-9a17-00000000000{}\nWhere is it?"
        samples = [Turn("g", messages=[logged(order.format(n), role=role)]) for n in range(3)]
        slot = Slot("", 0, 0, part=f"messages[0] ({role})", line_in_text=0, kind="uuid", logged=True)
        names = {fix.key.split(":")[0] for fix in propose(cause(UUID, slot), samples, block_size=16)}
        assert ("drop" in names) is dropped


@given(
    noun=st.sampled_from(("order", "Invoice", "document", "policy holder", "request", "Trace", "span", "session")),
    end=st.sampled_from((" id: {}", ": {}", "_id={}", " {}", ": {} is yours", " {} from the shop in the old town:")),
    other=st.sampled_from(("Be brief.", "Quote the {} in each answer.", "Name the ID.")),
)
def test_only_a_line_that_names_the_request_is_left_out(noun: str, end: str, other: str) -> None:
    """What any other line identifies, or what another line refers to, stays in the prompt, whatever the value looks like."""
    line, others = noun + end, other.format(noun.lower())
    samples = [
        Turn("g", messages=[logged(f"{line.format(f'7a1d2f3e-5b6c-4d7e-8f90-a1b2c3d4e5f{n}')}\n{others}"),
                            logged("Hm?", 1, "user")])
        for n in range(4)
    ]  # fmt: skip
    slot = Slot("", 0, 0, part="messages[0] (system)", kind="uuid", logged=True)
    is_request = noun.lower() in ("request", "trace", "span", "session")
    is_label = not end.endswith(("yours", ":"))
    named = {noun.lower(), *(("id",) if "id" in end else ())}
    refers = bool(named & set(others.lower().replace(".", "").split()))
    assert ("drop" in proposed(UUID, samples, slot)) == (is_request and is_label and not refers)


def test_a_directory_tree_moves_with_its_tags() -> None:
    def turn(n: int) -> Turn:
        tree = "\n".join(f"  src/part{n}/file{index}.py" for index in range(n + 1))
        return Turn("g", messages=[logged(f"You code.\n<tree>\n{tree}\n</tree>\nBe brief."), logged("Hm?", 1, "user")])

    slot = Slot("", 0, 0, part="messages[0] (system)", line_in_text=2, kind="path", logged=True)
    fix = proposed(TREE, [turn(n) for n in range(4)], slot)["move"]
    assert made(fix, turn(1)) == [
        "You code.\nBe brief.",
        "Hm?\n<tree>\n  src/part1/file0.py\n  src/part1/file1.py\n</tree>",
    ]


def test_a_git_status_moves_with_its_heading() -> None:
    def turn(n: int) -> Turn:
        return Turn(
            "g",
            messages=[
                logged(f"You code.\n\nGit status:\nM a/b/{n}.py\n\n?? c/d/{n}.py\n\nBe brief."),
                logged("Hm?", 1, "user"),
            ],
        )

    slot = Slot("", 0, 0, part="messages[0] (system)", line_in_text=3, kind="path", logged=True)
    fix = proposed(TREE, [turn(n) for n in range(4)], slot)["move"]
    assert made(fix, turn(1)) == ["You code.\n\nBe brief.", "Hm?\n\nGit status:\nM a/b/1.py\n\n?? c/d/1.py"]


@pytest.mark.parametrize("place", ["middle", "end"])
def test_an_optional_section(place: str) -> None:
    def turn(*, beta: bool) -> Turn:
        section = ["## Beta\nTry the new tools.\nSay so."] if beta else []
        rest = ["You help.", *section, "Be brief."] if place == "middle" else ["You help.", "Be brief.", *section]
        return Turn("g", messages=[logged("\n\n".join(rest)), logged("Hm?", 1, "user")])

    samples = [turn(beta=beta) for beta in (True, False, True, False)]
    # The same text twice is one sample: two requests must have the section, one of them with another question.
    samples[2] = Turn("g", messages=[logged(texts(samples[2])[0] + "\n\nExtra."), logged("Why?", 1, "user")])
    fix = proposed(OPTIONAL, samples)["move"]
    assert made(fix, samples[0]) == [texts(samples[1])[0], "Hm?\n\n## Beta\nTry the new tools.\nSay so."]
    assert fix.what.startswith("move this section")


def test_a_block_that_grows_moves_whole() -> None:
    """What two requests share of it by chance is no unit; a block whose other lines all requests have stays."""
    for frame in [("<memory>", "</memory>"), ("Notes on the customer:", "")]:
        for sessions in [2, 3]:
            samples = []
            for turn, session in product(range(4), range(sessions)):
                notes = "\n".join(
                    [frame[0], *(f"- Note {n} on customer {session}." for n in range(turn + 1)), frame[1]]
                )
                samples.append(
                    chat(f"You are a clerk.\n\n{notes}\n\n<rules>\nBe kind.\n</rules>", f"Question {turn}.{session}?")
                )
            fix = proposed(
                OPTIONAL, samples, Slot("", 0, 0, part="messages[0] (system)", kind="optional", logged=True)
            )["move"]
            for each in samples:
                system, question = made(fix, each)
                assert "Note" not in system
                assert frame[0] not in system
                assert "<rules>\nBe kind.\n</rules>" in system
                assert f"{frame[0]}\n- Note 0" in question
                assert fix.make is not None
                assert check_proof(fix, each, fix.make()(each)) is None


def test_tools() -> None:
    tools = [{"name": name, "input_schema": {"b": 1, "a": 2}} for name in "abc"]
    samples = [chat("x", tools=tools[n:] + tools[:n]) for n in range(3)]
    assert list(proposed(TOOLS_REORDERED, samples)) == ["sort-tools"]
    assert list(proposed(JSON_KEYS, samples)) == ["sort-keys"]
    grown = [chat("x", tools=[tools[1]], session="s"), chat("x", tools=tools[:2], session="s")]
    assert list(proposed(TOOLS_CHANGED, grown)) == ["append-tools", "defer-tools"]
    assert list(proposed(TOOLS_CHANGED, grown[:1])) == ["defer-tools"]  # nothing to append, only advice


def test_keys_in_what_a_tool_said_are_sorted_with_a_warning() -> None:
    answers = ['{"b": 1, "a": 2}', '{"a": 2, "b": 1}']
    samples = [Turn("g", messages=[logged(answer, 0, "tool"), logged("Hm?", 1, "user")]) for answer in answers]
    fix = proposed(JSON_KEYS, samples, structural_slot("messages (tool)", JSON_KEYS))["sort-keys"]
    assert made(fix, samples[0])[0] == answers[1]
    assert fix.warnings[0].startswith(OTHER_TEXT_WARNING)


def test_white_space() -> None:
    kinds = {one.kind.key: one.kind for one in NORMALIZERS}
    fix = proposed(kinds["trailing_space"], [chat("a \nb"), chat("a\nb")])["normalize"]
    assert (fix.tier, fix.warnings) == ("P1", ())
    assert made(fix, chat("a \nb"))[0] == "a\nb"


def test_orders() -> None:
    samples = [chat(f"[1] {a}\n[2] {b}\n[3] {c}\n\nAnswer.") for a, b, c in ("abc", "bca", "cab")]
    documents = proposed(DOCUMENTS_REORDERED, samples)["order"]
    assert documents.tier == "P2"
    assert [warning.split(" ")[:2] for warning in documents.warnings] == [["documents", "may"], ["items", "get"]]
    examples = proposed(EXAMPLES_REORDERED, samples)["order"]
    assert any("order of examples" in warning for warning in examples.warnings)
    assert not proposed(DOCUMENTS_REORDERED, samples[:1])["order"].can_be_tried


def test_a_window_and_advice() -> None:
    said = [logged(f"u{n}", n, "user") for n in range(9)]
    samples = [Turn("g", messages=said[n : n + 4], session="s") for n in range(5)]
    assert list(proposed(WINDOW, samples)) == ["stride", "cut-rarely"]
    advised = proposed(HISTORY_EDITED, samples)
    assert [fix.can_be_tried for fix in advised.values()] == [False]
    for code in ("KV122", "KV124", "KV103"):
        assert [fix.can_be_tried for fix in proposed(DifferenceKind("x", "x", code), samples).values()] == [False]


def test_a_segment_declared_stable_gets_advice_too() -> None:
    origin = Origin(FILE, 3, 7, variable="now", stable=True)
    fixes = propose(cause(TIME, NOW, origin), clocks(), block_size=16)
    assert [(fix.code, fix.can_be_tried) for fix in fixes] == [*[("KV101", True)] * 3, ("KV103", False)]


def test_no_fix_for_what_no_turn_has() -> None:
    assert proposed(TIME, clocks(), replace(NOW, variable="other")) == {}
    assert proposed(OTHER, clocks(), Slot("", 0, 0, part="chat template")) == {}
    assert [fix.tier for fix in propose(cause(OTHER, NOW), [], block_size=16)] == [
        "P2",
        "P2",
    ]  # nothing is known against it


def test_interleaved_slots_are_ordered_together() -> None:
    def text(n: int) -> Traced:
        return concat(
            [
                literal("It is "),
                value(f"{n}:00 now"),
                literal(".\n\nRules are rules."),
                literal(f"\n\nUser {n % 2} asks.\n\nBe brief."),
            ]
        )

    fixes = proposed(TIME, [chat(text(n)) for n in range(1, 6)], NOW)
    assert made(fixes["layout"], chat(text(3)))[0] == "Rules are rules.\n\nBe brief.\n\nUser 1 asks.\n\nIt is 3:00 now."
    assert fixes["layout"].warnings == ()  # within its message


# What a move leaves dangling


def test_references() -> None:
    for before, after, phrase in [
        ("It is Monday.\nUse the date above.\nBye.", "Use the date above.\nBye.\nIt is Monday.", "the date above"),
        ("It is Monday.\nAs stated above, rest.", "As stated above, rest.\nIt is Monday.", "As stated above"),
        ("Read the following list:\na b\nBye.", "Read the following list:\nBye.\na b", "the following list"),
        ("See the following list.\na b\nBye.", "a b\nBye.\nSee the following list.", "the following list"),
        ("Today, see below.\nMonday\nBye.", "Today, see below.\nBye.\nMonday", "see below"),
        ("One.\nLike the previous example.\nBye.", "One.\nBye.\nLike the previous example.", "the previous example"),
        ("Montag.\nWie oben genannt: ruhen.", "Wie oben genannt: ruhen.\nMontag.", "Wie oben genannt"),
        ("Lundi.\nVoir la date ci-dessus.", "Voir la date ci-dessus.\nLundi.", "ci-dessus"),
        (
            "Lunes.\nComo se ha mencionado anteriormente.",
            "Como se ha mencionado anteriormente.\nLunes.",
            "mencionado anteriormente",
        ),
    ]:
        found = dangling_references(chat(before), chat(after))
        assert any(f"“{phrase}”" in each for each in found)
        assert not any("Monday" in each or "Montag" in each for each in found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("It is Monday.\nKeep it above 20 degrees, above all.", "Keep it above 20 degrees, above all.\nIt is Monday."),
        ("As stated above.\nIt is Monday.\nBye.", "As stated above.\nBye.\nIt is Monday."),
        ("Same.\nthe date above", "Same.\nthe date above"),
    ],
)
def test_what_refers_to_nothing_that_moved(before: str, after: str) -> None:
    assert dangling_references(chat(before), chat(after)) == []


def test_roles_between_which_text_moves() -> None:
    assert role_changes(chat("a\nb", "c"), chat("a", "c\nb")) == [("system", "user")]
    assert role_changes(chat("a\nb", "c"), chat("b\na", "c")) == []


def test_a_move_with_a_dangling_reference_warns() -> None:
    turns = [chat(concat([value(f"10:{n}"), literal("\nUse the time above.")])) for n in range(10, 13)]
    fix = proposed(TIME, turns, NOW)["move"]
    assert any("the time above" in warning for warning in fix.warnings)


# Proofs


def fix_of(tier: Tier, code: str, *warnings: str, slot: Slot = NOW) -> Fix:
    return Fix("k", code, tier, "g", "do it", cause(TIME, slot), warnings)


TOOLS = [{"name": "b", "input_schema": {"x": 1}}, {"name": "a"}]


def beside(part: dict[str, Any] | None = None, **fields: Any) -> Turn:
    """A message with something beside its text."""
    parts = [{"type": "text", "text": Traced("a")}, *([part] if part else [])]
    return Turn("g", messages=[{"role": "user", "content": parts, **fields}])


def test_wrong_transformations_are_caught() -> None:
    for fix, before, after in [
        (fix_of("P0", "KV301"), chat("a"), chat("b")),
        (fix_of("P1", "KV111"), chat("a", tools=TOOLS), chat("a", tools=TOOLS[:1])),
        (fix_of("P1", "KV111"), chat("a", tools=TOOLS), chat("b", tools=TOOLS[::-1])),
        (fix_of("P1", "KV111"), chat('{"steps": ["heat", "eat"]}'), chat('{"steps": ["eat", "heat"]}')),
        (fix_of("P1", "KV111"), beside(name="x"), beside(name="y")),
        (fix_of("P1", "KV112"), beside(part={"type": "image_url", "image_url": {"url": "a"}}), beside()),
        (fix_of("P1", "KV121"), beside(tool_calls=[{"id": "1"}]), beside()),
        (fix_of("P2", "KV101"), beside(part={"type": "image_url", "image_url": {"url": "a"}}), beside()),
        (fix_of("P2", "KV101"), beside(name="x"), beside(name="y")),
        (fix_of("P1", "KV112"), chat('{"b": 1, "a": 2}'), chat('{"a": 2, "b": 2}')),
        (fix_of("P1", "KV112"), chat("a", tools=TOOLS), chat("a", tools=TOOLS[::-1])),
        (fix_of("P1", "KV112"), chat('a {"b": 1}'), chat('c {"b": 1}')),
        (fix_of("P1", "KV121"), chat("a b"), chat("a c")),
        (fix_of("P1", "KV121"), chat("a b", "c"), chat("a", "b c")),
        (fix_of("P1", "KV999"), chat("a b"), chat("a  b")),
        (fix_of("P2", "KV101"), chat("a\nb"), chat("b")),
        (fix_of("P2", "KV101"), chat("a\nb"), chat("b\na\nc")),
        (fix_of("P2", "KV101"), chat("a\nb"), chat("b", "Hm?\na")),
        (fix_of("P2", "KV101"), chat("a b c d"), chat("a c b d")),
        (fix_of("P2", "KV101"), chat("a\na\nb"), chat("b\na")),
        (fix_of("P2", "KV113"), chat("[1] a\n[2] b"), chat("[1] a\n[1] b")),
        (fix_of("P2", "KV113"), chat("[1] a\n[2] b"), chat("[1] b\n[2] b")),
        (fix_of("P2", "KV101"), chat("a", tools=TOOLS), chat("a", tools=TOOLS[:1])),
        (fix_of("P3", "KV101"), chat("at 10:31 a"), chat("at 10:00 b")),
        (fix_of("P3", "KV101"), chat("at 10:31 of 3"), chat("at 10:00 of 4")),
        (fix_of("P3", "KV102"), chat(concat([value("7"), literal("\nrule")])), chat("7")),
        (fix_of("P3", "KV102"), chat(concat([value("7"), literal("\nrule")])), chat("rule\nmore")),
        (fix_of("P3", "KV102"), chat(concat([literal("id "), value("7"), literal(" end")])), chat("id  and")),
        (fix_of("P3", "KV115"), chat("a", tools=TOOLS), chat("a", tools=[*TOOLS, TOOLS[0]])),
        (fix_of("P3", "KV141"), chat("a", "b"), chat("a", "c")),
        (fix_of("P3", "KV141"), chat("a", "b"), Turn("g", messages=[{"role": "user", "content": "b"}])),
        (fix_of("P2", "KV101"), chat("a\nb"), chat("b\na", salt="x")),
    ]:
        assert check_proof(fix, before, after) is not None
        assert check_proof(fix, before, before) is None


DESCRIBED = [{"name": name, "description": f"Does {name}."} for name in "ba"]


def test_right_transformations_are_proven() -> None:
    for fix, before, after in [
        (fix_of("P1", "KV111"), chat("a", tools=TOOLS), chat("a", tools=TOOLS[::-1])),
        (fix_of("P1", "KV111"), chat(json.dumps(DESCRIBED)), chat(json.dumps(DESCRIBED[::-1]))),
        (fix_of("P1", "KV112"), chat('a {"b": 1, "a": 2}'), chat('a {"a": 2, "b": 1}')),
        (fix_of("P2", "KV101"), chat("a\nb\n\n"), chat("b\na")),
        (fix_of("P2", "KV101", f"{ROLE_WARNING}: …"), chat("a\nb"), chat("b", "Hm?\na")),
        (fix_of("P2", "KV101"), chat("One. Two. Three."), chat("One. Three.\nTwo.")),
        (fix_of("P2", "KV113"), chat("[1] a\n[2] b"), chat("[1] b\n[2] a")),
        (
            fix_of("P2", "KV114"),
            chat('<d index="1">a</d>\n<d index="2">b</d>'),
            chat('<d index="1">b</d>\n<d index="2">a</d>'),
        ),
        (fix_of("P3", "KV102"), chat(concat([literal("a\nid "), value("7"), literal("\nb")])), chat("a\nb")),
        (fix_of("P3", "KV102"), chat(concat([literal("a\nid "), value("7"), literal(" b")])), chat("a\nid  b")),
    ]:
        assert check_proof(fix, before, after) is None


def scrambled(turn: Turn) -> Turn:
    """The turn with two words of its system message exchanged."""
    words = texts(turn)[0].split(" ")
    words[0], words[-1] = words[-1], words[0]
    return chat(" ".join(words))


@pytest.mark.parametrize(
    "broken", [scrambled, lambda turn: chat(texts(turn)[0][:-1]), lambda turn: chat(texts(turn)[0] * 2)]
)
def test_every_proof_catches_a_broken_prompt(broken: Callable[[Turn], Turn]) -> None:
    turn = chat(concat([literal("You help people.\nThe time: "), value("10:31"), literal("\nBe very brief")]))
    for fix in propose(cause(TIME, NOW), [turn], block_size=16):
        assert fix.make is not None
        assert check_proof(fix, turn, fix.make()(turn)) is None
        assert check_proof(fix, turn, broken(fix.make()(turn))) is not None


def test_fixes_say_nothing_of_the_prompt() -> None:
    for fix in propose(cause(TIME, NOW), clocks(), block_size=16):
        said = json.dumps([fix.key, fix.what, fix.warnings])
        assert "brief" not in said
        assert "2025" not in said
