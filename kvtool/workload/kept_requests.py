"""Requests of a log, kept as they were read: runs that try something else need not read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.workload.turn import Conversation, Recorded, Turn

MOST_BYTES = 128 << 20
_EACH = 1_000
"""Bytes that a request takes beside its texts, and"""
_HOLDER = 300
"""those of a list or an object in it, with the names and the small values that it holds."""
_TEXT = 200
"""The same of a text that knows where it was written."""


class KeptRequests:
    """Takes the requests of a log in their order; gives the same ones again, as a source.

    Those that belong to sessions are not kept, nor are logs that take more than `MOST_BYTES`: `complete` is False then.
    """

    def __init__(self) -> None:
        self.complete = True
        self._turns: list[Turn] = []
        self._left = MOST_BYTES

    def add(self, turn: Turn, _chain: Chain | None = None) -> None:
        """The next request."""
        if not self.complete:
            return
        written = turn.text is not None or turn.messages is not None
        self._left -= _EACH + sum(
            map(_size, (turn.text, turn.messages, turn.tools, turn.output_text, turn.extra, turn.fields or None))
        )
        if not written or turn.session is not None or turn.index or turn.output_ids is not None or self._left < 0:
            self.complete = False
            self._turns.clear()
            return
        # What a process that read ahead made of it is for one run.
        self._turns.append(turn if type(turn) is Turn else turn.with_text(turn.text))

    def conversations(self) -> Iterator[Conversation]:
        """Each request by itself."""
        return (Recorded(iter((turn,))) for turn in self._turns)

    @property
    def turns(self) -> Sequence[Turn]:
        """The requests, in their order."""
        return self._turns

    def part(self, choose: Callable[[Turn], bool]) -> KeptRequests:
        """Those of the requests that are chosen, in their order."""
        part = KeptRequests()
        part._turns = [turn for turn in self._turns if choose(turn)]
        return part

    def __len__(self) -> int:
        return len(self._turns)


def _size(value: object) -> int:
    """About how many bytes a part of a request takes."""
    size, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            size += len(one) + _TEXT
        elif isinstance(one, dict):
            size += _HOLDER
            left += one.values()
        elif isinstance(one, list):
            size += _HOLDER
            left += one
    return size
