"""Passages that were looked up for one request and are before instructions: as one block, after these (tier P2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.diagnose.causes import SlotCause
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.movable_unit import Movable, movable_unit
from kvtool.fixes.moves.question_text import nearly_all_differ
from kvtool.fixes.moves.split_text import parted_at, units_last
from kvtool.fixes.turn_texts import lines_with_places, map_texts, role_of_part, texts_of
from kvtool.text.structure.sentences import is_sentence
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

PASSAGES = "passages"
"""The kind of a fix that moves passages with their introduction."""
MOVE_PASSAGES = "move the passages and their introduction to the end of their message, as one block"

_ROLES = ("system", "developer")
_LOOKED_AT = 24
_MOST_LINES = 20_000
_LEAST_PASSAGES = 2
_IN_BLOCKS = ("introduced", "list", "numbered", "section", "element", "quote")


@dataclass(frozen=True, slots=True)
class PassagesLast:
    """Moves the block in which all lines stand that only some requests have."""

    role: str
    common: frozenset[str]

    @classmethod
    def learn(cls, cause: SlotCause, samples: Sequence[Turn]) -> PassagesLast | None:
        """Return None where the cause is of something else than one block of passages, others in nearly every request."""
        role = role_of_part(cause.slot.part)
        if role not in _ROLES or not cause.slot.logged or not _adds_nothing(cause):
            return None
        looked = samples[:_LOOKED_AT]
        texts = [str.__str__(text) for turn in looked if (text := _first_text(turn, role)) is not None]
        if len(texts) < max(THRESHOLDS.passage_samples, THRESHOLDS.passage_requests * len(looked)):
            return None
        counts = Counter(line for text in texts for line in {line.rstrip() for line in text.split("\n", _MOST_LINES)})
        found = cls(
            role, frozenset(line for line, count in counts.items() if count > THRESHOLDS.passage_often * len(texts))
        )
        blocks = [text[unit.start : unit.stop] for text in texts if (unit := found.block_of(text)) is not None]
        return found if len(blocks) >= THRESHOLDS.passage_requests * len(texts) and nearly_all_differ(blocks) else None

    def block_of(self, text: str) -> Movable | None:
        """Return the block of passages; None where a text has none, or what is its own is at several places."""
        places = [place for place in lines_with_places(text) if text[slice(*place)].strip()]
        own = [at for at, place in enumerate(places) if text[slice(*place)].rstrip() not in self.common]
        if not own:
            return None
        span = places[own[0] : own[-1] + 1]
        said = [text[slice(*place)] for place in span]
        passages = sum(is_sentence(line) for line in said)
        if (
            len(said) < _LEAST_PASSAGES
            or len(own) < THRESHOLDS.passage_share * len(said)
            or passages < THRESHOLDS.passage_share * len(said)
        ):
            return None
        start, stop = span[0][0], span[-1][1]
        unit = movable_unit(text, start, stop, [(start, stop)], common=self.common)
        if not isinstance(unit, Movable) or unit.kind not in _IN_BLOCKS or not text[: unit.start].strip():
            return None
        return unit if len(text[unit.stop :].strip()) >= THRESHOLDS.passage_gain else None

    def __call__(self, turn: Turn) -> Turn:
        def change(text: str) -> str:
            plain = str.__str__(text)
            unit = self.block_of(plain)
            if unit is None:
                return text
            end = len(plain.rstrip("\r\n"))
            return units_last(Traced(text), parted_at(plain, [unit], end), end)

        return map_texts(turn, change, {self.role})


def _adds_nothing(cause: SlotCause) -> bool:
    """Return whether a cause says no more than that text differs, or is a number of what was looked up."""
    return cause.kind is OPTIONAL or cause.kind.code in (KV105.code, KV113.code, KV201.code)


def _first_text(turn: Turn, role: str) -> str | None:
    return next((at.text for at in texts_of(turn) if at.role == role), None)
