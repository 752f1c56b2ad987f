"""Placeholders that the words before them say to be today's date or the time: `today's date is {date}`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.lint.evidence.placeholders import words_of
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, leaves

_CLOCKS = frozenset(("date", "time", "datetime", "day", "today", "timestamp", "now"))
_AROUND = 80
_LABEL = re.compile(
    r"(?:\btoday(?:'s|\u2019s)?(?: (?:date|day))?|\b(?:current|present|local) (?:date|time|day)(?: (?:and|&) time)?"
    r"|\bdate today|\btime now|\bit is now|\u5f53\u524d(?:\u65f6\u95f4|\u65e5\u671f)|\u4eca\u5929(?:\u7684\u65e5\u671f)?)"
    r"(?: is|\u662f)?[\s:\uff1a=*`'\"(<\[]{0,8}$",
    re.IGNORECASE,
)
"""What a text says right before a clock; the last words: current time, current date and today in Chinese."""


def with_clocks(nodes: list[Node]) -> list[Node]:
    """The nodes, where a placeholder for a date is one for a clock if the text before it says so.

    Where something else is another in each request, that is told, whatever the date is.
    """
    holes = [leaf for leaf in leaves(nodes) if isinstance(leaf, Hole)]
    return nodes if any(hole.doubt == "use" for hole in holes) else _labelled(nodes)


def _labelled(nodes: Iterable[Node]) -> list[Node]:
    result: list[Node] = []
    before = ""
    for node in nodes:
        if isinstance(node, Hole) and node.doubt and _is_clock(node, before):
            result.append(replace(node, kind=TIME, doubt="", minor=True))
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_labelled(branch)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(Repeat(tuple(_labelled(node.body))))
        else:
            result.append(node)
        before = f"{before}{node}"[-_AROUND:] if isinstance(node, str) else ""
    return result


def _is_clock(hole: Hole, before: str) -> bool:
    return not _CLOCKS.isdisjoint(words_of(hole.what.strip("`"))[-1:]) and _LABEL.search(before) is not None
