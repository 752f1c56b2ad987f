"""Some turns of each group, kept for fixes that need examples of its prompts."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

_MOST_TURNS = 128
"""First turns that are kept of each group, and as many of all later ones."""
_MOST_CHARACTERS = 2_000_000
"""Characters of text that are kept of either, a bound on memory."""


class _GroupSample:
    """The first turns of a group, which follow each other, and turns of the rest: each as likely as any other."""

    def __init__(self, group: str) -> None:
        self._first: list[Turn] = []
        self._later: list[Turn] = []
        self._room = _MOST_CHARACTERS
        self._room_later = _MOST_CHARACTERS
        self._most = _MOST_TURNS
        self._seen = 0
        self._chance = Random(group)  # noqa: S311 - the same turns in each run

    @property
    def turns(self) -> list[Turn]:
        return [*self._first, *self._later]

    def add(self, turn: Turn) -> None:
        if not self._seen and len(self._first) < _MOST_TURNS and self._room > 0:
            self._first.append(turn)
            self._room -= _size(turn)
            return
        self._seen += 1
        at = self._chance.randrange(self._seen)
        if len(self._later) >= self._most:
            if at >= self._most:
                return
            self._drop(at)
        self._later.append(turn)
        self._room_later -= _size(turn)
        while self._room_later < 0 and len(self._later) > 1:
            self._drop(self._chance.randrange(len(self._later)))
            self._most = len(self._later)

    def _drop(self, at: int) -> None:
        self._room_later += _size(self._later.pop(at))


class SampleBook(Book):
    """Turns from the whole run of each group, as many as a bound on their text allows."""

    def __init__(self) -> None:
        self._samples: dict[str, _GroupSample] = {}

    def begin(self, job: Job, _entry: LedgerEntry | None) -> None:
        self.add(job.turn)

    def add(self, turn: Turn) -> None:
        """Enter a turn that has text."""
        if turn.messages is not None or turn.text is not None:
            self._samples.setdefault(turn.group, _GroupSample(turn.group)).add(turn)

    @property
    def groups(self) -> Iterable[str]:
        """The groups of which turns were kept."""
        return self._samples

    def of_group(self, group: str) -> list[Turn]:
        """Return the turns that were kept, in order."""
        return self._samples[group].turns if group in self._samples else []


def _size(turn: Turn) -> int:
    """Return the characters of a turn's text, roughly: those of all parts of its messages, however deep."""
    found, left = 0, list[object]([turn.text if turn.messages is None else turn.messages])
    while left:
        value = left.pop()
        if isinstance(value, str):
            found += len(value)
        else:
            left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found
