"""Some turns of each group, kept for fixes that need examples of its prompts."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

_MOST_TURNS = 256
"""Turns that are kept of each group."""
_MOST_CHARACTERS = 4_000_000
"""Characters of text that are kept of each group, a bound on memory."""


class SampleBook(Book):
    """The first turns of each group, as many as a bound on their text allows."""

    def __init__(self) -> None:
        self._turns: dict[str, list[Turn]] = {}
        self._characters: dict[str, int] = {}

    def begin(self, job: Job, _entry: LedgerEntry | None) -> None:
        self.add(job.turn)

    def add(self, turn: Turn) -> None:
        """Keep a turn that has text while there is room."""
        if turn.messages is None and turn.text is None:
            return
        kept = self._turns.setdefault(turn.group, [])
        room = _MOST_CHARACTERS - self._characters.get(turn.group, 0)
        if len(kept) >= _MOST_TURNS or room <= 0:
            return
        kept.append(turn)
        self._characters[turn.group] = _MOST_CHARACTERS - room + _size(turn)

    @property
    def groups(self) -> Iterable[str]:
        """The groups of which turns were kept."""
        return self._turns

    def of_group(self, group: str) -> list[Turn]:
        """Return the turns that were kept, in order."""
        return self._turns.get(group, [])


def _size(turn: Turn) -> int:
    """Return the characters of a turn's text, roughly: nested parts of a message count by their own length."""
    if turn.text is not None:
        return len(turn.text)
    contents = (message.get("content") for message in turn.messages or ())
    return sum(len(content) if isinstance(content, str | list) else 16 for content in contents)
