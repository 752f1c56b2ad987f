"""Compare requests of a log in the process that reads them: finding their losses takes the other process longest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.ledger.received_comparisons import ComparedHere, ReceivedComparisons, SentComparison
from kvtool.workload.jobs import Prepared, PreparedTurn
from kvtool.workload.turn import Turn


class ComparedAhead:
    """Settings of `read_ahead`, on both sides: the other process gets a copy."""

    def __init__(self, ledger: Ledger, takes: Callable[[Turn, Prepared], bool]) -> None:
        """Create the settings. `takes` returns whether the pass will enter a request in the ledger, which then asks for each of
        these in turn."""
        self._ledger = ledger
        self._takes = takes
        self._here: ComparedHere | None = None
        self._receiver: ReceivedComparisons | None = None

    def begun(self) -> None:
        """Note that there is another process: from now on its reports go to the ledger."""
        self._receiver = self._ledger.comparer = ReceivedComparisons(self._ledger.newline)

    def told(self, turn: Turn, made: Prepared) -> SentComparison | None:
        """Return the comparison of the next request, in the other process; None: the ledger will not ask."""
        if not self._takes(turn, made):
            return None
        return self._compares.told(turn, made.prompt, np.asarray(made.output[:-1], np.int32))

    def state(self) -> bytes:
        """Return the state from which the other process continues."""
        return self._compares.state()

    @property
    def _compares(self) -> ComparedHere:
        if self._here is None:
            self._here = ComparedHere(self._ledger.newline, self._ledger.kept_for)
        return self._here

    def take_over(self, state: bytes) -> None:
        """Note that the other process compares no more."""
        assert self._receiver is not None
        self._receiver.take_over(state)

    def comes(self, turn: Turn) -> None:
        """Note that a request is about to be entered."""
        if self._receiver is not None and isinstance(turn, PreparedTurn) and isinstance(turn.found, SentComparison):
            self._receiver.coming, turn.found = turn.found, None
