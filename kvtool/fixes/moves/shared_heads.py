"""The part of a text with which other requests begin, too, as a content block of its own: only the end of a block can be marked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kvtool.diagnose.compare.units import common_prefix
from kvtool.fixes.turn_texts import INSTRUCTIONS, TextAt, is_single, texts_of, with_split_text
from kvtool.text.cache_marks import is_marked
from kvtool.workload.turn import Turn

_ENDS = re.compile(r"\n|[.!?][ \t]")


@dataclass(frozen=True, slots=True)
class SharedHeads:
    """Parts each text of instructions after the beginning that it shares with others, and so the question of single requests.

    All characters stay, in their order: the content of a message is two blocks where it was one (tier P1).
    """

    heads: Mapping[tuple[str, str], tuple[str, ...]]
    """By group and role, those that most text of other requests has first."""

    @classmethod
    def learn(cls, samples: Sequence[Turn]) -> SharedHeads | None:
        """Return None where no text ends otherwise than another one that begins alike."""
        texts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for turn in samples:
            for at in _texts(turn):
                texts[turn.group, at.role].append(str.__str__(at.text))
        heads = {place: found for place, of in texts.items() if (found := _heads_of(of))}
        return cls(heads) if heads else None

    def marked_in(self, turns: Iterable[Turn]) -> SharedHeads | None:
        """Return those that end with a mark in these turns, which are parted; None where none does."""
        ends = {str.__str__(part["text"]) for turn in turns for part in _parts(turn) if is_marked(part)}
        heads = {
            place: kept for place, of in self.heads.items() if (kept := tuple(head for head in of if head in ends))
        }
        return SharedHeads(heads) if heads else None

    def __call__(self, turn: Turn) -> Turn:
        for at in reversed(list(_texts(turn))):  # the last part first, as those after it get other numbers
            if (head := self.head_of(turn.group, at)) is not None:
                turn = with_split_text(turn, at, len(head))
        return turn

    def head_of(self, group: str, at: TextAt) -> str | None:
        """Return the beginning after which a text is parted; None where it is not."""
        for head in self.heads.get((group, at.role), ()):
            if at.text.startswith(head) and str.__str__(at.text)[len(head) :].strip():
                return head
        return None

    def split_texts(self, turn: Turn) -> Iterator[tuple[TextAt, str]]:
        """Yield the texts of a turn that are parted, with their beginnings."""
        for at in _texts(turn):
            if (head := self.head_of(turn.group, at)) is not None:
                yield at, head


def _texts(turn: Turn) -> Iterator[TextAt]:
    """Yield the texts of instructions, and what a user said where nothing else was said: a history is sent as it was."""
    roles = INSTRUCTIONS | {"user"} if is_single(turn) else INSTRUCTIONS
    return (at for at in texts_of(turn) if at.message is not None and at.text and at.role in roles)


def _parts(turn: Turn) -> Iterator[dict[str, Any]]:
    contents = (message.get("content") for message in turn.messages or ())
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return (part for part in parts if isinstance(part, dict) and "text" in part)


def _heads_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return beginnings that end where a line or a sentence does: of those that a text has, the one that comes first is its own."""
    distinct = sorted(set(texts))
    shared = {_cut(one, common_prefix(one, other), other) for one, other in pairwise(distinct)} - {""}
    worth = {head: (sum(text.startswith(head) for text in texts) - 1) * len(head) for head in shared}
    return tuple(sorted(worth, key=lambda head: (-worth[head], head)))


def _cut(text: str, shared: int, other: str) -> str:
    """Return the beginning that two texts share, without a torn line or sentence."""
    if shared == min(len(text), len(other)):
        return text[:shared]
    line = text.rfind("\n", 0, shared) + 1
    if line:
        return text[:line]
    ends = [found.end() for found in _ENDS.finditer(text, 0, shared)]
    return text[: ends[-1]] if ends else ""
