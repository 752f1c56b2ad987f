"""Values of JSON that are deeper than calls may be, as Python 3.13 reads them."""

from __future__ import annotations

from typing import Any

import pytest

from kvtool.diagnose.compare.units import _has_order


@pytest.mark.parametrize(("inner", "has"), [(1, False), ({"a": 1, "b": 2}, True), ([{}, {}], True), ([1, 2], False)])
def test_order_below_many_lists_and_objects(*, inner: Any, has: bool) -> None:
    value = inner
    for _ in range(20_000):
        value = [{"a": value}]
    assert _has_order(value) is has
    while isinstance(value, list | dict) and value is not inner:  # taken apart one by one, which needs no stack either
        value = value[0] if isinstance(value, list) else value["a"]
