"""A first look through a log: when its calls were made and what they are called, so that it is read in the order of time, records
that belong together are joined, and no call counts twice. Times, places and hashes of ids are kept, and no text."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import orjson

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import RawRecord

_FIRST = float("-inf")
"""When a record without a call comes that is before all others; else it comes with the call before it."""
_NO_CALL = -1
_BOM = b"\xef\xbb\xbf"
_KEPT = 64
"""Records with several calls that are kept, as the next one may be of them, too."""
T = TypeVar("T")


@dataclass(slots=True)
class RecordPlaces:
    """Places of the records of a file, by their number from 0."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    columns: array[int] = field(default_factory=lambda: array("q"))
    around: dict[str, Any] | None = None
    """What is before the list of them, where they are elements of one."""

    def add(self, offset: int, size: int, line: int, column: int) -> None:
        self.offsets.append(offset)
        self.sizes.append(size)
        self.lines.append(line)
        self.columns.append(column)

    def nth(self, number: int) -> int:
        """Return the number of a record in its line, from 1."""
        first = number
        while first and self.lines[first - 1] == self.lines[number]:
            first -= 1
        return number - first + 1


@dataclass(slots=True)
class Order:
    """The calls of a file in the order of time: of each the number of its record and its own in that. For a record without any its
    place is kept by one that is no call (None)."""

    records: array[int]
    calls: array[int]
    late: int = 0
    """Calls that are earlier than one before them in a file that goes on in time otherwise."""
    line: int = 0
    """Of the first of them."""

    def __iter__(self) -> Iterator[tuple[int, int | None]]:
        for record, call in zip(self.records, self.calls, strict=True):
            yield record, None if call == _NO_CALL else call


class Survey:
    """Survey of one file."""

    def __init__(self) -> None:
        self.places = RecordPlaces()
        self.in_file_order = False
        """Whether the file must be read as it is written: what a record means depends on those before it."""
        self._times = array("d")
        self._records = array("q")
        self._calls = array("q")
        self._first: float | None = None
        self._untimed = False
        self._any = False

    def record(self, calls: Mapping[int, float | None]) -> None:
        """Add the next record, whose place was added, and when each of its calls was made, by what it is of all that the record
        holds; none where it has none or cannot be read."""
        number = len(self.places.offsets) - 1
        if not calls:
            self._add(self._times[-1] if self._times else _FIRST, number, _NO_CALL)
        for call, time in calls.items():
            if not self._any:
                self._first, self._any = time, True
            self._untimed = self._untimed or time is None
            self._add(nan if time is None else time, number, call)

    def timed(self, time: float) -> None:
        """Add a record with a single call."""
        if not self._any:
            self._first, self._any = time, True
        self._add(time, len(self.places.offsets) - 1, 0)

    def _add(self, time: float, record: int, call: int) -> None:
        self._times.append(time)
        self._records.append(record)
        self._calls.append(call)

    def first(self) -> float | None:
        """Return when the first call was made; None: that is not said, or there is none."""
        if self._untimed or self.in_file_order or not self._any:
            return self._first
        times = np.frombuffer(self._times)
        return float(times[np.isfinite(times)].min())

    def latest(self) -> tuple[float, int] | None:
        """Return when the last call was made that says so, and the line of its record; None where none does."""
        times = np.frombuffer(self._times) if self._times else np.empty(0)
        finite = np.isfinite(times)
        if not finite.any():
            return None
        at = int(np.argmax(np.where(finite, times, -np.inf)))
        return float(times[at]), self.places.lines[self._records[at]]

    @property
    def any(self) -> bool:
        """Return whether there is any call in it."""
        return self._any

    def lateness(self) -> float | None:
        """Return by how many seconds a call of a session's file can come after a later one; None where some do not say their time.

        Of other files the calls were not read whole, and may say a time of their own.
        """
        if not self._any or self._untimed or not self.in_file_order:
            return None
        times = np.frombuffer(self._times)[np.frombuffer(self._calls, np.int64) != _NO_CALL]
        return float((np.maximum.accumulate(times) - times).max()) if np.isfinite(times).all() else None

    def order(self) -> Order | None:
        """Return the order of time; None where it is that of the file, or some calls do not say theirs."""
        if self._untimed or self.in_file_order or not self._any:
            return None
        times = np.frombuffer(self._times)
        calls = times[np.isfinite(times)]
        if not (np.diff(calls) < 0).any():
            return None
        records, own = np.frombuffer(self._records, np.int64), np.frombuffer(self._calls, np.int64)
        late = line = 0
        if not (np.diff(calls) > 0).any():  # the newest first: what came at one time, too
            numbers = np.arange(len(times))[::-1]
            at = numbers[np.argsort(times[::-1], kind="stable")]
        else:
            at = np.argsort(times, kind="stable")
            back = np.flatnonzero((times < np.maximum.accumulate(times)) & (own != _NO_CALL))
            late, line = len(back), self.places.lines[records[back[0]]]
        return Order(array("q", records[at].tobytes()), array("q", own[at].tobytes()), late, line)


