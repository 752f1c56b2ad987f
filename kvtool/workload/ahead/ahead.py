"""Conversations of a log whose turns are read, rendered and tokenized by a second process, in their order."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.text.tokens.prompt import Offsets, Prompt
from kvtool.text.traced import Mark, Origin, Traced
from kvtool.workload.ahead.child import Child, second_process, sendable
from kvtool.workload.call import NO_CALL, CacheScope, Call, CallSettings, Usage
from kvtool.workload.drive import NO_ANSWER
from kvtool.workload.jobs import JobMaker, Prepared, PreparedTurn
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.placed_turns import Growing
from kvtool.workload.turn import Conversation, Recorded, Source, Turn

_TURN_FIELDS = tuple(field.name for field in fields(Turn))
_ORIGIN_FIELDS = tuple(field.name for field in fields(Origin) if field.init)
_CALL_FIELDS: dict[type, tuple[str, ...]] = {
    each: tuple(field.name for field in fields(each)) for each in (Call, Usage, CacheScope, CallSettings)
}
_PROTOCOL = 5
_NONE = -1
Taken = TypeVar("Taken")
WORTH_IT = 4_000_000
"""Bytes of a log from which on a second process pays: what it takes to begin is then a few hundredths."""
_RECORDED, _TURN, _OVER, _GROWING, _FAILED, _DONE, _STATE = range(7)
"""What comes next: a conversation of turns that are known, one of them, its end, a conversation that needs answers, an error,
the end of all, and what was found out so far: from here on nothing is."""


class TurnWriter:
    """Writes values and turns to a stream. What several turns of a conversation share is written once.

    The other side must know when a conversation begins: both then forget what was shared.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.begin()

    def begin(self) -> None:
        """Begin another conversation: nothing is shared with those before."""
        self._pickler = _Pickler(self._file, _PROTOCOL)

    def value(self, value: object) -> None:
        """Write anything that pickle takes, also turns that were not prepared."""
        self._pickler.dump(value)

    def turn(self, turn: Turn, prepared: Prepared | MessageRefusedError | None) -> None:
        """Write a turn and its prepared form; None: there is none yet."""
        said = tuple(getattr(turn, name) for name in _TURN_FIELDS)
        if not isinstance(prepared, Prepared):
            self.value((said, prepared, None, False))
            return
        prompt = prepared.prompt
        text = prompt.text
        origins = () if text is None else tuple(mark.origin for mark in text.marks)
        self.value((said, origins, prepared.answer, text is not None))
        self._array(prompt.ids)
        self._array(np.asarray(prepared.output, np.int64))
        if text is None:
            return
        self._bytes(str.encode(text, errors="surrogatepass"))
        for numbers in (
            [mark.length for mark in text.marks],
            [mark.offset for mark in text.marks],
            prompt.char_starts,
            prompt.token_starts,
        ):
            self._array(None if numbers is None else array("q", numbers))

    def _array(self, numbers: npt.NDArray[np.integer[Any]] | array[int] | None) -> None:
        """Write an array without pickle, which would keep it in memory for the rest of the conversation."""
        if numbers is None:
            self._bytes(None)
            return
        self._bytes(numbers.tobytes())

    def _bytes(self, data: bytes | None) -> None:
        self._file.write((_NONE if data is None else len(data)).to_bytes(8, "little", signed=True))
        self._file.write(data or b"")


