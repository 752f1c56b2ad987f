"""Record formats, and what their readers make of a record: one conversation, several calls, or no call of a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, SupportsIndex

from kvtool.workload.call import StoredContent
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, Unit
from kvtool.workload.turn import Turn

_QUALIFIED = re.compile(" (?:without|of|from|around|whose|in) ")
_SPAN = re.compile(r"^(?:\w+ )?span\b")
Fields = dict[str, Any]


class Turns(Protocol):
    """The turns of a record: a list of them, or what makes each when it is asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: SupportsIndex, /) -> Turn: ...


class LeftOut(NamedTuple):
    """Something in a log that is no call of a model, or none that was answered. `kind` is a noun in the singular, or a participle:
    it comes after a number (`4 retriever spans`, `1 failed`), and never holds what somebody wrote into a prompt."""

    kind: str
    number: int = 1
    hint: str | None = None
    """What to do where a log has nothing else."""
    stored: StoredContent | None = None
    """The explicit cache that it tells of."""
    told: Turn | None = None
    """What the log says of a call whose prompt is not in it."""


NEW_KIND = LeftOut("record of an unknown kind")
"""A record of a known format, of a kind that its program did not write before."""


def sort_of(kind: str) -> str:
    """Return the heading under which a kind is counted: `other spans` for spans of every kind, else the kind in the plural."""
    if _SPAN.search(kind):
        return "other spans"
    return in_plural(kind)


def in_plural(kind: str) -> str:
    """Return a kind of what is left out, said of several (`calls without a prompt`); a participle stays as it is."""
    if kind.endswith("ed"):
        return kind
    found = _QUALIFIED.search(kind)
    noun = kind if found is None else kind[: found.start()]
    return f"{noun}s{kind[len(noun) :]}"


@dataclass(slots=True)
class FoundCall:
    """A conversation of a record that holds several, or that says more than its turns do.

    `identity` names the call wherever else it is logged (the id of its span or of its answer); a second one with the same prompt
    is the same call. `weak`: it may also be the id of something else, as of the row of a table. `value` has the fields that groups
    go by.
    """

    turns: Turns
    identity: str | None = None
    weak: bool = False
    value: object = None


class Several(list["FoundCall | LeftOut"]):
    """All that a record holds, in its order; nothing at all for what only belongs to other records."""


Reading = Turns | FoundCall | LeftOut | Several
"""What the reader of a format makes of a record."""


def collected(reading: Reading) -> Several:
    """Return all that a reader found, as a list."""
    if isinstance(reading, Several):
        return reading
    if isinstance(reading, LeftOut | FoundCall):
        return Several([reading])
    return Several([FoundCall(reading)])


class FileState(Protocol):
    """State of a format while the records of a file come one after another, always in the order of the file."""

    def read(self, record: Record) -> Reading: ...
    def end(self) -> Reading:
        """Return what is left after the last record."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A shape of records. The first format in the list of known ones whose `fits` returns true reads the record.

    `reader` makes requests of a record. With `unit` a record is one request with a time of its own, in this unit where the number
    is small; None: only reading it finds its requests. `keys` gives the ids by which other records may ask for it. With `state`,
    `reader` makes a FileState for a file from the Where of its first record. `example` is for the docs: JSON values, in a file
    whose name ends in `ending`. With `grows`, each release of the program writes new kinds of records: in a file of this format
    they are left out and counted. With `linked`, records name the one before them: the state is given those of unknown kinds, too.
    """

    name: str
    shape: str
    fits: Callable[[Fields], bool]
    reader: Callable[..., Any]
    unit: Unit | None = None
    keys: Callable[[Record], Sequence[Key]] | None = None
    state: bool = False
    grows: bool = False
    linked: bool = False
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
