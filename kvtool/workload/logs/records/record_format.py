"""What a record format is: how its records look, and what makes requests of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, Unit
from kvtool.workload.logs.records.record_readings import Reading

Fields = dict[str, Any]
Reader = Callable[[Record], Reading]


class FileState(Protocol):
    """What a format knows of a file while its records come one after another, always in the order of the file."""

    def read(self, record: Record) -> Reading: ...
    def end(self) -> Reading:
        """What is still to be told behind the last record."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A shape of records. The first format in the list whose `fits` says yes reads the record.

    `reader` is what makes requests of it; or, as `module.function` below `formats/`, what is imported when the first such record
    comes. `unit` says that a record is one request, whose time it says itself, in this unit where small numbers are meant; None:
    only reading it tells. `keys` gives the ids by which other records may ask for it. With `state`, `reader` makes a FileState for
    a file, told the Where of its first record.
    """

    name: str
    shape: str
    fits: Callable[[Fields], bool]
    reader: Callable[..., Any] | str
    unit: Unit | None = None
    keys: Callable[[Record], Sequence[Key]] | str | None = None
    state: bool = False

    def read(self, record: Record, states: dict[str, FileState]) -> Reading:
        """What a record of this format holds."""
        reader: Any = loaded(self.reader)
        if not self.state:
            reading: Reading = reader(record)
            return reading
        if self.name not in states:
            states[self.name] = reader(record.where)
        return states[self.name].read(record)

    def keys_of(self, record: Record) -> Sequence[Key]:
        """The ids by which other records may ask for one."""
        keys: Sequence[Key] = loaded(self.keys)(record) if self.keys is not None else ()
        return keys


@cache
def _imported(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"kvtool.workload.logs.formats.{module}"), function)


def loaded(function: Callable[..., Any] | str) -> Any:
    """A function of a format, imported where it is named."""
    return _imported(function) if isinstance(function, str) else function
