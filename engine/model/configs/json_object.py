"""A JSON object read key by key. Errors name the missing or malformed key; the reader adds the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from kvtool.engine.engine_error import EngineError

_MOST_BYTES = 64 << 20
"""Bound against hostile files; a config.json takes some kilobytes."""
_LARGEST = 1 << 53
"""The largest integer that a float represents exactly; no model has that many of anything."""


class JsonObject:
    """`…_or` methods take null for missing; all raise EngineError for a value of another type."""

    def __init__(
        self, values: Mapping[str, object], prefix: str = "", *, defaults: frozenset[str] = frozenset()
    ) -> None:
        """Create the object; `defaults` are the keys that the file does not write."""
        self._values = values
        self._prefix = prefix
        self._defaults = defaults

    @classmethod
    def read(cls, path: Path) -> JsonObject:
        """Read the object from a file."""
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise EngineError(f"larger than {_MOST_BYTES >> 20} MiB")
            value = json.loads(data.decode("utf-8"))
        except OSError as error:
            raise EngineError(f"cannot read it: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are both ValueErrors
            raise EngineError(f"not JSON: {error}") from error
        if not isinstance(value, dict):
            raise EngineError("not a JSON object")
        return cls(value)

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def is_written(self, key: str) -> bool:
        """Return whether the key has a value that is no default."""
        return key in self and key not in self._defaults

    def is_null(self, key: str) -> bool:
        """Return whether the key is present with null, for the few keys where null differs from a missing key."""
        return key in self._values and self._values[key] is None

    def value(self, key: str) -> object:
        """Return the raw value, or None where the key is missing, for keys with values of several types."""
        return self._values.get(key)

    def integer(self, key: str) -> int:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        if abs(value) > _LARGEST:
            raise self._wrong(key, "a whole number of at most 2**53")
        return value

    def number(self, key: str) -> float:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._wrong(key, "a finite number")
        return number

    def integer_or(self, key: str, default: int) -> int:
        return self.integer(key) if key in self else default

    def number_or(self, key: str, default: float) -> float:
        return self.number(key) if key in self else default

    def flag_or(self, key: str, default: bool) -> bool:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return default if value is None else value

    def text_or(self, key: str, default: str) -> str:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text")
        return default if value is None else value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; empty where it is missing."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of texts")
        return value

    def integers(self, key: str) -> list[int]:
        """Return a list of whole numbers; empty where it is missing."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) for item in value
        ):
            raise self._wrong(key, "a list of whole numbers")
        return value

    def over(self, defaults: Mapping[str, object]) -> JsonObject:
        """Return the same object, with `others` for the keys that it lacks."""
        return JsonObject(
            {**defaults, **self._values}, self._prefix, defaults=frozenset(defaults.keys() - self._values.keys())
        )

    def text_map(self, key: str) -> dict[str, str]:
        """Return an object whose values are texts."""
        value = self._required(key)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self._wrong(key, "an object of texts")
        return value

    def child(self, key: str) -> JsonObject | None:
        """Return the object under a key, None where it is missing or empty."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return JsonObject(value, f"{self._prefix}{key}.") if value else None

    def children(self) -> list[str]:
        """Return the keys that have objects."""
        return [key for key, value in self._values.items() if isinstance(value, dict)]

    def named(self, key: str) -> str:
        """Return the key's name for error messages."""
        return f"`{self._prefix}{key}`"

    def _required(self, key: str) -> object:
        value = self._values.get(key)
        if value is None:
            raise EngineError(f"{self.named(key)} is missing")
        return value

    def _wrong(self, key: str, kind: str) -> EngineError:
        shown = json.dumps(self._values[key])  # escapes control sequences that a terminal would run
        return EngineError(f"{self.named(key)} must be {kind}, not {shown if len(shown) <= 60 else shown[:60] + '…'}")
