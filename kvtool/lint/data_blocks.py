"""Placeholders that the text before them says to be data: alone behind a label, or in a block that a heading or tags mark.

A name such as `unique_cell_types` says nothing; `Below are the annotations:` on the line before says that they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kvtool.lint.placeholders import is_set_up, is_settled, words_of
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat

_AROUND = 240
_MARKS = "`'\"*_~=-<>[](){}|# \t"
_BLOCK = re.compile(
    r"(?:[:\uff1a]|#{1,6}[^\n]{1,80}|\*\*[^\n]{1,80}\*\*|<[\w /-]{1,60}>|\[[\w /-]{1,60}\]|[-=]{3,}[^\n]{0,60})$"
)
"""How a line ends that a block of data follows: with a colon, or it is a heading or a tag."""
_FIELD = re.compile(
    r"^[ \t]*(?:[-*\u2022][ \t]+|\d{1,2}[.)][ \t]+)?[*_`]{0,3}([\w][\w '\u2019/()-]{1,48})[*_`]{0,3}[:\uff1a][*_`]{0,3}"
    r"[ \t]*[`'\"<\[(]{0,4}$"
)
"""A label at the beginning of a line, and nothing between it and what follows: `Company: `."""
_ENDS = re.compile(r"[ \t]*[`'\"*>\])]{0,4}[.,;]?[ \t]*(?:\n|$)|[ \t]*</")


def with_data(nodes: Iterable[Node]) -> list[Node]:
    """The nodes, where a placeholder of which nothing else tells is another in each request if it stands as data does."""
    return _told(list(nodes), "", "")


def label_before(text: str, at: int) -> str:
    """What the line up to a placeholder calls it, as a name: `SOURCE CODE: {0}`; empty where it calls it nothing."""
    field = _FIELD.match(text[max(text.rfind("\n", 0, at) + 1, at - _AROUND) : at])
    return "_".join(field[1].split()) if field is not None else ""


def _told(nodes: list[Node], before: str, behind: str) -> list[Node]:
    result: list[Node] = []
    for number, node in enumerate(nodes):
        following = nodes[number + 1] if number + 1 < len(nodes) else behind
        after = following if isinstance(following, str) else "\n"
        if isinstance(node, Hole):
            data = node.doubt == "open" and _is_data(node.what.strip("`"), before, after)
            result.append(replace(node, doubt="use") if data else node)
            before = ""
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_told(list(branch), before, after)) for branch in node.branches)))
            before = ""
        elif isinstance(node, Repeat):
            result.append(node)
            before = ""
        else:
            result.append(node)
            before = f"{before}{node}"[-_AROUND:]
    return result


def _is_data(name: str, before: str, after: str) -> bool:
    if is_set_up(name) or is_settled(name) or _ENDS.match(after) is None:
        return False
    line = before.rpartition("\n")[2]
    field = _FIELD.match(line)
    if field is not None:
        return not _says_set_up(field[1])
    if line.strip(_MARKS):
        return False
    lines = [one for one in before.split("\n") if one.strip()]
    while lines and not lines[-1].strip(_MARKS):
        lines.pop()
    label = lines[-1].rstrip() if lines else ""
    if not _BLOCK.search(label):
        return False
    return not _says_set_up(label)


def _says_set_up(label: str) -> bool:
    words = " ".join(words_of(label[-120:]))
    return is_set_up(words) or is_settled(words)
