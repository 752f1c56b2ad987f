"""Chats compared: differences of structure under their names, places as message and character, and changes that are measured."""

from __future__ import annotations

import io
import json
import re

import pytest

from kvtool.cli.commands.diff import DiffCommand
from kvtool.config.option import made
from kvtool.diff.prompts import PromptDiff, reusable
from kvtool.diff.side_inputs import InputSide, read_sides
from kvtool.diff.sides import Rendered, diff_sides
from kvtool.fixes.forms.json_form import sort_tools
from kvtool.report.terminal.prompt_diffs.diff import print_diff
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

RULES = "".join(f"Rule {n}: keep names as they are and answer in one short sentence.\n" for n in range(1, 16))


def tool(name: str) -> dict[str, object]:
    parameters = {"type": "object", "properties": {"what": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": parameters}}


def chat(system: str, *said: str, tools: str = "") -> dict[str, object]:
    messages = [{"role": "system", "content": system}]
    messages += [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
    return {"messages": messages} | ({"tools": [tool(name) for name in tools.split()]} if tools else {})


@pytest.fixture(scope="module")
def renderer():
    tokenizer = load_tokenizer(None)
    return Renderer(lambda: tokenizer, lambda loaded: ChatTemplate.load(None, loaded))


@pytest.fixture
def compare(renderer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def compare(a: dict[str, object], b: dict[str, object]) -> PromptDiff:
        for name, value in (("a.json", a), ("b.json", b)):
            (tmp_path / name).write_text(json.dumps(value))
        sides = [Rendered.of(side, renderer) for side in read_sides(["a.json", "b.json"])]
        return diff_sides(*sides, renderer, 16)

    return compare


def shown(diff: PromptDiff, width: int = 80, **rules: int) -> str:
    stream = io.StringIO()
    print_diff(make_console(file=stream, color="never", width=width), diff, **rules)
    return stream.getvalue()


def codes(diff: PromptDiff) -> list[str]:
    return [change.kind.code for change in diff.named]


def test_a_place_is_a_message_and_a_character(compare):
    diff = compare(chat("Now: 10:15\n" + RULES, "hi"), chat("Now: 10:16\n" + RULES, "hi"))
    spot = diff.first.a
    assert (spot.path, spot.part, spot.character) == ("a.json", "messages[0] (system)", 5)
    text = json.dumps(chat("Now: 10:15\n" + RULES, "hi"))
    assert (spot.line, spot.column) == (1, text.index("10:15") + 1)
    assert diff.first.kind.code == "KV101"
    assert "messages[0] (system), line 1" in shown(diff)
    assert "Move line 1 of messages[0] (system) to the end of the last message" in shown(diff)


def test_the_move_is_what_rendering_the_moved_chats_gives(compare, renderer):
    diff = compare(chat("Now: 10:15\n" + RULES, "hi"), chat("Now: 10:16\n" + RULES, "hi"))
    (trial,) = diff.changes
    moved = [
        renderer.prompt(Turn("", messages=chat(RULES, f"hi\nNow: {time}")["messages"])).ids
        for time in ("10:15", "10:16")
    ]
    common = int((moved[0] != moved[1]).argmax())
    assert trial.reuse == reusable(common, len(moved[1]), 16)
    assert trial.gained_blocks == trial.reuse.blocks - diff.reuse.blocks > 10


def test_tools_in_another_order(compare, renderer):
    a, b = chat(RULES, "hi", tools="beta alpha gamma"), chat(RULES, "hi", tools="alpha gamma beta")
    diff = compare(a, b)
    assert (diff.first.kind.code, codes(diff)) == ("KV111", ["KV111"])
    (trial,) = diff.changes
    ids = [renderer.prompt(sort_tools(Turn("", messages=each["messages"], tools=each["tools"]))).ids for each in (a, b)]
    assert ids[0].tolist() == ids[1].tolist()
    assert trial.reuse == reusable(len(ids[1]), len(ids[1]), 16)
    assert re.search(r"Sort the tools by name: .* tokens.* \(\+\d+\) +KV111", shown(diff))


def test_trials_of_a_chat_add_up(compare):
    diff = compare(
        chat("Now: 10:15\n" + RULES, "hi", tools="beta alpha"), chat("Now: 10:16\n" + RULES, "hi", tools="alpha beta")
    )
    assert set(codes(diff)) == {"KV101", "KV111"}
    alone, both = diff.changes
    assert (alone.code, both.code, both.further) == ("KV111", "KV101", True)
    assert both.gained_blocks > alone.gained_blocks
    assert "And move line 1 of messages[0] (system)" in shown(diff)
    assert "order of tools" in shown(diff)


def test_json_keys_and_line_endings(compare):
    keys = compare(
        chat('Config: {"name": "acme", "size": 2}\n' + RULES, "hi"),
        chat('Config: {"size": 2, "name": "acme"}\n' + RULES, "hi"),
    )
    assert keys.first.kind.code == "KV112"
    assert keys.changes[0].result == "sort the JSON keys"
    assert keys.changes[0].reuse.blocks == (keys.length_b - 1) // 16
    lines = compare(chat(RULES, "hi"), chat(RULES.replace("\n", "\r\n"), "hi"))
    assert lines.first.kind.code == "KV121"
    assert lines.changes[0].gained_blocks > 10
    assert "with one kind of line ending" in shown(lines)


def test_a_history_that_was_cut_or_edited_is_not_moved(compare):
    said = [f"{who} {n} says something about parcel number {n}" for n in range(6) for who in ("user", "agent")]
    cut = compare(chat(RULES, *said[:8], "last"), chat(RULES, *said[2:10], "last"))
    assert (cut.first.kind.code, cut.changes) == ("KV141", ())
    assert "rarely, many messages at once" in shown(cut)
    edited = compare(
        chat(RULES, *said[:8], "last"), chat(RULES, said[0], "[compacted]", *said[2:8], "more", "x", "last")
    )
    assert (edited.first.kind.code, edited.changes) == ("KV142", ())
    assert "Append to the history" in shown(edited)


def test_what_a_user_said_goes_to_the_end_of_its_message(compare):
    diff = compare(chat("Be kind.", "It is 10:15.\n" + RULES), chat("Be kind.", "It is 10:16.\n" + RULES))
    assert "Move line 1 of messages[1] (user) to the end of the message" in shown(diff)
    assert diff.changes[0].gained_blocks > 10


def test_another_question_keeps_its_words_and_a_provider_reads_in_steps(compare, renderer):
    asked = ["update black order always chain large answer", "polite blue order value light answer weather"]
    diff = compare(*(chat(f"Now: 10:1{n}\n{RULES * 4}", question) for n, question in enumerate(asked)))
    (trial,) = diff.changes
    assert trial.places == 1
    assert trial.line_a == 1
    for minimum, step in ((64, 1), (64, 128), (100, 96)):
        read = trial.reuse.tokens - (trial.reuse.tokens - minimum) % step
        own = diff.in_steps(minimum, step)
        [told] = own.document().changes
        assert (told.reuse.tokens, told.gained_blocks, own.reuse.tokens) == (read, read, 0)
        text = " ".join(shown(own, minimum=minimum, step=step).split())
        assert f": {read:,} tokens" in text
        assert f"(+{read:,})" in text
    most = trial.reuse.tokens + 1
    own = diff.in_steps(most, 128)
    assert "no gain" in shown(own, minimum=most, step=128)
    assert own.document().changes[0].gained_blocks == 0


def test_a_turn_that_goes_on_loses_nothing(compare):
    diff = compare(chat(RULES, "one"), chat(RULES, "one", "answer", "two"))
    assert (diff.relation, diff.named, diff.changes) == ("a_begins_b", (), ())
    last = compare(chat(RULES, "one"), chat(RULES, "two"))
    assert (last.at_end, last.changes) == (True, ())
    assert "moving it gains nothing" in shown(last)


def test_documents_of_a_text_in_another_order(renderer):
    documents = [
        f'<document index="{{}}">\n{f"The {word} lasts long. " * 9}\n</document>\n' for word in ("warranty", "shipping")
    ]
    texts = [
        "".join(each.format(at) for at, each in enumerate(order, 1)) + RULES for order in (documents, documents[::-1])
    ]
    sides = [
        Rendered.of(InputSide(f"{at}.txt", Turn("", text=Traced(text)), ""), renderer) for at, text in enumerate(texts)
    ]
    diff = diff_sides(*sides, renderer, 16)
    assert diff.first.kind.code == "KV113"
    assert diff.changes[0].result == "one order of the documents"
    assert diff.changes[0].reuse.blocks == (diff.length_b - 1) // 16


def test_a_chat_and_a_text(compare, renderer):
    turns = [Turn("", messages=chat(RULES, "hi")["messages"]), Turn("", text=Traced(RULES))]
    sides = [Rendered.of(InputSide(f"{at}", turn, f"{at}"), renderer) for at, turn in enumerate(turns)]
    diff = diff_sides(*sides, renderer, 16)
    assert diff.changes == ()
    assert diff.reuse.blocks == 0
    assert shown(diff)


PAIRS = {
    "clock": (chat("Now: 10:15\n" + RULES, "hi"), chat("Now: 10:16\n" + RULES, "hi")),
    "tools": (chat(RULES, "hi", tools="b a c"), chat(RULES, "hi", tools="c b a")),
    "hostile": (chat("\x1b[31m ::error:: [/INST] 1 \u202e\n" + RULES, "x"), chat("\x1b[31m [/INST] 2\n" + RULES, "y")),
    "wide": (chat("会社の規則:東京支店" * 30, "田中"), chat("会社の規制:東京支店" * 30, "鈴木")),
    "empty": (chat("", ""), chat("", "x")),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_console(name, width, compare):
    text = shown(compare(*PAIRS[name]), width)
    assert max(map(cell_width, text.splitlines())) <= width
    assert not set(text) & {"\x1b", "\u202e", "\r"}
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = [chat(f"Now: 10:1{n}\n" + RULES, "hi", tools="alpha beta") for n in (5, 6)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    assert made(DiffCommand, prompts=("log.jsonl:1", "log.jsonl:2"), json=True, exit_code=True).run() == 1
    out = capsys.readouterr().out
    data = json.loads(out)
    assert data["schema"] == "kvtool.diff/1"
    assert data["first_difference"]["a"]["part"] == "messages[0] (system)"
    assert data["differences"][0]["part"] == {"kind": "message", "index": 0, "role": "system"}
    assert data["changes"][0]["part"] == "messages[0] (system)"
    assert "Rule" not in out
    assert "10:1" not in out
    assert made(DiffCommand, prompts=("log.jsonl:1", "log.jsonl:1"), exit_code=True).run() == 0


def test_another_chat_template(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    for name, time in (("a.json", "10:15"), ("b.json", "10:16")):
        (tmp_path / name).write_text(json.dumps(chat(f"Now: {time}", "hi")))
    made(DiffCommand, prompts=("a.json", "b.json"), chat_template="t.jinja", color="never", width=80).run()
    assert "a | <system>Now: 10:15<user>hi" in capsys.readouterr().out
