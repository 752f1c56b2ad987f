"""What is looked for in a line only where one of its signs is there is found as if it were looked for in every line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.structure import data_values, prose, sentences, structure

PIECES = [
    "You",
    "are",
    "e.g.",
    "Dr.",
    "4.",
    "März",
    "note:",
    "a=b",
    "**Rules**",
    "--- END ---",
    "===",
    "[a.b]",
    "__x__",
    "(",
    "[",
    "{",
    "}",
    "]",
    ")",
    "  ",
    "\t",
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "。",
    "\uff1a",
    "\uff01",
    "?",
    "。」",
    "…",
    "| a |",
    "2026-01-05",
    "req-7f",
    "A1_b-2",
    "<b7>",
    "path/x9",
    "\\n5",
    "- item",
    "7)",
    "12:30",
    "ok.",
    'done!"',
    "\u2028",
    "\x1c",
    "\u0663",
    "\u017f1",
]
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
lines = texts.map(lambda text: text.replace("\n", " "))


@given(lines)
def test_a_line_announces_and_is_labelled_as_its_pattern_says(line: str) -> None:
    announces = 0 < len(line.strip()) <= sentences._LONGEST_INTRODUCTION and sentences._INTRODUCES.match(line)
    closes = sentences._RULE.match(line) and sentences._END_WORD.search(line)
    assert sentences.introduces(line) == (bool(announces) and not closes)
    assert sentences.has_label(line) == (sentences._LABEL.match(line) is not None)


@given(lines)
def test_a_second_column_is_where_its_pattern_finds_it(line: str) -> None:
    found = prose._COLUMN.match(line)
    expected = None if found is None or sentences.is_sentence(line) else found.end()
    assert prose._second_column(line) == expected


@given(texts, st.integers(0, 12), st.integers(0, 12))
def test_no_sentence_ends_where_nothing_ends_one(text: str, before: int, behind: int) -> None:
    start, stop = min(before, len(text)), max(len(text) - behind, min(before, len(text)))
    for found in sentences._END.finditer(text, start, stop):
        assert sentences._STOP.search(text, start, stop), found


@given(texts)
def test_numbers_are_alike_line_by_line_as_in_all_of_a_text(text: str) -> None:
    together = structure._ALIKE.sub(structure._ones, text)
    assert "\n".join(map(structure._line_alike, text.split("\n"))) == together


@given(texts)
def test_brackets_are_looked_for_where_there_are_any(text: str) -> None:
    if not any(sign in text for sign in "{[("):
        assert not list(data_values._bracketed(text))


def test_a_text_is_made_alike_once_for_all_of_its_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(line: str) -> str:
        seen.append(line)
        return line

    monkeypatch.setattr(structure, "_line_alike", counted)
    text = "\n".join(f"line {number} of a text that is asked for often" for number in range(50))
    for _ in range(3):
        structure.structure_of("".join(text))
    assert len(seen) == 50
