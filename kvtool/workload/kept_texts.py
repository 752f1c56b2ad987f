"""Requests of a log that are one text each, kept as they were read: runs that try something else need not read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvtool.engine.chain_numbers import Chain
from kvtool.workload.turn import Conversation, Recorded, Turn

MOST_BYTES = 64 << 20
_EACH = 1_000
"""Bytes that a request takes beside its text."""


class KeptTexts:
    """Takes the requests of a log in their order; gives the same ones again, as a source.

    Requests with messages, and those that belong to sessions, are not kept, nor are logs that take more than `MOST_BYTES`:
    `complete` is False then.
    """

    def __init__(self) -> None:
        self.complete = True
        self._turns: list[Turn] = []
        self._left = MOST_BYTES

    def add(self, turn: Turn, _chain: Chain | None = None) -> None:
        """The next request."""
        if not self.complete:
            return
        alone = turn.text is not None and turn.session is None and not turn.index and turn.output_text is None
        self._left -= len(turn.text or "") + _EACH
        if not alone or turn.output_ids is not None or self._left < 0:
            self.complete = False
            self._turns.clear()
            return
        # What a process that read ahead made of it is for one run.
        self._turns.append(turn if type(turn) is Turn or turn.text is None else turn.with_text(turn.text))

    def conversations(self) -> Iterator[Conversation]:
        """Each request by itself."""
        return (Recorded(iter((turn,))) for turn in self._turns)

    def part(self, choose: Callable[[Turn], bool]) -> KeptTexts:
        """Those of the requests that are chosen, in their order."""
        part = KeptTexts()
        part._turns = [turn for turn in self._turns if choose(turn)]
        return part

    def __len__(self) -> int:
        return len(self._turns)
