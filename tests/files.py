"""Files for tests to work on."""

from __future__ import annotations

from pathlib import Path


def write(path: str, text: str | bytes) -> str:
    """Write a file, with its folders; returns its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
