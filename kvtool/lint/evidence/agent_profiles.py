"""The goal of an agent that a prompt introduces with its role: it is set up with both, and pursues it in all of its requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kvtool.lint.evidence.placeholders import words_of
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, leaves

_PURSUED = frozenset(("goal", "goals", "objective", "objectives"))
_BEFORE = 400
_INTRODUCED = re.compile(
    r"\b(?:you are|you're|act as|your role is)\s(?:an?\s|the\s|now\s){0,2}[^{}\n]{0,40}"
    r"[{$]{1,3}\s?[\w.\[\]'\"]{0,60}(?:role|persona|profession|position|job_title|agent_name|profile)\b"
    r"|\u4f60\u662f\u4e00?[\u4e2a\u4f4d]?\s?\{{1,2}\s?[\w.]{0,60}(?:role|name)\b",
    re.IGNORECASE,
)
"""`You are a {role}`, in English or Chinese."""


@dataclass(frozen=True, slots=True)
class WrittenIn:
    """A file and its text."""

    path: str
    text: str

    def before(self, hole: Hole) -> str:
        """What is written before a placeholder of this file; nothing for one of another file."""
        spot = hole.spot
        if spot.path != self.path:
            return ""
        lines = self.text.split("\n", spot.line)
        if len(lines) < spot.line:
            return ""
        return "\n".join(
            [*lines[max(spot.line - 1 - _BEFORE, 0) : spot.line - 1], lines[spot.line - 1][: spot.column - 1]]
        )[-_BEFORE:]


def without_profiles(nodes: list[Node], written: WrittenIn) -> list[Node]:
    """The nodes but for goals of agents that the text before them introduces."""
    if not any(isinstance(leaf, Hole) and _is_pursued(leaf) for leaf in leaves(nodes)):
        return nodes
    return _without(nodes, written)


def _without(nodes: Iterable[Node], written: WrittenIn) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_without(branch, written)) for branch in node.branches)))
        elif isinstance(node, Repeat):
            result.append(Repeat(tuple(_without(node.body, written))))
        elif not (isinstance(node, Hole) and _is_pursued(node) and _INTRODUCED.search(written.before(node))):
            result.append(node)
    return result


def _is_pursued(hole: Hole) -> bool:
    return bool(hole.doubt) and not _PURSUED.isdisjoint(words_of(hole.what)[-1:])