class TurnReader:
    """Reads what a TurnWriter has written. EOFError or pickle.UnpicklingError where the stream ends in the middle."""

    def __init__(self, file: BinaryIO, offsets: Offsets) -> None:
        self._file = file
        # Of what has neither `peek` nor `readinto`, an unpickler reads no further than it has to.
        self._exact = SimpleNamespace(read=file.read, readline=file.readline)
        self._offsets = offsets
        self.begin()

    def begin(self) -> None:
        """Begin another conversation."""
        self._unpickler = pickle.Unpickler(self._exact)  # noqa: S301 - written by a process that this one has forked

    def value(self) -> Any:
        """Return the next value."""
        return self._unpickler.load()

    def turn(self) -> PreparedTurn:
        """Return the next turn."""
        said, origins, answer, has_text = self.value()
        turn = PreparedTurn(*said)
        if not isinstance(origins, tuple):
            turn.prepared = origins
            return turn
        ids = np.frombuffer(self._bytes() or b"", np.int32)
        output = np.frombuffer(self._bytes() or b"", np.int64).tolist()
        prompt = Prompt(ids)
        if has_text:
            plain = (self._bytes() or b"").decode(errors="surrogatepass")
            lengths, offsets = self._numbers() or (), self._numbers() or ()
            text = Traced(plain, map(Mark, lengths, origins, offsets))
            prompt = Prompt(ids, text, self._numbers(), self._numbers(), self._offsets)
        turn.prepared = Prepared(prompt, answer, output)
        return turn

    def _numbers(self) -> array[int] | None:
        data = self._bytes()
        if data is None:
            return None
        numbers = array("q")
        numbers.frombytes(data)
        return numbers

    def _bytes(self) -> bytes | None:
        size = int.from_bytes(self._exactly(8), "little", signed=True)
        return None if size == _NONE else self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError
        return data


class _Pickler(pickle.Pickler):
    """Writes texts with origins, and origins, in few words: there are dozens in each turn."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to make an object again; NotImplemented: as pickle does."""
        if type(obj) is Traced:
            marks = obj.marks
            if len(marks) == 1 and (origin := marks[0].origin) is not None and origin.text == obj:
                return _whole, (origin,)
            plain = str.__getitem__(obj, slice(None))
            return _traced, (plain, *zip(*marks, strict=True)) if marks else (plain, (), (), ())
        if type(obj) is Origin:
            return Origin, tuple(getattr(obj, name) for name in _ORIGIN_FIELDS)
        if obj is NO_CALL:
            return _no_call, ()
        if (names := _CALL_FIELDS.get(type(obj))) is not None:
            return type(obj), tuple(getattr(obj, name) for name in names)
        return NotImplemented


def _no_call() -> Call:
    """Return the one that says nothing."""
    return NO_CALL


def _whole(origin: Origin) -> Traced:
    """Return the whole text of an origin."""
    return Traced.of(origin.text, origin)


def _traced(text: str, lengths: Sequence[int], origins: Sequence[Origin | None], offsets: Sequence[int]) -> Traced:
    return Traced(text, map(Mark, lengths, origins, offsets))


class Finds(Protocol):
    """Findings that the other process makes of each turn, where it gets all turns; it has a copy of this object."""

    def begun(self) -> None:
        """Begin the other process; runs in this one."""
        ...

    def told(self, turn: Turn, made: Prepared) -> object:
        """Return what is found out of a turn, in the other process; which it will have as `found`."""
        ...

    def state(self) -> bytes:
        """Return all findings, in the other process, for this one to go on."""
        ...

    def take_over(self, state: bytes) -> None:
        """Go on from the findings, in this process."""
        ...


@contextmanager
def read_ahead(
    source: Source, maker: JobMaker, *, jobs: int | None, finds: Finds | None = None
) -> Iterator[Iterator[Conversation]]:
    """Yield the source's conversations; by a second process where that can be and `jobs` allows it, or where it pays (None).

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
        """Yield the conversations as the child reads them."""
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
        """Return the next turn of the conversation; None: there is no other."""
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
        """Return the kind of what comes next. Raise the error of the other process."""
        if self._kind is None:
            with self._living():
                self._kind = self._child.stream.read(1)[0]
            if self._kind == _FAILED:
                self._source.follow(self._taken(self._reader.value))
                raise self._taken(self._reader.value)
        return self._kind

    def _taken(self, read: Callable[[], Taken]) -> Taken:
        """Return the value of the kind that came last."""
        self._kind = None
        with self._living():
            return read()

    @contextmanager
    def _living(self) -> Iterator[None]:
        """Guard reading: raise KvtoolError where the child has ended before its end."""
        try:
            yield
        except (EOFError, IndexError, pickle.UnpicklingError):
            code = self._child.wait()
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise KvtoolError(
                f"the process that reads the log ended {how}",
                hint="it may have run out of memory; --jobs 1 uses no other process",
            ) from None

    def _write(self, stream: BinaryIO) -> None:
        """Write all of the log, and what is wrong with it."""
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
        """Write the findings, and end them."""
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
