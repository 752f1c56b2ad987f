"""Turns and what was made of them, on their way from one process to the other: pickled, long arrays and texts as bytes."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kvtool.errors import MessageRefusedError
from kvtool.text.tokens.prompt import Offsets, Prompt
from kvtool.text.traced import Mark, Origin, Traced
from kvtool.workload.call import NO_CALL, CacheScope, Call, CallSettings, Usage
from kvtool.workload.prepared import Prepared, PreparedTurn
from kvtool.workload.turn import Turn

_TURN = tuple(field.name for field in fields(Turn))
_ORIGIN = tuple(field.name for field in fields(Origin) if field.init)
_CALLS: dict[type, tuple[str, ...]] = {
    each: tuple(field.name for field in fields(each)) for each in (Call, Usage, CacheScope, CallSettings)
}
_PROTOCOL = 5
_NONE = -1


class TurnWriter:
    """Writes values and turns to a stream. What several turns of a conversation share is written once.

    The other side must be told when a conversation begins: both then forget what was shared.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.begin()

    def begin(self) -> None:
        """Another conversation begins: nothing is shared with those before."""
        self._pickler = _Pickler(self._file, _PROTOCOL)

    def value(self, value: object) -> None:
        """Anything that pickle takes; turns that nothing was made of, too."""
        self._pickler.dump(value)

    def turn(self, turn: Turn, prepared: Prepared | MessageRefusedError | None) -> None:
        """A turn and what was made of it; None: nothing yet."""
        said = tuple(getattr(turn, name) for name in _TURN)
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
        """Not by way of pickle, which would keep it in memory for the rest of the conversation."""
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
        """Another conversation begins."""
        self._unpickler = pickle.Unpickler(self._exact)  # noqa: S301 - written by a process that this one has forked

    def value(self) -> Any:
        """The next value."""
        return self._unpickler.load()

    def turn(self) -> PreparedTurn:
        """The next turn."""
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
            lengths, offsets = self._numbers() or [], self._numbers() or []
            text = Traced(plain, map(Mark, lengths, origins, offsets))
            prompt = Prompt(ids, text, self._numbers(), self._numbers(), self._offsets)
        turn.prepared = Prepared(prompt, answer, output)
        return turn

    def _numbers(self) -> list[int] | None:
        data = self._bytes()
        if data is None:
            return None
        numbers = array("q")
        numbers.frombytes(data)
        return numbers.tolist()

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
        """How to make an object again; NotImplemented: as pickle would."""
        if type(obj) is Traced:
            marks = obj.marks
            if len(marks) == 1 and (origin := marks[0].origin) is not None and origin.text == obj:
                return _whole, (origin,)
            plain = str.__getitem__(obj, slice(None))
            return _traced, (plain, *zip(*marks, strict=True)) if marks else (plain, (), (), ())
        if type(obj) is Origin:
            return Origin, tuple(getattr(obj, name) for name in _ORIGIN)
        if obj is NO_CALL:
            return _no_call, ()
        if (names := _CALLS.get(type(obj))) is not None:
            return type(obj), tuple(getattr(obj, name) for name in names)
        return NotImplemented


def _no_call() -> Call:
    """The one that says nothing."""
    return NO_CALL


def _whole(origin: Origin) -> Traced:
    """The whole text of an origin."""
    return Traced.of(origin.text, origin)


def _traced(text: str, lengths: Sequence[int], origins: Sequence[Origin | None], offsets: Sequence[int]) -> Traced:
    return Traced(text, map(Mark, lengths, origins, offsets))
