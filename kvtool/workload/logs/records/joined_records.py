"""Records of one call, found by the ids that they share; of each record only its place is kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from kvtool.workload.logs.records.record import Record

_KEPT = 256  # records, and
_KEPT_BYTES = 32 << 20
"""Of records that were asked for last; they are asked for again soon."""

Place = tuple[int, int]
"""Number of a file of the source and number of a record in it."""
Key = tuple[str, str]
"""What kind of id it is, and the id."""


class Joins:
    """The places of records by ids. They are noted while the source is looked through for the first time."""

    def __init__(self, fetch: Callable[[Place, Key], tuple[Record, int]]) -> None:
        """`fetch` reads a record again, and tells its bytes."""
        self._fetch = fetch
        self._places: dict[int, Place | list[Place]] = {}
        """By the hash of a key."""
        self._kept: OrderedDict[tuple[Place, Key], tuple[Record, int]] = OrderedDict()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._places)

    def note(self, key: Key, place: Place) -> None:
        """Note that a record answers to this key, as others may do."""
        number = hash(key)
        before = self._places.get(number)
        if before is None:
            self._places[number] = place
        elif isinstance(before, list):
            before.append(place)
        elif before != place:
            self._places[number] = [before, place]

    def has(self, kind: str, key: str) -> bool:
        """Return whether any record answers to it."""
        return hash((kind, key)) in self._places

    def find(self, kind: str, key: str) -> list[Record]:
        """Return the records that answer to it, in the order of the files, each as the object that holds its request."""
        places = self._places.get(hash((kind, key)), [])
        return [self._record(place, (kind, key)) for place in (places if isinstance(places, list) else [places])]

    def _record(self, place: Place, key: Key) -> Record:
        if (place, key) in self._kept:
            self._kept.move_to_end((place, key))
            return self._kept[place, key][0]
        record, size = self._kept[place, key] = self._fetch(place, key)
        self._bytes += size
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._bytes > _KEPT_BYTES):
            self._bytes -= self._kept.popitem(last=False)[1][1]
        return record
