"""Which marks of a text hold its variables: `{x}` beside doubled braces, `${x}` beside tags of Jinja."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.lint.skeleton import Hole, leaves
from kvtool.lint.sources import sort_inputs
from kvtool.lint.templates import jinja_file

RULES = "You keep the ledger of a small harbour. Answer only from the tide table. " * 6


def names(text: str) -> list[str]:
    return [leaf.what for leaf in leaves(jinja_file("a.md", text)) if isinstance(leaf, Hole)]


def test_variables_in_dollars_beside_tags() -> None:
    text = f"It is ${{KEEPER_NOW}}.\n{{% if deep %}}Mind the {{hull}} of ${{ ship.question }}.{{% endif %}}\n{RULES}"
    assert names(text) == ["`KEEPER_NOW`", "`ship.question`"]
    (clock, *_) = [leaf for leaf in leaves(jinja_file("a.md", text)) if isinstance(leaf, Hole)]
    assert (clock.spot.line, clock.spot.column, clock.spot.width) == (1, 7, 13)


@pytest.mark.parametrize("shell", ["${HOME}", "${HOME:-/quay}"])
def test_dollars_beside_double_braces_are_text(shell: str) -> None:
    assert names(f"cd {shell}\n{{{{ question }}}}\n{RULES}") == ["`question`"]


def test_dollars_that_no_jinja_reads_are_text() -> None:
    assert names(f"cd ${{HOME:-/quay}} ${{ship}}\n{{% if deep %}}{{% endif %}}{RULES}") == []
    with pytest.raises(KvtoolError):
        jinja_file("a.md", "${HOME} {% if %}")


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("Plan: {plan}\nTides: {tides}\n{{require_seal}}\n", "format"),
        ('Plan: {plan}\nAnswer:\n{{"pier": 1}}\n', "format"),
        ("Plan: {{ plan }}\nTides: {tides}\n", "jinja"),
        ("Plan: {plan}\nTides: {tides}\n{% if deep %}{{ ship }}{% endif %}\n", "jinja"),
        ("Plan: {{ plan }}\n", "jinja"),
    ],
)
def test_a_text_with_more_single_braces_than_double_ones_is_formatted(tmp_path: Path, text: str, style: str) -> None:
    path = tmp_path / "keeper.md"
    path.write_text(text + RULES, encoding="utf-8")
    (one,) = sort_inputs([str(path)], [str(path)]).texts
    assert one.style == style
