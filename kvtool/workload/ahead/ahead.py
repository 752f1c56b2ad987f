"""Conversations of a log whose turns are read, rendered and tokenized by a second process, in their order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, TypeVar

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.workload.ahead.child import Child, second_process
from kvtool.workload.ahead.sent_error import sendable
from kvtool.workload.ahead.wire import TurnReader, TurnWriter
from kvtool.workload.drive import NO_ANSWER
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import Growing, LogSource
from kvtool.workload.prepared import Prepared
from kvtool.workload.turn import Conversation, Recorded, Source, Turn

Taken = TypeVar("Taken")

WORTH_IT = 4_000_000
"""Bytes of a log from which on a second process pays: what it takes to begin is then a few hundredths."""

_RECORDED, _TURN, _OVER, _GROWING, _FAILED, _DONE, _STATE = range(7)
"""What comes next: a conversation of turns that are known, one of them, its end, a conversation that needs answers, an error,
the end of all, and what was found out so far: from here on nothing is."""


class Finds(Protocol):
    """What else the other process finds out of each turn, as long as it has all turns; it has a copy of this."""

    def begun(self) -> None:
        """Here: there is another process."""
        ...

    def told(self, turn: Turn, made: Prepared) -> object:
        """There: what is found out of a turn, which it will have as `found`."""
        ...

    def state(self) -> bytes:
        """There: all of it, for this process to go on."""
        ...

    def take_over(self, state: bytes) -> None:
        """Here: go on from it."""
        ...


@contextmanager
def read_ahead(
    source: Source, maker: JobMaker, *, jobs: int | None, finds: Finds | None = None
) -> Iterator[Iterator[Conversation]]:
    """The source's conversations; by a second process where that can be and `jobs` allows it, or where it pays (None).

    The turns are the same, one by one; those of `PreparedTurn` bring along what `maker` would make of them. They are made in the
    order of the log, so each conversation is to be finished before the next one is asked for. Raises what reading and
    making raise, at the same turn. `finds` is asked there, where another process reads.
    """
    if not isinstance(source, LogSource) or not _wanted(source, jobs) or not _opened(source, maker):
        yield source.conversations()
        return
    try:
        ahead = _Ahead(source, maker, finds)
    except OSError:  # there is no room for another process
        yield source.conversations()
        return
    try:
        yield ahead.conversations()
    finally:
        ahead.close()


def _wanted(source: LogSource, jobs: int | None) -> bool:
    size = source.bytes_to_read()
    return size is not None and second_process(jobs, pays=size >= WORTH_IT)


def _opened(source: LogSource, maker: JobMaker) -> bool:
    """Load what the first turn needs, which both processes then have. False: the log does not begin with a prompt."""
    try:
        first = next(source.conversations(), None)
        turn = None if first is None else first.next_turn(None)
    except KvtoolError:
        return False  # whoever takes it from the log gets the error
    if turn is None or turn.hashed is not None:
        return False
    _ = maker.renderer.tokenizer
    if turn.messages is not None:
        _ = maker.renderer.chat_template
    return True


class _Ahead:
    """Both sides of the pipe: what begins with `_write` is the child's, all else the parent's."""

    def __init__(self, source: LogSource, maker: JobMaker, finds: Finds | None) -> None:
        self._source = source
        self._finds = finds
        self._maker = maker
        self._child = Child(self._write)
        self._reader = TurnReader(self._child.stream, lambda piece, ids: maker.renderer.tokenizer.offsets(piece, ids))
        if finds is not None:
            finds.begun()
        self._kind: int | None = None
        """What comes next, where that is known already."""

    def close(self) -> None:
        """End the other process."""
        self._child.close()

    def conversations(self) -> Iterator[Conversation]:
        """As the child reads them."""
        while (kind := self._upcoming()) != _DONE:
            if kind in (_TURN, _OVER):  # of a conversation that was given up, or is over
                self._turn()
                continue
            if kind == _STATE:
                self._take_over(self._taken(self._reader.value))
                continue
            self._reader.begin()
            self._source.follow(self._taken(self._reader.value))
            if kind == _RECORDED:
                yield Recorded(iter(self._turn, None))
            else:
                yield Growing(iter(self._taken(self._reader.value)))
        self._source.follow(self._taken(self._reader.value))
        self._child.wait()

    def _turn(self) -> Turn | None:
        """The next turn of the conversation; None: there is no other."""
        if self._upcoming() != _TURN:
            self._kind = None
            return None
        turn = self._taken(self._reader.turn)
        if self._finds is not None:
            with self._living():
                turn.found = self._reader.value()
        if turn.messages is not None:
            _ = self._maker.renderer.chat_template  # reports name what a run has used
        return turn

    def _take_over(self, state: bytes) -> None:
        assert self._finds is not None
        self._finds.take_over(state)
        self._finds = None

    def _upcoming(self) -> int:
        """What comes next. Raises what went wrong there."""
        if self._kind is None:
            with self._living():
                self._kind = self._child.stream.read(1)[0]
            if self._kind == _FAILED:
                self._source.follow(self._taken(self._reader.value))
                raise self._taken(self._reader.value)
        return self._kind

    def _taken(self, read: Callable[[], Taken]) -> Taken:
        """What belongs to the kind that came last."""
        self._kind = None
        with self._living():
            return read()

    @contextmanager
    def _living(self) -> Iterator[None]:
        """Around reading: KvtoolError where the child has ended before its end."""
        try:
            yield
        except (EOFError, IndexError, pickle.UnpicklingError):
            code = self._child.wait()
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise KvtoolError(
                f"the process that reads the log was ended {how}",
                hint="it may have needed more memory than there is; --jobs 1 reads it without another process",
            ) from None

    def _write(self, stream: BinaryIO) -> None:
        """All of the log, and what is wrong with it."""
        writer = TurnWriter(stream)
        try:
            for conversation in self._source.conversations():
                growing = isinstance(conversation, Growing)
                if growing:  # its turns are not known here
                    self._write_state(stream, writer)
                stream.write(bytes((_GROWING if growing else _RECORDED,)))
                writer.begin()
                writer.value(self._source.progress())
                if isinstance(conversation, Growing):
                    writer.value(conversation.rest())
                else:
                    self._write_turns(conversation, stream, writer)
            self._write_state(stream, writer)
            stream.write(bytes((_DONE,)))
            writer.value(self._source.progress(at_end=True))
        except BrokenPipeError:
            raise
        except Exception as error:  # of whatever kind: the parent raises it
            stream.write(bytes((_FAILED,)))
            writer.value(self._source.progress(at_end=True))
            writer.value(sendable(error))

    def _write_state(self, stream: BinaryIO, writer: TurnWriter) -> None:
        """What was found out, and no more of it."""
        if self._finds is not None:
            stream.write(bytes((_STATE,)))
            writer.value(self._finds.state())
            self._finds = None

    def _write_turns(self, conversation: Conversation, stream: BinaryIO, writer: TurnWriter) -> None:
        while (turn := conversation.next_turn(NO_ANSWER)) is not None:
            made: Prepared | MessageRefusedError | None = None
            if turn.hashed is None:
                try:
                    made = self._maker.prepare(turn)
                except MessageRefusedError as error:
                    made = error
            stream.write(bytes((_TURN,)))
            writer.turn(turn, made)
            if self._finds is not None:
                writer.value(self._finds.told(turn, made) if isinstance(made, Prepared) else None)
        stream.write(bytes((_OVER,)))
