"""What differs between two requests, as it is named: by its form, by a variable or by comparing them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DifferenceKind:
    """What a volatile value is: a stable `key`, a `name` for people, and the diagnostic `code` it leads to."""

    key: str
    name: str
    code: str
