"""Values of JSON that are deeper than calls may be, as Python 3.13 reads them."""

from __future__ import annotations

from kvtool.diagnose.compare.units import _has_order


def test_order_below_many_lists_and_objects() -> None:
    for inner, has in [(1, False), ({"a": 1, "b": 2}, True), ([{}, {}], True), ([1, 2], False)]:
        value = inner
        for _ in range(20_000):
            value = [{"a": value}]
        assert _has_order(value) is has
        while (
            isinstance(value, list | dict) and value is not inner
        ):  # taken apart one by one, which needs no stack either
            value = value[0] if isinstance(value, list) else value["a"]
