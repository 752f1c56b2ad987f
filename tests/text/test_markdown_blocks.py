"""Blocks of Markdown: the same as those of the library, whatever stands on the lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.text.structure import markdown_blocks as module
from kvtool.text.structure.library_blocks import library_blocks
from kvtool.text.structure.markdown_block import DEEPEST, MarkdownBlock
from kvtool.text.structure.markdown_blocks import markdown_blocks

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


@settings(deadline=None, max_examples=400)
@given(lines=st.lists(_LINE, max_size=14))
def test_blocks_are_those_of_the_library(lines: list[str]) -> None:
    assert markdown_blocks(lines) == library_blocks("\n".join(lines))


@settings(deadline=None, max_examples=200)
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


def test_the_library_reads_quotes_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take most of the time of a prompt; of many quotes it is given few lines beside them."""
    given_lines: list[int] = []

    def counted(text: str) -> list[MarkdownBlock]:
        given_lines.append(text.count("\n") + 1)
        return library_blocks(text)

    monkeypatch.setattr(module, "library_blocks", counted)
    plain = "# A\n\nB.\nC.\n\n- d\n- e\n  1. f\n\n```\n> g\n```\n\nh\n---\n\n***\n"
    assert [block.kind for block in markdown_blocks(plain.split("\n"))].count("item") == 3
    assert not given_lines
    markdown_blocks([*["> a", "- b"] * 200, *["- > a", "  > b", "  - c"] * 200, *["> # d", "# e"] * 200])
    assert not given_lines
    markdown_blocks(["> a", "b", "", "# c"] * 200)
    assert len(given_lines) == 400
    assert sum(given_lines) < 200 * 12
