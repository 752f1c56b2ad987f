"""Prompts that another process compares with each other: it reads them anyway, and has less to do."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap
from kvtool.accounting.ledger.comparer import Compared, Comparer, Newline
from kvtool.accounting.ledger.donors import Donors, KeptFor
from kvtool.accounting.ledger.line_set import LineSet
from kvtool.accounting.prefix_tree import Ids, Match, RadixTree, with_answer
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn


class SentComparison(NamedTuple):
    """One process's report to another about a compared prompt. Requests are named by the order of comparison.

    `gaps` are fields of `Gap`; None without an alignment. `donor` is a request or the tokens of earlier content; `gone` lists
    requests that are no donors of later ones.
    """

    gaps: tuple[tuple[int, ...], ...] | None
    donor: int | bytes
    repeated: list[tuple[int, int]]
    gone: tuple[int, ...]


class ComparedHere:
    """The side that compares, with a tree of its own."""

    def __init__(self, newline: Newline | None, kept_for: KeptFor | None = None) -> None:
        self._comparer = Comparer(newline, kept_for=kept_for)
        self._comparer.donors.gone = self._gone = list[int]()
        self._tree = RadixTree()

    def told(self, turn: Turn, prompt: Prompt, output: Ids) -> SentComparison:
        """Return the next request, with the computed part of its answer."""
        sequence = with_answer(prompt.ids, output)
        match = self._tree.match(prompt.ids)
        alignment, repeated = self._comparer.compare(self._tree, match, turn, prompt, sequence)
        self._tree.insert(sequence, 0, match)
        gone = tuple(self._gone)
        self._gone.clear()
        if alignment is None:
            return SentComparison(None, 0, repeated, gone)
        donor = alignment.donor
        named = alignment.donor_ids.tobytes() if donor is None else donor.order
        return SentComparison(tuple(tuple(gap) for gap in alignment.gaps), named, repeated, gone)

    def state(self) -> bytes:
        """Return all that is kept, requests by their order."""
        file = io.BytesIO()
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump((self._comparer.donors, self._comparer.lines))
        return file.getvalue()


class ReceivedComparisons:
    """The receiving side, until it gets the other one's state and compares by itself.

    It has the same requests in the same order, and receives the report of each before it asks.
    """

    def __init__(self, newline: Newline | None) -> None:
        self._newline = newline
        self._seen: dict[int, EarlierPrompt] = {}
        self._order = 0
        self._comparer: Comparer | None = None
        self.coming: SentComparison | None = None
        """The report of the next request."""

    def compare(self, tree: RadixTree, match: Match, turn: Turn, prompt: Prompt, sequence: Ids) -> Compared:
        """Compare as `Comparer.compare` does."""
        if self._comparer is not None:
            return self._comparer.compare(tree, match, turn, prompt, sequence)
        told, self.coming = self.coming, None
        assert told is not None, "both sides have the same requests"
        alignment = None
        if told.gaps is not None:
            gaps = tuple(Gap(*gap) for gap in told.gaps)
            if isinstance(told.donor, bytes):
                alignment = DonorAlignment(match.length, gaps, np.frombuffer(told.donor, np.int32))
            else:
                donor = self._seen[told.donor]
                alignment = DonorAlignment(match.length, gaps, donor.ids, donor)
        self._order += 1
        self._seen[self._order] = EarlierPrompt(turn, prompt, sequence, self._order)
        for order in told.gone:
            del self._seen[order]
        return Compared(alignment, told.repeated)

    def examples(self) -> Iterator[Prompt]:
        """Return examples as `Comparer` does; while the other side has the order of use, the oldest first."""
        if self._comparer is not None:
            return self._comparer.examples()
        return (seen.prompt for seen in self._seen.values())

    def take_over(self, state: bytes) -> None:
        """Go on from the other side's state."""
        comparer = Comparer(self._newline)
        comparer.donors, comparer.lines = _Unpickler(io.BytesIO(state), self._seen).load()
        assert isinstance(comparer.donors, Donors)
        assert isinstance(comparer.lines, LineSet)
        comparer.donors.gone = None
        self._comparer, self._seen = comparer, {}


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> int | None:
        """Return requests stay where they are."""
        return obj.order if type(obj) is EarlierPrompt else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, seen: dict[int, EarlierPrompt]) -> None:
        super().__init__(file)  # written by a process that this one has forked
        self._seen = seen

    def persistent_load(self, pid: Any) -> EarlierPrompt:
        """Return the same request, as it came here."""
        return self._seen[pid]
