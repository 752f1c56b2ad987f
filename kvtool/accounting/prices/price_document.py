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
        return number

    def day(self, value: object, pointer: Pointer) -> date | None:
        """A day like 2026-08-21; None for none."""
        if value is None:
            return None
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            raise self.error("not a day; write it like 2026-08-21", pointer) from None

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
