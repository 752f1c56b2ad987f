"""Characters that look like others: equal to compare, and written in one script."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.look_alike import as_latin, ascii_signs, compatible, in_one_script, skeleton
from kvtool.text.traced import Traced

CYRILLIC_A, CYRILLIC_O, GREEK_O = "\u0430", "\u043e", "\u03bf"
PRIVET = "\u043f\u0440\u0438\u0432\u0435\u0442"


def written(text: str) -> str:
    for start, stop, piece in reversed(in_one_script(text)):
        text = text[:start] + piece + text[stop:]
    return text


def test_words_are_written_in_one_script() -> None:
    for text, want in [
        (f"p{GREEK_O}licy and {CYRILLIC_A}ssistant", "policy and assistant"),
        (f"Use {CYRILLIC_A} tool", "Use a tool"),  # a word of nothing else, among Latin ones
        (PRIVET.replace("\u0435", "e"), PRIVET),  # one Latin letter in a Russian word
        (f"{PRIVET}, \u043e\u043d", f"{PRIVET}, \u043e\u043d"),  # Russian stays Russian
        (f"say {PRIVET} to \u043e\u043d", f"say {PRIVET} to \u043e\u043d"),
        ("\u03bb\u03cc\u03b3\u03bf\u03c2", "\u03bb\u03cc\u03b3\u03bf\u03c2"),
        ("plain", "plain"),
    ]:
        assert written(text) == want
        assert written(want) == want


def test_letters_that_stand_for_others() -> None:
    assert compatible("\uff39\uff4f\uff55 \ufb01nal \U0001d400") == "You final A"
    assert compatible("x\u00b2 \u2122 \uff0c") == "x\u00b2 \u2122 \uff0c"  # these say something else, or are no letters
    assert ascii_signs("\u201cAda\u201d \u2014 it\u2019s\u2026") == '"Ada" - it\'s...'
    assert as_latin(CYRILLIC_O + GREEK_O) == "oo"
    assert skeleton(unicodedata.normalize("NFD", "caf\u00e9")) == skeleton("caf\u00e9")


@given(st.text("a\u0430o\u043e\u03bf\u0436x \n\u00e9", max_size=24))
def test_what_is_replaced_looks_the_same(text: str) -> None:
    once = written(text)
    assert as_latin(once) == as_latin(text)
    assert len(once) == len(text)
    assert Traced(once) == once


def test_a_word_of_two_scripts_is_of_that_of_its_own_letters() -> None:
    for text, want in [
        (
            "\u043c\u0430\u0441\u0442e\u0440, Cpo\u043a\u0438",
            "\u043c\u0430\u0441\u0442\u0435\u0440, \u0421\u0440\u043e\u043a\u0438",
        ),
        ("\u039ao\u03c3\u03bco\u03c2", "\u039a\u03bf\u03c3\u03bc\u03bf\u03c2"),
        ("USB \u0438 PC", "USB \u0438 PC"),  # words of Latin alone
    ]:
        assert written(text) == want
