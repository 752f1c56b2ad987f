"""Texts in files that answer what a model wrote before: they stand late in a conversation, where little is shared behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kvtool.lint.python_evidence import reads_as_reply
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, leaves

_TASK = re.compile(r"\b(?:fix|correct|address)(?= (?:the following|this|these)\b)", re.IGNORECASE)
"""`Fix the following issue` says what to do, not what was wrong with an answer."""


def without_late(nodes: list[Node]) -> list[Node]:
    """The nodes, where in such a text what is another by its use or its name is told by nobody."""
    text = "".join(leaf for leaf in leaves(nodes) if isinstance(leaf, str))
    return _hidden(nodes) if reads_as_reply(_TASK.sub("Do", text), _before_values(nodes)) else nodes


def _before_values(nodes: list[Node]) -> int:
    """Characters of constant text before the first value."""
    before = 0
    for leaf in leaves(nodes):
        if isinstance(leaf, Hole):
            break
        before += len(leaf)
    return before


def _hidden(nodes: Iterable[Node]) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Hole):
            result.append(node if node.certain else replace(node, hidden=True))
        elif isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_hidden(branch)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(Repeat(tuple(_hidden(node.body))))
        else:
            result.append(node)
    return result
