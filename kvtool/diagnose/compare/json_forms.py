"""JSON values as bytes: as they are written, and in the one form that all values with the same content have."""

from __future__ import annotations

import json
from typing import Any

import orjson

_MAX_DEPTH = 4
"""JSON texts inside JSON texts that are opened up."""


def ordered(value: object) -> bytes:
    """Return the value as JSON with its keys in the order they have; what is no JSON is written as Python writes it."""
    return _dumped(value, 0)


def canonical(value: object) -> bytes:
    """Return the value as JSON with sorted keys; strings that hold JSON objects or lists count as what they hold."""
    return _dumped(opened(value), orjson.OPT_SORT_KEYS)


def opened(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return a copy in which a string that is a JSON object or list has become that (wrapped, so that it differs from a bare
    one).
    """
    if isinstance(value, str):
        inner = parsed(value) if depth else None
        return value if inner is None else {"\0json": opened(inner, depth - 1)}
    try:
        if isinstance(value, dict):
            return {key: opened(item, depth) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [opened(item, depth) for item in value]
    except RecursionError:
        pass
    return value


def parsed(text: str) -> Any:
    """Return the object or list that a text is as JSON; None where it is something else."""
    stripped = str.__str__(text).strip()
    if stripped[:1] not in ("{", "[") or stripped[-1:] not in ("}", "]"):
        return None
    try:
        return orjson.loads(stripped)
    except ValueError:
        return None


def same_keys(a: Any, b: Any) -> bool:
    """Return whether two canonically equal values have all their keys in the same order: then only their spelling differs."""
    return _dumped(opened(a), 0) == _dumped(opened(b), 0)


def _dumped(value: object, option: int) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except (TypeError, ValueError):
        pass  # lone surrogates, numbers beyond 64 bits, keys that are no strings, what is too deep
    try:
        return json.dumps(value, sort_keys=bool(option), default=repr).encode()
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return repr(value).encode(errors="replace")
    except RecursionError:
        return f"<{type(value).__name__}>".encode()
