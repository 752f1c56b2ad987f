"""What is looked for in a line only where one of its signs is there is found as if it were looked for in every line."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text import json_text
from kvtool.text.structure import prose, sentences, structure

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
        assert not list(json_text._bracketed(text))


def test_lines_between_brackets_are_data_with_those_that_open_and_close_them() -> None:
    for text, data in [
        ("Ports:\n  harbor = [\n    north,\n    south;\n  ];\t \nSail.", ["harbor = [\n    north,\n    south;\n  ];"]),
        ("draw: (\n  sail: {\n    red;\n  }\n)\nend", ["draw: (\n  sail: {\n    red;\n  }\n)"]),
        ("a = [\n  x;\n)\n]", []),
        ("a = [ x;\n]", []),
    ]:
        assert [text[start:stop] for start, stop in json_text.data_in(text)] == data


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


_LINES = [
    *("a", "1. b", "- c", "-", "1.", "\u2022 d", "a.", "(i) e", "regel 1 f", "a/b", "a/b: ", "a/b\xa0", "|-- g", "+"),
    *("*\x0b", "* ", "M  h"),
    *("-rw-r--r-- i", "modified", "On branch", "x,y,z", "k  l", "m\tn", "| o |", "---|---", "\u2502 p\u2502", "+--+"),
    *("Wait, then", ") q", "r,"),
    *("A line of more than thirty-two characters,", "and one in lower case that is longer than the sixty of a wrapped line"),
]  # fmt: skip
_several = st.lists(
    st.builds(lambda indent, line: indent + line, st.sampled_from(["", " ", "\t"]), st.sampled_from(_LINES) | texts),
    min_size=1,
    max_size=6,
)


@given(_several)
def test_what_stands_on_no_line_is_not_looked_for_on_each(parts: list[str]) -> None:
    text = "\n".join(parts)
    lines = prose._lines(text, 0, len(text), ())
    shown = "\n".join(line.text for line in lines)
    for kind, pattern in prose._LINES_OF.items():
        assert prose._anywhere(kind).search(shown) or not any(pattern.match(line.text) for line in lines)
    assert prose._IN_TABLES.search(shown) or not prose._tables(lines)


@given(_several)
def test_lines_without_a_solid_span_are_split_at_once(parts: list[str]) -> None:
    text = "\n".join(parts)
    for start in range(min(len(text), 3)):
        assert prose._lines(text, start, len(text), ()) == list(prose._joined(text, start, len(text), ()))


@given(_several)
def test_a_line_goes_on_where_it_may(parts: list[str]) -> None:
    for one, other in pairwise(parts):
        shown = one.rstrip()
        if sentences.goes_on(one, other):
            assert sentences.may_go_on(shown, other)


@given(st.lists(st.sampled_from(["a:", "b", "c d.", "  e:", "  f", "    g."]), min_size=2, max_size=12))
def test_lines_of_one_indent_end_announcements_as_others_do(parts: list[str]) -> None:
    """What lines announce ends where it would if their indents were looked at, and signs of an end for each line."""
    lines = prose._lines("\n".join(parts), 0, sum(map(len, parts)) + len(parts) - 1, ())
    announces = [sentences.introduces(line.text) for line in lines]
    found = prose._Ends(lines, announces, any("." in line.text for line in lines))
    whole = prose._Ends(lines, announces, True)
    whole._find_indents()
    for index in range(len(lines) - 1):
        assert found.behind(index) == whole.behind(index)
