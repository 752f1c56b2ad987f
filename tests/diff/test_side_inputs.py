"""The sides of diff-prompts: which request a name stands for, and what is said where it stands for none."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from kvtool.diff.side_inputs import read_sides, side_of, side_of_value
from kvtool.errors import KvtoolError


def body(*said: str) -> dict[str, object]:
    roles = ["system", *["user", "assistant"] * len(said)]
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(body(f"Be kind {number}.", "hello")) for number in range(1, 4)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "one.json").write_text(json.dumps(body("Be kind.", "hi"), indent=2))
    (tmp_path / "talk.json").write_text(json.dumps(body("Be kind.", "one", "a1", "two", "a2", "three", "a3")))
    (tmp_path / "a.txt").write_text('{"messages": "this is a text"}')
    return tmp_path


def said(name: str) -> list[str]:
    (side,) = read_sides([name])
    return [message["content"] for message in side.turn.messages]


def test_a_number_names_a_record(folder):
    assert said("log.jsonl:2") == ["Be kind 2.", "hello"]
    (side,) = read_sides(["log.jsonl:3"])
    assert (side.name, side.path, side.line) == ("log.jsonl:3", "log.jsonl", 3)
    assert side.turn.messages[0]["content"].at(0)[0].pointer == ("messages", 0, "content")


def test_a_file_is_read_once_for_all_its_records(folder, monkeypatch):
    opened = []
    real = __import__("kvtool.diff.side_inputs", fromlist=["open_bytes"]).open_bytes
    monkeypatch.setattr("kvtool.diff.side_inputs.open_bytes", lambda path: opened.append(path) or real(path))
    sides = read_sides(["log.jsonl:3", "one.json", "log.jsonl:1", "log.jsonl:3"])
    assert [side.turn.messages[0]["content"] for side in sides] == [
        "Be kind 3.",
        "Be kind.",
        "Be kind 1.",
        "Be kind 3.",
    ]
    assert sorted(opened) == ["log.jsonl", "one.json"]


def test_bad_records_before_the_wanted_one_do_not_matter(folder):
    (folder / "log.jsonl").write_text("{broken\n" + json.dumps(body("Be kind.", "x")) + "\n")
    assert said("log.jsonl:2") == ["Be kind.", "x"]
    with pytest.raises(KvtoolError, match="not JSON") as error:
        read_sides(["log.jsonl:1"])
    assert error.value.hint is None
    assert (error.value.place.path, error.value.place.line) == ("log.jsonl", 1)


def test_of_a_recorded_conversation_the_last_request_is_meant(folder):
    assert said("talk.json")[-1] == "three"
    assert said("talk.json:1:2") == ["Be kind.", "one", "a1", "two"]
    with pytest.raises(KvtoolError, match="only 3 requests"):
        read_sides(["talk.json:1:4"])


def test_a_compressed_log(folder):
    (folder / "log.jsonl.gz").write_bytes(gzip.compress((folder / "log.jsonl").read_bytes()))
    assert said("log.jsonl.gz:2")[0] == "Be kind 2."


def test_a_text_file_is_a_text_whatever_is_in_it(folder):
    (side,) = read_sides(["a.txt"])
    assert side.turn.text == '{"messages": "this is a text"}'
    (side,) = read_sides(["one.json"], log_format="text")
    assert side.turn.text.startswith("{\n")


def test_a_file_whose_name_ends_in_a_number(folder):
    (folder / "log.jsonl:2").write_text("a file of that name")
    (side,) = read_sides(["log.jsonl:2"])
    assert side.turn.text == "a file of that name"


@pytest.mark.parametrize(
    ("data", "is_chat"),
    [(json.dumps(body("Be kind.", "hi")), True), ("just text", False), ('{"a": 1}', False), ("[not json", False)],
)
def test_what_is_piped_in_is_a_chat_where_it_reads_as_one(data, is_chat, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
    (side,) = read_sides(["-"])
    assert (side.turn.messages is not None) == is_chat
    assert is_chat or side.turn.text == data


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("log.jsonl", "more than one record", "log.jsonl:1"),
        ("log.jsonl:9", "has only 3 records", "log.jsonl:3"),
        ("log.jsonl:0", "count from 1", None),
        ("a.txt:1", "has no records", None),
        ("nothing.jsonl:1", "no such file", None),
        ("nothing.jsonl", "no such file", None),
        ("hashes.jsonl", "hashes of blocks", "kvtool profile"),
        ("turns.jsonl:1:2", "answers are not recorded", "turns.jsonl:1:1"),
        ("empty.jsonl", "the file is empty", None),
        ("shape.jsonl", "no prompt found", None),
    ],
)
def test_what_stands_for_no_request(name, message, hint, folder):
    (folder / "hashes.jsonl").write_text('{"hash_ids": [1, 2], "input_length": 1000, "timestamp": 0}\n')
    (folder / "turns.jsonl").write_text('{"turns": ["one", "two"]}\n')
    (folder / "empty.jsonl").write_text("\n")
    (folder / "shape.jsonl").write_text('{"colour": "red"}\n')
    with pytest.raises(KvtoolError, match=message) as error:
        read_sides([name])
    assert hint is None or hint in error.value.hint


def test_standard_input_is_one_side_only():
    with pytest.raises(KvtoolError, match="only one"):
        read_sides(["-", "-:2"])


def test_what_a_program_gives(folder):
    assert side_of("p", b"\xef\xbb\xbftext").turn.text == "\ufefftext"
    assert side_of("p", json.dumps(body("Be kind.", "x")).encode()).turn.messages is not None
    assert side_of_value("p", b'"{\\"messages\\": 1}"').turn.text == '{"messages": 1}'
    assert side_of_value("p", json.dumps(body("Be kind.", "x")["messages"]).encode()).turn.messages[1]["content"] == "x"
    with pytest.raises(KvtoolError, match="no prompt found"):
        side_of_value("p", b'{"answer": 42}')


@pytest.mark.parametrize("name", ["b.body", "saved", "0001.req", "b.body.gz"])
def test_a_body_is_a_chat_whatever_its_file_is_called(name, folder):
    data = json.dumps(body("Be kind.", "hi")).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert said(name) == ["Be kind.", "hi"]


@pytest.mark.parametrize("text", ["{{ name }} asks.", '{"a": 1}', "[1, 2]", "{broken", "Be kind."])
def test_what_is_no_chat_stays_a_text(text, folder):
    (folder / "prompt.j2").write_text(text)
    (side,) = read_sides(["prompt.j2"])
    assert str(side.turn.text) == text
