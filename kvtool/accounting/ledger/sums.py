"""Fates summed by session, by tenant or by the source line of the tokens."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvtool.accounting.ledger.source_lines import UNKNOWN, source_lines
from kvtool.results.choices import TokensBy
from kvtool.results.report import lost_tokens
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

MOST_ROWS = 10_000
"""Sessions, tenants or lines with rows of their own, a bound on memory and output; later ones share one row."""
OTHERS = "(others)"


@dataclass(slots=True)
class SumTotals:
    """Sums over the prompt tokens of one key, and over the requests that have any. The fates sum to the tokens."""

    key: str
    requests: int = 0
    prompt_tokens: int = 0
    fates: Counter[str] = field(default_factory=Counter)

    @property
    def hit_tokens(self) -> int:
        return self.fates["hit"]

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class Booked(NamedTuple):
    """Tokens `[start, stop)` of a prompt and their fate."""

    start: int
    stop: int
    fate: str


class SumBook:
    """Rows of sums. Memory grows with newly computed text: two words for each line."""

    def __init__(self, by: TokensBy) -> None:
        self.by = by
        self._numbers: dict[str, int] = {}
        self._rows: list[SumTotals] = []
        self._first = array("q")
        """Start of the ranges of each owner in `_stops` and `_keys`, and their number."""
        self._count = array("i")
        self._stops = array("i")
        self._keys = array("i")

    def enter(
        self, owner: int, turn: Turn, prompt: Prompt | None, num_tokens: int, known: int, booked: Sequence[Booked]
    ) -> None:
        """Add a settled request. `booked`, in order and apart, are its tokens with a fate: all up to `known`, some after it.

        The others get theirs by `book`.
        """
        while len(self._first) <= owner:
            self._first.append(0)
            self._count.append(0)
        stretches = [(stop, self._number(key)) for stop, key in self._keyed_ranges(turn, prompt, num_tokens)]
        start = 0
        for stop, number in stretches:
            self._rows[number].prompt_tokens += stop - start
            start = stop
        for number in {number for _, number in stretches}:
            self._rows[number].requests += 1
        self._add_booked(stretches, booked)
        self._first[owner] = len(self._stops)
        for stop, number in stretches:
            if stop > known:
                self._stops.append(stop)
                self._keys.append(number)
        self._count[owner] = len(self._stops) - self._first[owner]

    def book(self, owner: int, booked: Booked) -> None:
        """Set the fate of a request's tokens after its known part that had none when it was entered."""
        first = self._first[owner]
        end = first + self._count[owner]
        index = bisect_right(self._stops, booked.start, first, end)
        start = booked.start
        while start < booked.stop:
            stop = min(self._stops[index], booked.stop)
            self._rows[self._keys[index]].fates[booked.fate] += stop - start
            start = stop
            index += 1

    def rows(self) -> list[SumTotals]:
        """Return the rows in order of lost tokens."""
        return sorted(self._rows, key=lambda row: (-lost_tokens(row), row.key))

    def check(self, prompt_tokens: int) -> None:
        """Assert that the fates of each row sum to its tokens, and those of all rows to the workload's."""
        for row in self._rows:
            total = sum(row.fates.values())
            assert total == row.prompt_tokens, f"{row.key}: fates sum to {total}, not {row.prompt_tokens}"
        total = sum(row.prompt_tokens for row in self._rows)
        assert total == prompt_tokens, f"rows by {self.by} sum to {total}, not {prompt_tokens}"

    def _keyed_ranges(self, turn: Turn, prompt: Prompt | None, num_tokens: int) -> Iterator[tuple[int, str]]:
        """Return the end of each range of tokens and its key."""
        match self.by:
            case "session":
                yield num_tokens, turn.session_or_file
            case "tenant":
                yield num_tokens, turn.salt or turn.call.tenant or "(no salt)"
            case "line" if prompt is not None:
                yield from source_lines(prompt)
            case "line":
                yield num_tokens, UNKNOWN

    def _add_booked(self, stretches: list[tuple[int, int]], booked: Sequence[Booked]) -> None:
        index = 0
        for start, stop, fate in booked:
            while start < stop:
                while stretches[index][0] <= start:
                    index += 1
                end = min(stretches[index][0], stop)
                self._rows[stretches[index][1]].fates[fate] += end - start
                start = end

    def _number(self, key: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            if len(self._rows) >= MOST_ROWS:
                key = OTHERS
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._rows)
                self._rows.append(SumTotals(key))
        return number
