"""Thresholds changed by half, to see that each decides something."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any


def changes(thresholds: Any) -> list[tuple[str, float]]:
    """Each field of a dataclass with half of its value, and with half more; whole numbers stay whole."""
    found = []
    for field in fields(thresholds):
        value = getattr(thresholds, field.name)
        whole = isinstance(value, int)
        found.append((field.name, math.floor(value * 0.5) if whole else value * 0.5))
        found.append((field.name, math.ceil(value * 1.5) if whole else value * 1.5))
    return found


@contextmanager
def changed(thresholds: Any, name: str, value: float) -> Iterator[None]:
    """Change one field of a frozen dataclass for a while."""
    before = getattr(thresholds, name)
    object.__setattr__(thresholds, name, value)
    try:
        yield
    finally:
        object.__setattr__(thresholds, name, before)
