"""Texts in files that answer what a model wrote before: they stand late in a conversation, where little is shared behind them."""

from __future__ import annotations

import re
from dataclasses import replace

from kvtool.lint.evidence.prompt_evidence import reads_as_reply
from kvtool.lint.skeleton import Hole, Node, before_values, leaves, with_holes

_TASK = re.compile(r"\b(?:fix|correct|address)(?= (?:the following|this|these)\b)", re.IGNORECASE)
"""`Fix the following issue` says what to do, not what was wrong with an answer."""


def without_late(nodes: list[Node]) -> list[Node]:
    """The nodes, where in such a text what is another by its use or its name is told by nobody."""
    text = "".join(node for node in nodes if isinstance(node, str)) or "".join(
        leaf for leaf in leaves(nodes) if isinstance(leaf, str)
    )
    return with_holes(nodes, _hidden) if reads_as_reply(_TASK.sub("Do", text), before_values(nodes)) else nodes


def _hidden(hole: Hole) -> Hole:
    return hole if hole.certain else replace(hole, hidden=True)
