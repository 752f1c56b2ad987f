"""From a character of a prompt back to the line and column of the log: the character must stand there."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.files.json_position import character_start, nearest_start, value_start
from kvtool.text.traced import Origin, Traced
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogSource

_TEXT = st.text(alphabet=st.sampled_from('ab"\\/\n\t {}[],:é\u2028漢😀\U00010348\x7f'), max_size=12)


def _encoded(text: str, rng: random.Random) -> str:
    """A JSON string literal that escapes some of the characters that it need not."""
    pieces: list[str] = []
    for char in text:
        must = char in '"\\' or ord(char) < 0x20
        if rng.random() < 0.3:
            units = char.encode("utf-16-be")
            pieces += [f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
        elif must:
            pieces.append(json.dumps(char)[1:-1])
        else:
            pieces.append("\\/" if char == "/" and rng.random() < 0.5 else char)
    return '"' + "".join(pieces) + '"'


def _document(value: object, rng: random.Random, indent: str | None, level: int = 1) -> str:
    if isinstance(value, str):
        return _encoded(value, rng)
    gap = "" if indent is None else "\n" + indent * level
    end = "" if indent is None else "\n" + indent * (level - 1)
    if isinstance(value, dict):
        body = f",{gap}".join(f"{_encoded(k, rng)}: {_document(v, rng, indent, level + 1)}" for k, v in value.items())
        return f"{{{gap}{body}{end}}}"
    if isinstance(value, list):
        return f"[{gap}{f',{gap}'.join(_document(item, rng, indent, level + 1) for item in value)}{end}]"
    return json.dumps(value)


def _character_at(lines: list[str], line: int, column: int) -> str:
    """The character that the JSON text spells at a place."""
    rest = lines[line - 1][column - 1 :]
    if rest[0] != "\\":
        return rest[0]
    length = 2 if rest[1] != "u" else 12 if rest[2:4].lower() in ("d8", "d9", "da", "db") else 6
    return str(json.loads(f'"{rest[:length]}"'))


def _texts(source: LogSource) -> list[Traced]:
    found: list[Traced] = []
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        assert turn is not None
        assert turn.messages is not None
        for message in turn.messages:
            found += [part["text"] for part in message["content"]]
    return found


@given(
    texts=st.lists(_TEXT, min_size=1, max_size=5),
    key=_TEXT,
    seed=st.integers(0, 999),
    shape=st.sampled_from(["lines", "array", "pretty array", "pretty objects", "crlf"]),
)
def test_the_character_stands_at_the_place(texts: list[str], key: str, seed: int, shape: str) -> None:
    rng = random.Random(seed)
    records = []
    for i, text in enumerate(texts):
        parts = [{"type": "text", "text": text}, {"type": "text", "text": texts[i - 1]}]
        messages = [{"role": "user", "content": parts}]
        records.append({key + str(i): [1.5, None, {"a": text}], "body": {"x": text, "messages": messages}, "z": True})
    indent = "  " if "pretty" in shape else None
    if "array" in shape:
        document = _document(records, rng, indent)
    else:
        document = ("\r\n" if shape == "crlf" else "\n").join(_document(record, rng, indent) for record in records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(document.encode())
        lines = document.split("\n")
        found = _texts(LogSource([str(path)]))
        assert [str(text) for text in found] == [t for i, text in enumerate(texts) for t in (text, texts[i - 1])]
        for text in found:
            for index, char in enumerate(text):
                origin, offset = text.at(index)
                assert origin is not None
                assert _character_at(lines, *locate(origin, offset)) == char


def test_the_last_of_two_equal_keys_is_the_one_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "first", "prompt": "second"}\n')
    turn = next(LogSource([str(path)]).conversations()).next_turn(None)
    assert turn is not None
    assert turn.text is not None
    assert turn.text == "second"
    origin, offset = turn.text.at(2)
    assert origin is not None
    assert locate(origin, offset) == (1, 34)


def test_a_place_in_a_file_that_is_gone_or_other_is_that_of_the_record(tmp_path: Path) -> None:
    origin = Origin(str(tmp_path / "gone.jsonl"), 7, 3, verbatim=False, pointer=("prompt",), text="hello")
    assert locate(origin, 2) == (7, 3)
    (tmp_path / "gone.jsonl").write_text('{"other": 1}\n' * 9)
    assert locate(origin, 2) == (7, 3)


def test_verbatim_origins_answer_themselves() -> None:
    origin = Origin("a.txt", 1, 1, text="one\ntwo")
    assert locate(origin, 5) == (2, 2)


def test_positions_inside_of_a_json_text() -> None:
    text = '{"a": [10, {"b": "x\\ud83d\\ude00\\n!"}]}'
    quote = value_start(text, ("a", 1, "b"))
    assert [text[character_start(text, quote, i)] for i in range(5)] == ["x", "\\", "\\", "!", '"']
    assert text[nearest_start(text, ("a", 1, "missing", 4)) :].startswith('{"b"')
    with pytest.raises(LookupError):
        value_start(text, ("a", 2))
    with pytest.raises(ValueError, match="not a string"):
        character_start(text, value_start(text, ("a", 0)), 0)
