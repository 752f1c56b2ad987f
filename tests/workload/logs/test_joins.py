"""Records that belong together are read again as seldom as memory allows."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvtool.workload.logs.records.joined_records import Joins, Key, Place
from kvtool.workload.logs.records.record import Record

_MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "asked", "read"),
    [
        ([1, 1], [0, 1, 0, 1], [0, 1]),
        ([20, 20], [0, 1, 1, 0], [0, 1, 0]),
        ([20, 20, 12], [0, 1, 2, 1, 2], [0, 1, 2]),
        ([16, 16, 16], [0, 1, 0, 2, 0, 1], [0, 1, 2, 1]),
        ([40, 1], [0, 0, 1, 0], [0, 1, 0]),
        ([0] * 257, [*range(256), *range(256)], [*range(256)]),
        ([0] * 257, [*range(257), 256, 1, 0], [*range(257), 0]),
    ],
    ids=["all fit", "one fits", "two fit", "the one asked for last stays", "one too large", "256", "257"],
)
def test_records_asked_for_last_are_kept(sizes: list[int], asked: list[int], read: list[int]) -> None:
    fetched: list[int] = []

    def fetch(place: Place, _key: Key) -> tuple[Record, int]:
        fetched.append(place[1])
        return cast("Record", place), sizes[place[1]] * _MB

    joins = Joins(fetch)
    for number in range(len(sizes)):
        joins.note(("id", str(number)), (0, number))
    found: list[Any] = [joins.find("id", str(number)) for number in asked]
    assert found == [[(0, number)] for number in asked]
    assert fetched == read
