"""Blocks of Markdown: the same as those of the library, whatever stands on the lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.structure.markdown_blocks import DEEPEST, markdown_blocks
from tests.cli.test_hostile_prompts import calls
from tests.text.library_blocks import library_blocks

_INDENTS = ["", "", "", " ", "  ", "   ", "    ", "     ", "\t", " \t", "\t\t"]
_PIECES = [
    *("a", "b c", " ", "\t", "     ", "- ", "-", "* ", "*", "+ ", "1. ", "1.", "2. ", "2) ", "123456789. ", "1234567890. ", "-\t"),
    *("# ", "#", "## ", "#######", "```", "````", "~~~", "~~", "```x", "---", "- - -", "***", "* * *", "___", "===", "= a"),
    *("> ", ">", "> > ", "é", "\x0b", "\xa0", "\x00", "\u0661. ", "1.a", "-a", "_a_"),
]  # fmt: skip
_LINE = st.one_of(
    st.sampled_from(["", "", "  ", "\t"]),
    st.builds(
        lambda indent, pieces: indent + "".join(pieces),
        st.sampled_from(_INDENTS),
        st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4),
    ),
)


@given(lines=st.lists(_LINE, max_size=14))
def test_blocks_are_those_of_the_library(lines: list[str]) -> None:
    assert markdown_blocks(lines) == library_blocks("\n".join(lines))


@given(
    lines=st.lists(
        st.sampled_from(
            [
                "",
                "a",
                "- a",
                "  b",
                "  - c",
                "1. d",
                "   e",
                "> f",
                "```",
                "---",
                "-",
                "- > g",
                "  > h",
                "> # i",
                "> - > j",
            ]
        ),
        max_size=30,
    )
)
def test_blocks_of_longer_texts_are_those_of_the_library(lines: list[str]) -> None:
    assert markdown_blocks(lines) == library_blocks("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        " ",
        "a\n\n",
        "".join("  " * depth + "- a\n" for depth in range(DEEPEST)) + "\nb\n",
        "- " * 3 * DEEPEST + "a\n\nb",
        ">" * 3 * DEEPEST + " a\n\nb",
        "> a\n- b\n" * 20,
        "> a\n\n" * 20,
        "> a\nb\n" * 20,
        "- a\n  > b\n  > c\n\n# d\n",
    ],
)
def test_edges_of_the_grammar(text: str) -> None:
    assert markdown_blocks(text.split("\n")) == library_blocks(text)


@given(
    lines=st.lists(
        st.builds(
            lambda signs, text: "".join(signs) + text,
            st.lists(st.sampled_from(["> ", ">", ">\t", "- ", "1. "]), max_size=5),
            st.sampled_from(["", "", "a", "\tb", "```", "---", "# c"]),
        ),
        max_size=10,
    )
)
def test_quotes_that_go_on_or_hold_others_are_those_of_the_library(lines: list[str]) -> None:
    assert markdown_blocks(lines) == library_blocks("\n".join(lines))


@pytest.mark.parametrize(
    "lines", [["> a", "b", "", "# c"], ["- > a", "b", "  > c"], [*(f"{'> ' * n}a" for n in range(40))]]
)
def test_twice_as_many_quotes_are_twice_the_work(lines: list[str]) -> None:
    once, twice = (calls(lambda count=count: markdown_blocks(lines * count)) for count in (100, 200))  # type: ignore[misc]  # mypy cannot type a default
    assert twice < 2.2 * once