class AnyRecord:
    """The records of a file by their numbers from 0."""

    def __init__(
        self, path: str, file: str, places: RecordPlaces, records: Callable[[], Iterator[RawRecord]], *, direct: bool
    ) -> None:
        """`direct`: the places are those in the file itself; else `records` gives all of them for a copy."""
        self._path = path
        self._places = places
        self._offsets, self._sizes = places.offsets, places.sizes
        self._values: bytearray | None = None
        """Of a copy, whether a record is a value that is no JSON in the file."""
        self._file = file
        self._base = 0
        try:
            if direct:
                with Path(file).open("rb") as reader:
                    self._base = len(_BOM) if reader.read(len(_BOM)) == _BOM else 0
            else:
                self._copy(records())
        except OSError as error:
            raise KvtoolError(f"cannot read: {error.strerror or error}", place=Place(path)) from error

    def _copy(self, records: Iterator[RawRecord]) -> None:
        self._offsets, self._sizes, self._values = array("q"), array("q"), bytearray()
        with tempfile.NamedTemporaryFile(prefix="kvtool-", delete=False) as copy:
            weakref.finalize(self, _remove, copy.name)
            at = 0
            for raw in records:
                data = raw.data if raw.value is None else orjson.dumps(raw.value)
                self._offsets.append(at)
                self._sizes.append(len(data))
                self._values.append(raw.value is not None)
                copy.write(data)
                at += len(data)
        self._file = copy.name

    def raw(self, number: int) -> RawRecord:
        """Return a record as it was read the first time. KvtoolError where the file has changed since."""
        try:
            with Path(self._file).open("rb", buffering=0) as reader:
                reader.seek(self._base + self._offsets[number])
                data = reader.read(self._sizes[number])
        except OSError as error:
            raise KvtoolError(f"cannot read: {error.strerror or error}", place=Place(self._path)) from error
        line, column = self._places.lines[number], self._places.columns[number]
        value = orjson.loads(data) if self._values is not None and self._values[number] else None
        return RawRecord(data, line, column, True, None, 0, self._places.around, value)

    def nth(self, number: int) -> int:
        """Return the number of a record in its line, from 1."""
        return self._places.nth(number)


class RecordsInOrder(Generic[T]):
    """The calls of a file in the order of time; what was made of records is kept as long as more of it may be wanted soon."""

    def __init__(self, any_record: AnyRecord, order: Order) -> None:
        self.order = order
        self._any_record = any_record
        self._kept: OrderedDict[int, list[T]] = OrderedDict()
        self._told: set[int] = set()

    def records(self) -> Iterator[tuple[int, int | None]]:
        """Yield for each call the number of its record, from 0, and its own in that record; None for a record without calls."""
        return iter(self.order)

    def raw(self, number: int) -> tuple[RawRecord, int]:
        """Return a record, and which one of its line it is."""
        return self._any_record.raw(number), self._any_record.nth(number)

    def kept(self, number: int) -> list[T] | None:
        """Return what was made of a record, if it is still kept."""
        return self._kept.get(number)

    def keep(self, number: int, made: list[T]) -> None:
        """Keep what was made of a record with several calls."""
        if len(made) > 1:
            self._kept[number] = made
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def is_new(self, number: int, calls: int) -> bool:
        """Return whether a record is met for the first time; those with one call or none are met once."""
        if calls < 2:
            return True
        new = number not in self._told
        self._told.add(number)
        return new


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 # a Path would be one more thing that must still work at exit
