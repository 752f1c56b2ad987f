"""Text in GitHub-flavoured Markdown that shows as it is: no markup, no HTML, no mention, reference or link."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.runner_commands import blunt

_MOST = 300
"""Characters that are shown of a name or a line."""
_MOST_PROSE = 1200
_PARTS = re.compile(r"`([^`]+)`|( +)|([^ `]+|`)")
"""A name in backticks, spaces, a word."""
_PLAIN = re.compile(r"[(\"']*(?:[A-Za-z]+(?:[-'/][A-Za-z]+)*|[+-]?\d[\d,.]*%?|)[)\"']*[.,;:!?]?[)\"']*")
"""A word or a number with nothing about it that could be markup, a reference or a link."""
_WRAPPED = re.compile(r"([(\"']*)(.*?)([)\"'.,;:!?]*)", re.DOTALL)
"""A word without the punctuation around it."""
_COMMIT = re.compile(r"[0-9a-fA-F]{7,40}")
_SIGNS = {"->": "→", "-": "-", "=": "=", "<": "&lt;", ">": "&gt;", ">=": "&gt;=", "<=": "&lt;=", "·": "·"}
_Kind = Literal["name", "odd", "space", "plain"]
_CODE = ("name", "odd")
_BACKTICKS = re.compile(r"`+")


def code(text: str, *, cell: bool = False) -> str:
    """Return a code span that shows the text on one line; control characters are made visible.

    In a `cell` of a table a `|` would end it, and is escaped; after a backslash, where programs differ, it becomes a broken bar.
    """
    shown = blunt(_cut(sanitize(text), _MOST))
    if not shown.strip(" "):
        return "`(empty)`"
    fence = "`" * (_longest_run(shown) + 1)
    room = " " if shown[0] in "` " or shown[-1] in "` " else ""
    span = f"{fence}{room}{shown}{room}{fence}"
    return span.replace("\\|", "\\¦").replace("|", "\\|") if cell else span


def prose(text: str, *, cell: bool = False) -> str:
    """Return a sentence of kvtool's that may contain names of users: plain words as they are, everything else as code."""
    pieces: list[tuple[_Kind, str]] = []
    for part in _PARTS.finditer(_cut(text, _MOST_PROSE)):
        name, space, word = part.groups()
        if name is not None:
            pieces.append(("name", name))
        elif space is not None:
            pieces.append(("space", space))
        elif _is_plain(word):
            pieces.append(("plain", _SIGNS.get(word, word)))
        else:
            wrapped = _WRAPPED.fullmatch(word)
            assert wrapped is not None
            before, odd, after = wrapped.groups()
            pieces += [("plain", before), ("odd", odd), ("plain", after)]
    return "".join(code(said, cell=cell) if kind in _CODE else said for kind, said in _joined(pieces))


def _joined(pieces: Iterable[tuple[_Kind, str]]) -> list[tuple[_Kind, str]]:
    """Code side by side is one: the fences of two spans would be one fence. So are odd words with spaces between them."""
    joined: list[tuple[_Kind, str]] = []
    for kind, said in pieces:
        if not said:
            continue
        if kind in _CODE and joined and joined[-1][0] in _CODE:
            said = joined.pop()[1] + said
        elif kind == "odd" and [before for before, _ in joined[-2:]] == ["odd", "space"]:
            space = joined.pop()[1]
            said = joined.pop()[1] + space + said
        joined.append((kind, said))
    return joined


def _is_plain(word: str) -> bool:
    return word in _SIGNS or (_PLAIN.fullmatch(word) is not None and not _COMMIT.fullmatch(word.strip("(\"').,;:!?")))


def block(text: str, language: str = "") -> str:
    """Return a fenced block that shows the text line by line."""
    shown = blunt(sanitize(text, newlines=False)).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run[0]) for run in _BACKTICKS.finditer(text)), default=0)


def _cut(text: str, most: int) -> str:
    return f"{text[:most]}…" if len(text) > most else text
