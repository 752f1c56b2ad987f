"""Requests of a log and of a trace, kept as they were read: later runs need not read them again."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from math import isnan

from kvtool.engine.blocks.chain_numbers import Chain, number_runs
from kvtool.workload.call import NO_CALL, Call
from kvtool.workload.turn import Conversation, HashedPrompt, Recorded, Turn

MOST_TRACE_BYTES = 64 << 20  # memory that a trace may take
_CALL_BYTES = 500  # of a call that differs from others, about
_NO_ARRIVAL = float("nan")
MOST_BYTES = 128 << 20  # memory for a log, by the estimates below
_EACH = 1_000
"""Bytes that a request takes beside its texts, and"""
_HOLDER = 300
"""those of a list or an object in it, with the names and the small values that it holds."""
_TEXT = 200
"""The same of a text that knows where it was written."""


class KeptTrace:
    """Takes the requests of a trace in their order; gives them again, as a source, with numbers in place of ids.

    Requests that belong to sessions, have salts or name the blocks of their answers are not kept, nor are traces that take more
    than `MOST_TRACE_BYTES`: `complete` is False then.
    """

    def __init__(self) -> None:
        self.complete = True
        self._groups: list[str] = []
        self._group_numbers: dict[str, int] = {}
        self._sizes = array("i")
        """By request: group, tokens of a block, of the prompt, of the answer (-1: not said), and runs."""
        self._arrivals = array("d")
        self._calls: list[Call] = []
        self._call_numbers: dict[Call, int] = {NO_CALL: -1}
        """Most requests of a trace say nothing of their calls, or all the same."""
        self._call_of = array("i")
        self._runs = array("i")
        """First number and count of each run."""

    def add(self, turn: Turn, chain: Chain | None) -> None:
        """Add the next request."""
        hashed = turn.hashed
        if not self.complete:
            return
        apart = turn.session is not None or bool(turn.salt)
        if hashed is None or chain is None or hashed.answer or apart or self._bytes() > MOST_TRACE_BYTES:
            self.complete = False
            del self._sizes[:], self._arrivals[:], self._runs[:], self._calls[:], self._call_of[:]
            self._call_numbers.clear()
            return
        group = self._group_numbers.get(turn.group)
        if group is None:
            group = self._group_numbers[turn.group] = len(self._groups)
            self._groups.append(turn.group)
        before = len(self._runs)
        self._runs.extend(number_runs(chain.numbers))
        answer = -1 if turn.output_tokens is None else turn.output_tokens
        runs = (len(self._runs) - before) // 2
        self._sizes.extend((group, hashed.block_size, hashed.num_tokens, answer, runs))
        call = self._call_numbers.get(turn.call)
        if call is None:
            call = self._call_numbers[turn.call] = len(self._calls)
            self._calls.append(turn.call)
        self._call_of.append(call)
        self._arrivals.append(_NO_ARRIVAL if turn.arrival is None else turn.arrival)

    def _bytes(self) -> int:
        return 4 * (len(self._sizes) + len(self._runs)) + 12 * len(self._arrivals) + _CALL_BYTES * len(self._calls)

    def conversations(self) -> Iterator[Conversation]:
        """Yield each request by itself."""
        sizes, runs = iter(self._sizes), iter(self._runs)
        for arrival, call, (group, size, tokens, answer, count) in zip(
            self._arrivals, self._call_of, zip(*[sizes] * 5, strict=True), strict=True
        ):
            numbers = array("i")
            for _ in range(count):
                first = next(runs)
                numbers.extend(range(first, first + next(runs)))
            prompt = HashedPrompt([], tokens, size, Chain(numbers, 0, numbers, 0))
            turn = Turn(
                self._groups[group],
                hashed=prompt,
                output_tokens=None if answer < 0 else answer,
                arrival=None if isnan(arrival) else arrival,
                call=NO_CALL if call < 0 else self._calls[call],
            )
            yield Recorded(iter((turn,)))


class KeptRequests:
    """Takes the requests of a log in their order; gives the same ones again, as a source.

    Those that belong to sessions are not kept, nor are logs that take more than `MOST_BYTES`: `complete` is False then.
    """

    def __init__(self) -> None:
        self.complete = True
        self._turns: list[Turn] = []
        self._left = MOST_BYTES

    def add(self, turn: Turn, _chain: Chain | None = None) -> None:
        """Add the next request."""
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
        """Yield each request by itself."""
        return (Recorded(iter((turn,))) for turn in self._turns)

    @property
    def turns(self) -> Sequence[Turn]:
        """Return the requests, in their order."""
        return self._turns

    def part(self, choose: Callable[[Turn], bool]) -> KeptRequests:
        """Return the requests that are chosen, in their order."""
        part = KeptRequests()
        part._turns = [turn for turn in self._turns if choose(turn)]
        return part

    def __len__(self) -> int:
        return len(self._turns)


def _size(value: object) -> int:
    """Estimate the bytes that a part of a request takes."""
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
