"""Records of a file in another order than its own: read where they stand, or from a copy where that cannot be."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import orjson

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.survey import Order, RecordPlaces

_BOM = b"\xef\xbb\xbf"
_KEPT = 64
"""Records with several calls that are kept, as the next one may be of them, too."""

T = TypeVar("T")


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
        """A record as it was read the first time. KvtoolError where the file has changed since."""
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
        """Which record of its line it is, from 1."""
        return self._places.nth(number)


class RecordsInOrder(Generic[T]):
    """The calls of a file in the order of time; what was made of records is kept as long as more of it may be wanted soon."""

    def __init__(self, any_record: AnyRecord, order: Order) -> None:
        self.order = order
        self._any_record = any_record
        self._kept: OrderedDict[int, list[T]] = OrderedDict()
        self._told: set[int] = set()

    def records(self) -> Iterator[tuple[int, int | None]]:
        """Of each call the number of its record, from 0, and its own in that; None for a record that has none."""
        return iter(self.order)

    def raw(self, number: int) -> tuple[RawRecord, int]:
        """A record, and which one of its line it is."""
        return self._any_record.raw(number), self._any_record.nth(number)

    def kept(self, number: int) -> list[T] | None:
        """What was made of a record, if it is still there."""
        return self._kept.get(number)

    def keep(self, number: int, made: list[T]) -> None:
        """Keep what was made of a record with several calls."""
        if len(made) > 1:
            self._kept[number] = made
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def is_new(self, number: int, calls: int) -> bool:
        """Whether a record is met for the first time; those with one call or none are met once."""
        if calls < 2:
            return True
        new = number not in self._told
        self._told.add(number)
        return new


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 # a Path would be one more thing that must still work at exit
