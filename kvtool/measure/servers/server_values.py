"""Values as servers write them: JSON has their types, labels of metrics are text, with "None" where nothing is set."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kvtool.text.bounded_number import whole_number

_MOST_CONTAINERS = 200_000  # objects and lists: a bound for hostile servers
_LONGEST = 500  # characters of a value that is shown


def json_value(data: bytes) -> object:
    """Return the value of a JSON text; ValueError for what is none, or has more objects and lists than any server sends."""
    if data.count(b"[") + data.count(b"{") > _MOST_CONTAINERS:
        raise ValueError("too many objects and lists")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def value_at(value: object, *keys: str) -> Mapping[str, object]:
    """Return the object below the keys; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text_at(of: object, key: str) -> str | None:
    """Return a short text in one line."""
    value = of.get(key) if isinstance(of, Mapping) else None
    if not isinstance(value, str) or value in ("", "None") or len(value) > _LONGEST or not value.isprintable():
        return None
    return value


def number_at(of: object, key: str) -> int | None:
    """Return a whole number above 0."""
    return whole_number(of.get(key), least=1, in_text=True) if isinstance(of, Mapping) else None


def truth_at(of: object, key: str) -> bool | None:
    """Return True or False, or the words for them, as a truth value."""
    value = of.get(key) if isinstance(of, Mapping) else None
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def share_at(of: object, key: str) -> float | None:
    """Return a number from 0 to less than 1."""
    value = of.get(key) if isinstance(of, Mapping) else None
    return float(value) if isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value < 1 else None
