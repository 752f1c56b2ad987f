"""A JSON document of prices whose mistakes are told with their place, and the values that are read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal, InvalidOperation
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_file import json_of, place_in
from kvtool.text.files.json_position import nearest_start

Pointer = tuple[str | int, ...]
_MOST, _LEAST = Decimal(10) ** 12, Decimal(10) ** -24
"""Of prices: with others, sums of many requests could not be told to the cent."""


class PriceDocument:
    """The text of a file of prices. Numbers are exact."""

    def __init__(self, text: str, shown: str) -> None:
        self._text = text
        self.shown = shown
        self.value: Any = json_of(text, shown=shown, parse_float=Decimal)

    def place(self, pointer: Pointer) -> Place:
        """Where a value stands."""
        return place_in(self._text, self.shown, nearest_start(self._text, pointer))

    def error(self, message: str, pointer: Pointer, hint: str | None = None) -> KvtoolError:
        return KvtoolError(message, hint=hint, place=self.place(pointer))

    def money(self, value: object, pointer: Pointer) -> Decimal:
        """A price: a number, or a text that is one; never negative."""
        try:
            number = Decimal(value) if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else None
        except InvalidOperation:
            number = None
        if number is None or not number.is_finite() or number < 0:
            raise self.error("a price must be a number that is not negative", pointer)
        if number > _MOST or (number and number < _LEAST):
            raise self.error("no price is of this size", pointer)
        return number

    def tokens(self, value: object, pointer: Pointer) -> int:
        """How many tokens: a whole number that is not negative."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0 or value != int(value):
            raise self.error("a number of tokens is wanted here, such as 200000", pointer)
        return int(value)

    def day(self, value: object, pointer: Pointer) -> date | None:
        """A day like 2026-08-21; None for none."""
        if value is None:
            return None
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            raise self.error("not a day; write it like 2026-08-21", pointer) from None

    def weekdays(self, value: object, pointer: Pointer, *, first: int) -> frozenset[int]:
        """Days of the week, of which Monday is 0 here and `first` in the document."""
        days = self.items(value, pointer)
        if not all(isinstance(day, int) and first <= day < first + 7 for day in days):
            raise self.error(f"days of the week are {first} (Monday) to {first + 6}", pointer)
        return frozenset(day - first for day in days)

    def hour(self, value: object, pointer: Pointer) -> time:
        """A time of the day like 06:00."""
        try:
            return time.fromisoformat(str(value)).replace(tzinfo=None)
        except ValueError:
            raise self.error("not a time of the day; write it like 06:00", pointer) from None

    def mapping(self, value: object, pointer: Pointer) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.error("an object is wanted here", pointer)
        return value

    def items(self, value: object, pointer: Pointer) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self.error("a list is wanted here", pointer)
        return value
