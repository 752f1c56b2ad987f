"""Values as servers write them: JSON has their types, labels of metrics are text, with "None" where nothing is set."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.text.bounded_number import whole_number

_LONGEST = 500


def said_at(value: object, *keys: str) -> Mapping[str, object]:
    """The object below the keys; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def said_text(of: object, key: str) -> str | None:
    """A short text in one line."""
    value = of.get(key) if isinstance(of, Mapping) else None
    if not isinstance(value, str) or value in ("", "None") or len(value) > _LONGEST or not value.isprintable():
        return None
    return value


def said_number(of: object, key: str) -> int | None:
    """A whole number above 0."""
    value = of.get(key) if isinstance(of, Mapping) else None
    return whole_number(value, least=1, in_text=True)


def said_truth(of: object, key: str) -> bool | None:
    """True or False, or the words for them."""
    value = of.get(key) if isinstance(of, Mapping) else None
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None
