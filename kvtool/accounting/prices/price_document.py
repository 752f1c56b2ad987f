"""A JSON document of prices: errors with their place, and parsed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.bounded_number import LARGEST_AMOUNT, exact_float, exact_number, whole_number
from kvtool.text.files.json_file import json_of, place_in
from kvtool.text.files.json_position import nearest_start

Pointer = tuple[str | int, ...]
_MOST_TOKENS = 10**12
"""Bound against mistakes: no prompt is that long."""


class PriceDocument:
    """The text of a file of prices. Numbers are exact."""

    def __init__(self, text: str, shown: str) -> None:
        self._text = text
        self.shown = shown
        self.value: Any = json_of(text, shown=shown, parse_float=exact_float)

    def place(self, pointer: Pointer) -> Place:
        """Return the place of a value."""
        return place_in(self._text, self.shown, nearest_start(self._text, pointer))

    def error(self, message: str, pointer: Pointer, hint: str | None = None) -> KvtoolError:
        return KvtoolError(message, hint=hint, place=self.place(pointer))

    def money(self, value: object, pointer: Pointer) -> Decimal:
        """Return a price: a number, or a text that is one; never negative."""
        number = exact_number(value, in_text=True)
        if number is None:
            raise self.error(f"a price must be a number from 0 to {LARGEST_AMOUNT:,}", pointer)
        return number

    def tokens(self, value: object, pointer: Pointer) -> int:
        """Read a number of tokens: a whole number that is not negative."""
        number = whole_number(value, most=_MOST_TOKENS)
        if number is None:
            raise self.error("expected a number of tokens, such as 200000", pointer)
        return number

    def day(self, value: object, pointer: Pointer) -> date | None:
        """Return a day like 2026-08-21; None for none."""
        if value is None:
            return None
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            raise self.error("not a day; write it like 2026-08-21", pointer) from None

    def weekdays(self, value: object, pointer: Pointer, *, first: int) -> frozenset[int]:
        """Return days of the week, of which Monday is 0 here and `first` in the document."""
        days = self.items(value, pointer)
        numbers = [whole_number(day, least=first, most=first + 6) for day in days]
        if None in numbers:
            raise self.error(f"days of the week must be from {first} (Monday) to {first + 6}", pointer)
        return frozenset(day - first for day in numbers if day is not None)

    def hour(self, value: object, pointer: Pointer) -> time:
        """Return a time of the day like 06:00."""
        try:
            return time.fromisoformat(str(value)).replace(tzinfo=None)
        except ValueError:
            raise self.error("not a time of the day; write it like 06:00", pointer) from None

    def mapping(self, value: object, pointer: Pointer) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.error("expected an object", pointer)
        return value

    def items(self, value: object, pointer: Pointer) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self.error("expected a list", pointer)
        return value
