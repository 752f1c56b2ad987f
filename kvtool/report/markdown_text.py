"""Text in GitHub-flavoured Markdown that shows as it is: no markup, no HTML, no mention, reference or link."""

from __future__ import annotations

import re

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
_BACKTICKS = re.compile(r"`+")


def code(text: str, *, cell: bool = False) -> str:
    """A code span that shows the text on one line; control characters are made visible.

    In a `cell` of a table a `|` would end it, and is escaped; behind a backslash, where programs differ, it becomes a broken bar.
    """
    shown = blunt(_cut(sanitize(text), _MOST))
    if not shown.strip(" "):
        return "`(empty)`"
    fence = "`" * (_longest_run(shown) + 1)
    room = " " if shown[0] in "` " or shown[-1] in "` " else ""
    span = f"{fence}{room}{shown}{room}{fence}"
    return span.replace("\\|", "\\¦").replace("|", "\\|") if cell else span


def prose(text: str, *, cell: bool = False) -> str:
    """A sentence of kvtool's in which names of users may stand: plain words as they are, everything else as code."""
    pieces: list[str] = []
    odd = ""
    for part in _PARTS.finditer(_cut(text, _MOST_PROSE)):
        name, space, word = part.groups()
        if word is not None and not _is_plain(word):
            wrapped = _WRAPPED.fullmatch(word)
            assert wrapped is not None
            before, odd_word, after = wrapped.groups()
            if before:
                pieces += [*_flushed(odd, cell), before]
                odd = ""
            odd += odd_word
            if after:
                pieces += [*_flushed(odd, cell), after]
                odd = ""
        elif space is not None and odd:
            odd += space  # odd words that follow each other are one
        else:
            pieces += [*_flushed(odd, cell), space or _SIGNS.get(word or "", word) or code(name or "", cell=cell)]
            odd = ""
    return "".join([*pieces, *_flushed(odd, cell)])


def _flushed(odd: str, cell: bool) -> list[str]:
    word = odd.rstrip(" ")
    return [code(word, cell=cell), odd[len(word) :]] if odd else []


def _is_plain(word: str) -> bool:
    return word in _SIGNS or (_PLAIN.fullmatch(word) is not None and not _COMMIT.fullmatch(word.strip("(\"').,;:!?")))


def block(text: str, language: str = "") -> str:
    """A fenced block that shows the text line by line."""
    shown = blunt(sanitize(text, newlines=False)).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run[0]) for run in _BACKTICKS.finditer(text)), default=0)


def _cut(text: str, most: int) -> str:
    return f"{text[:most]}…" if len(text) > most else text
