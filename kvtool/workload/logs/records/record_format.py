"""What a record format is: how its records look, and what makes requests of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, Unit
from kvtool.workload.logs.records.record_readings import Reading

Fields = dict[str, Any]


class FileState(Protocol):
    """What a format knows of a file while its records come one after another, always in the order of the file."""

    def read(self, record: Record) -> Reading: ...
    def end(self) -> Reading:
        """What is still to be told behind the last record."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A shape of records. The first format in the list of known ones whose `fits` returns true reads the record.

    `reader` makes requests of a record. With `unit` a record is one request with a time of its own, in this unit where the number
    is small; None: only reading it finds its requests. `keys` gives the ids by which other records may ask for it. With `state`,
    `reader` makes a FileState for a file from the Where of its first record. `example` is for the docs: JSON values, in a file
    whose name ends in `ending`.
    """

    name: str
    shape: str
    fits: Callable[[Fields], bool]
    reader: Callable[..., Any]
    unit: Unit | None = None
    keys: Callable[[Record], Sequence[Key]] | None = None
    state: bool = False
    example: str = ""
    ending: str = ".jsonl"

    def read(self, record: Record, states: dict[str, FileState]) -> Reading:
        """Return what a record of this format contains."""
        if not self.state:
            reading: Reading = self.reader(record)
            return reading
        if self.name not in states:
            states[self.name] = self.reader(record.where)
        return states[self.name].read(record)

    def keys_of(self, record: Record) -> Sequence[Key]:
        """Return the ids by which other records may ask for one."""
        return () if self.keys is None else self.keys(record)
