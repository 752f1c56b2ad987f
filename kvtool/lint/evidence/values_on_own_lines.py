"""Values that a prompt is written around: on lines of their own, in rows of a list, or in its first sentence.

A value within a line of the rules (`increase it up to {max_points}`) is mostly one of the settings that the rules are written for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvtool.lint.skeleton import Choice, Hole, Node, Repeat

_BEGINS = re.compile(r"(?:\A|\n)[ \t]*(?:[\"'`]{3}|[>|])?[ \t]*\Z")
"""What is before a value that begins a line: nothing, or what opens a quote."""
_ENDS = re.compile(r"[ \t]*(?:[\"'`]{3}[.,]?)?[ \t]*(?:\n|\Z)")
_TAG = re.compile(r"<[A-Za-z][\w-]{0,60}>\s*\Z")
_SETS_UP = re.compile(r"\b(?:you are|you're|act as|your (?:role|name)|imagine|as an?)\b", re.IGNORECASE)
_LONGEST_SENTENCE = 240


def questioned_names(nodes: Iterable[Node]) -> frozenset[int]:
    """The identities of the holes that a prompt is written around."""
    found: set[int] = set()
    _walk(tuple(nodes), "", "", found, repeated=False)
    return frozenset(found)


def _walk(nodes: tuple[Node, ...], before: str, after: str, found: set[int], *, repeated: bool) -> str:
    """Text from the beginning up to the end of these nodes, as far as it is read; a hole is a mark in it."""
    for number, node in enumerate(nodes):
        if isinstance(node, str):
            before = (before + node)[: _LONGEST_SENTENCE + 1] + (before + node)[_LONGEST_SENTENCE + 1 :][
                -_LONGEST_SENTENCE:
            ]
        elif isinstance(node, Hole):
            rest = next((one for one in nodes[number + 1 :]), after)
            if repeated or _on_own_line(before, _first_text(rest)) or _in_first_sentence(before):
                found.add(id(node))
            before += _MARK
        elif isinstance(node, Repeat):
            before = _walk(node.body, before, "\n", found, repeated=True)
        else:
            rest = _first_text(next((one for one in nodes[number + 1 :]), after))
            ends = [_walk(branch, before, rest, found, repeated=repeated) for branch in node.branches]
            before = max(ends, key=len, default=before)
    return before


_MARK = "\x00"


def _first_text(node: Node | str) -> str:
    """The text that something begins with, as far as that is one text."""
    if isinstance(node, str):
        return node
    if isinstance(node, Choice):
        return next((text for branch in node.branches if branch and (text := _first_text(branch[0]))), "\n")
    return "\n" if isinstance(node, Repeat) else _MARK


def _on_own_line(before: str, after: str) -> bool:
    if _TAG.search(before) and after.lstrip().startswith("</"):
        return True
    return _BEGINS.search(before[-80:]) is not None and _ENDS.match(after[:80]) is not None


def _in_first_sentence(before: str) -> bool:
    sentence = before.lstrip()
    return len(sentence) <= _LONGEST_SENTENCE and "\n" not in sentence and _SETS_UP.search(sentence) is None
