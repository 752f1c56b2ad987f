"""The characters in which texts that look alike differ, escaped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.findings import _quoted
from kvtool.diagnose.visible_characters import NOTHING, visible_text


def test_the_first_difference() -> None:
    for one, other, want in [
        ("a\nb", "a\r\nb", ("\\n", "\\r\\n")),
        ("a\r\nb\r\n", "a\nb\n", ("\\r\\n", "\\n")),
        ("a\n\nb", "a\r\n\r\nb", ("\\n", "\\r\\n")),
        ("a\r\rb", "a\n\nb", ("\\r", "\\n")),
        ("\u0430ssistant", "assistant", ("U+0430", "U+0061")),
        ("caf\u00e9 now", "cafe\u0301 now", ("U+00E9", "U+0065 U+0301")),
        ("ab", "a\u200bb", (NOTHING, "U+200B")),
        ("\ufeffYou", "You", ("U+FEFF", NOTHING)),
        ("a b", "a\u00a0b", ("U+0020", "U+00A0")),
        ("\u201cAda\u201d", '"Ada"', ("U+201C", "U+0022")),
        ("a\tb", "a b", ("\\t", "U+0020")),
        ("same", "same", ("", "")),
        ("a", "", ("U+0061", NOTHING)),
    ]:
        assert visible_text(one, other) == want


@given(st.text("ae\u0301\u00e9\r\n \u00a0\u200b", max_size=12), st.text("ae\u0301\u00e9\r\n \u00a0\u200b", max_size=12))
def test_what_differs_is_told_in_ascii(one: str, other: str) -> None:
    told = visible_text(one, other)
    assert all(each.isascii() and each.isprintable() for each in told)
    assert (told == ("", "")) == (one == other)
    assert one == other or told[0] != told[1]


def test_of_many_code_points_the_first_are_told_whole() -> None:
    few, many = "U+041E U+0441 U+043C U+043E", "U+041E U+0441 U+043C U+043E U+0442 U+0440"
    assert _quoted(few) == f"`{few}`"
    assert _quoted(many) == f"`{few}` and 2 more"
