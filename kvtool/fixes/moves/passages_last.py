"""Passages that were looked up for one request and are before constant text: as one block, after that (tier P2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.inserted_content import begin_of_introduced
from kvtool.fixes.moves.movable_unit import Movable, movable_unit
from kvtool.fixes.moves.move import MovedText, append_units
from kvtool.fixes.moves.question_text import leads_over, nearly_all_differ
from kvtool.fixes.moves.split_text import parted_at, units_last
from kvtool.fixes.turn_texts import (
    TextAt,
    is_single,
    lines_with_places,
    marks_in,
    role_of_part,
    texts_of,
    with_split_text,
    with_texts,
)
from kvtool.text.cache_marks import MOST_MARKS, marks_on
from kvtool.text.reordered import rearranged
from kvtool.text.structure.sentences import is_sentence
from kvtool.text.structure.tag_name import TAG_NAME
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

PASSAGES = "passages"
"""The kind of a fix that moves passages with their introduction."""
MOVE_PASSAGES = "move the passages and their introduction to the end of their message, as one block"
PASSAGES_AFTER = "passages-after"
"""The kind of a fix that moves them out of the instructions, after the history."""
AFTER_HISTORY = "move the passages and their introduction to the end of the last message, as one block"
BEFORE_QUESTION = (
    "move the passages and their introduction after the constant text of their message, before the question"
)

_ROLES = ("system", "developer", "user")
_TAGS = re.compile(rf"\A[ \t]*<{TAG_NAME}[^<>]*>|</{TAG_NAME}>[ \t]*\Z")
"""Tags around the text of a line."""
_LOOKED_AT = 24
_MOST_LINES = 20_000
_LEAST_PASSAGES = 2
_IN_BLOCKS = ("introduced", "list", "numbered", "section", "element", "quote")


@dataclass(frozen=True, slots=True)
class PassagesLast:
    """Moves the block in which all lines stand that only some requests have."""

    role: str
    common: frozenset[str]
    far: bool = False
    """Whether they go to the end of the last message, not of their own one."""

    @classmethod
    def learn(cls, cause: SlotCause, samples: Sequence[Turn]) -> PassagesLast | None:
        """Return None where the cause is of something else than one block of passages, others in nearly every request."""
        role = role_of_part(cause.slot.part)
        if role not in _ROLES or not cause.slot.logged or not _adds_nothing(cause):
            return None
        looked = samples[:_LOOKED_AT]
        if role == "user" and not all(map(is_single, looked)):
            return None
        texts = [str.__str__(text) for turn in looked if (text := _first_text(turn, role)) is not None]
        if len(texts) < max(THRESHOLDS.passage_samples, THRESHOLDS.passage_requests * len(looked)):
            return None
        counts = Counter(line for text in texts for line in {line.rstrip() for line in text.split("\n", _MOST_LINES)})
        found = cls(
            role, frozenset(line for line, count in counts.items() if count > THRESHOLDS.passage_often * len(texts))
        )
        blocks = [text[place[0].start : place[0].stop] for text in texts if (place := found.block_of(text)) is not None]
        return found if len(blocks) >= THRESHOLDS.passage_requests * len(texts) and nearly_all_differ(blocks) else None

    @property
    def what(self) -> str:
        """Return what the fix does, in the imperative."""
        if self.far:
            return AFTER_HISTORY
        return BEFORE_QUESTION if self.role == "user" else MOVE_PASSAGES

    def after_history(self, samples: Sequence[Turn]) -> PassagesLast | None:
        """Return the move out of the instructions; None where no sample has a history that they are before."""
        if self.role == "user" or all(map(is_single, samples[:_LOOKED_AT])):
            return None
        return replace(self, far=True)

    def block_of(self, text: str) -> tuple[Movable, int] | None:
        """Return the block of passages, and before what it goes; None where a text has none, or what is its own is at several
        places.
        """
        places = [place for place in lines_with_places(text) if text[slice(*place)].strip()]
        own = [at for at, place in enumerate(places) if text[slice(*place)].rstrip() not in self.common]
        end = len(text.rstrip("\r\n"))
        if self.role == "user":
            question = self._question(text, places, own)
            if question is None:
                return None
            own = [at for at in own if at < question]
            before = places[question - 1]
            end = before[0] if leads_over(text[slice(*before)]) else places[question][0]
            end = len(text[:end].rstrip("\r\n"))
        if not own:
            return None
        span = places[own[0] : own[-1] + 1]
        said = [_TAGS.sub("", text[slice(*place)]) for place in span]
        passages = sum(is_sentence(line) for line in said)
        if (
            len(said) < _LEAST_PASSAGES
            or len(own) < THRESHOLDS.passage_share * len(said)
            or passages < THRESHOLDS.passage_share * len(said)
        ):
            return None
        start, stop = span[0][0], span[-1][1]
        unit = movable_unit(text, start, stop, [(start, stop)], common=self.common)
        if self.role == "user":
            if not isinstance(unit, Movable):  # constant text of a question is no rule about passages
                label = begin_of_introduced(text, start)
                unit = Movable(start if label is None else label, stop, "introduced")
        elif not isinstance(unit, Movable) or unit.kind not in _IN_BLOCKS or not text[: unit.start].strip():
            return None
        return (unit, end) if len(text[unit.stop : end].strip()) >= THRESHOLDS.passage_gain else None

    def _question(self, text: str, places: Sequence[tuple[int, int]], own: Sequence[int]) -> int | None:
        """Return the number of the first line after the last long constant text: the question begins there."""
        for before, after in reversed(list(pairwise(own))):
            if len(text[places[before][1] : places[after][0]].strip()) >= THRESHOLDS.passage_gain:
                return after
        return None

    def __call__(self, turn: Turn) -> Turn:
        changed: dict[tuple[int | None, int | None], str] = {}
        heads: list[tuple[TextAt, int]] = []
        taken: list[MovedText] = []
        for at in texts_of(turn):
            plain = str.__str__(at.text)
            if at.role != self.role or (found := self.block_of(plain)) is None:
                continue
            unit, end = found
            if self.far:
                split = parted_at(plain, [unit], len(plain))
                changed[at.message, at.part] = rearranged(Traced(at.text), split.kept)
                taken += [MovedText(Traced(at.text)[one.start : one.stop], apart=True) for one in split.units]
                continue
            moved = units_last(Traced(at.text), parted_at(plain, [unit], end), end)
            if moved != plain:
                changed[at.message, at.part] = moved
                heads.append((at, str.__str__(moved).index(plain[unit.start : unit.stop].strip())))
        after = with_texts(turn, changed)
        if taken:
            return append_units(after, taken)
        if self.role == "user" and 0 < marks_in(turn) < MOST_MARKS:  # only the end of a block can be marked
            for at, length in reversed(heads):
                after = with_split_text(after, at, length, _first_marks(turn))
        return after


def _first_marks(turn: Turn) -> dict[str, Any]:
    """Return the marks of the first block that has any."""
    blocks: list[Any] = list(turn.tools or ())
    for message in turn.messages or ():
        content = message.get("content")
        blocks += [message, *(content if isinstance(content, list) else ())]
    return next((marks for block in blocks if (marks := marks_on(block))), {})


def _adds_nothing(cause: SlotCause) -> bool:
    """Return whether a cause says no more than that text differs, or is a number of what was looked up."""
    return cause.kind is OPTIONAL or cause.kind.code in (KV105.code, KV113.code, KV201.code)


def _first_text(turn: Turn, role: str) -> str | None:
    return next((at.text for at in texts_of(turn) if at.role == role), None)
