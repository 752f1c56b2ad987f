"""Kept requests whose prompts are made by two processes: each run that tries fixes changes, renders and tokenizes all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from operator import attrgetter
from struct import Struct
from typing import Any, BinaryIO, Protocol

import numpy as np

from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.ahead.child import Child, second_process
from kvtool.workload.drive import rewritten
from kvtool.workload.jobs import JobMaker, Prepared, TokensTurn
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.turn import Conversation, Recorded, Turn

WORTH_IT = 1_000
"""Requests from which on a second process pays: it takes some hundredths of a second to begin, and each of them ten thousandths."""
_ACCOUNTED = 0.25  # cost of accounting for a request, where making its tokens takes 1
_WHOLE = 3.0
"""What it takes to account for a request, and to make it whole and find what it lost, where making its tokens takes 1."""
_SIZES = Struct("<ii")
_NOT_MADE = b"\0"
_MADE = b"\1"
_IN_TEXT = ("messages", "text", "tools", "extra")
_all = attrgetter(*(field.name for field in fields(Turn)))
_beside_text = attrgetter(*(field.name for field in fields(Turn) if field.name not in _IN_TEXT))


class Memo(Protocol):
    """Facts on texts that changes remember from one run to the next, so that a process can tell another one what it has learned."""

    def __len__(self) -> int: ...

    def since(self, count: int) -> list[tuple[int, Any]]:
        """Return the facts learned after so many."""
        ...

    def learn(self, found: list[tuple[int, Any]]) -> None:
        """Add the facts that the memo of another process has learned."""
        ...


class Changes(Protocol):
    """Changes every turn, each by itself unless `in_order`: then what is done to one hangs on those before it."""

    @property
    def in_order(self) -> bool: ...

    @property
    def memos(self) -> Sequence[Memo]: ...

    def __call__(self, turn: Turn, /) -> Turn: ...


@contextmanager
def divided(
    kept: KeptRequests, changes: Changes, maker: JobMaker, *, jobs: int | None, whole: Sequence[bool]
) -> Iterator[Iterator[Conversation]]:
    """Yield the kept requests, changed; where `jobs` allows it or it pays (None), some of them as `TokensTurn` from another
    process.

    All come in their order, and what `maker` makes of them is the same. `whole` says of each whether it is likely to be needed with
    its texts: those are made here.
    """
    division: _Division | None = None
    if not changes.in_order and second_process(jobs, pays=len(kept) >= WORTH_IT):
        away = _away(whole)
        if any(away):
            try:
                division = _Division(kept.turns, changes, maker, away)
            except OSError:  # there is no room for another process
                division = None
    if division is None:
        yield rewritten(kept.conversations(), changes)
        return
    try:
        yield division.conversations()
    finally:
        division.close()


def _away(whole: Sequence[bool]) -> list[bool]:
    """Return which requests the other process makes, so that both have as much to do; evenly spread."""
    count, here = len(whole), sum(whole)
    share = (count * (1 + _ACCOUNTED) - here + here * _WHOLE) / 2 / max(count - here, 1)
    chosen: list[bool] = []
    due = 0.0
    for needed in whole:
        due += 0.0 if needed else min(share, 1.0)
        chosen.append(not needed and due >= 1)
        due -= chosen[-1]
    return chosen


class _Division:
    """Both sides of the pipe: what begins with `_write` is the child's, all else the parent's."""

    def __init__(self, turns: Sequence[Turn], changes: Changes, maker: JobMaker, away: Sequence[bool]) -> None:
        self._turns = turns
        self._away = away
        self._changes = changes
        self._maker = maker
        self._known = [len(memo) for memo in changes.memos]
        self._gone = False
        self._child = Child(self._write)

    def close(self) -> None:
        """End the other process."""
        self._child.close()

    def conversations(self) -> Iterator[Conversation]:
        """Yield each request by itself."""
        for turn, away in zip(self._turns, self._away, strict=True):
            made = self._made_there(turn) if away and not self._gone else None
            yield Recorded(iter((self._changes(turn) if made is None else made,)))
        if not self._gone:
            self._learn(self._child.stream.read())

    def _learn(self, said: bytes) -> None:
        """Add what the child's memos have and ours have not; it may have been ended in between."""
        with suppress(EOFError, pickle.UnpicklingError):
            for memo, found in zip(self._changes.memos, pickle.loads(said), strict=True):  # noqa: S301 - our copy wrote it
                memo.learn(found)

    def _made_there(self, turn: Turn) -> TokensTurn | None:
        """Return a request as the child made it; None: it is to be made here."""
        try:
            if self._exactly(1) != _MADE:
                return None
            ids, output = map(self._exactly, _SIZES.unpack(self._exactly(_SIZES.size)))
        except EOFError:  # the child was ended: all that is left is made here
            self._gone = True
            return None
        prompt = Prompt(np.frombuffer(ids, np.int32))
        made = TokensTurn(*_all(turn))
        made.prepared = Prepared(prompt, turn.output_text or "", np.frombuffer(output, np.int64).tolist())
        made.again = partial(self._changes, turn)
        return made

    def _exactly(self, size: int) -> bytes:
        data = self._child.stream.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _write(self, stream: BinaryIO) -> None:
        for turn, away in zip(self._turns, self._away, strict=True):
            if away:
                stream.write(self._made_here(turn))
        memos = zip(self._changes.memos, self._known, strict=True)
        stream.write(pickle.dumps([memo.since(count) for memo, count in memos]))

    def _made_here(self, turn: Turn) -> bytes:
        """Return the tokens of a request and of its answer; `_NOT_MADE` where more of it has changed, or something is wrong with
        it."""
        try:
            changed = self._changes(turn)
            if _beside_text(changed) != _beside_text(turn):
                return _NOT_MADE
            made = self._maker.prepare(changed)
        except Exception:  # of whatever kind: the parent comes to the same
            return _NOT_MADE
        if made.answer != (turn.output_text or ""):
            return _NOT_MADE
        ids, output = (
            made.prompt.ids.astype(np.int32, copy=False).tobytes(),
            np.asarray(made.output, np.int64).tobytes(),
        )
        return b"".join((_MADE, _SIZES.pack(len(ids), len(output)), ids, output))
