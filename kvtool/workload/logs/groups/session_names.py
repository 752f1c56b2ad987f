"""Names of conversations that their file does not name: the short name of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from kvtool.text.files.compressed import uncompressed

_OF_LINES = (".jsonl", ".ndjson")
_GENERIC = frozenset(
    (
        *("api_conversation_history", "conversation", "conversations", "history", "log", "messages"),
        *("output", "rollout", "session", "trajectory", "trace"),
    )
)
"""File names of tools that keep each conversation in a folder of its own."""


def session_names(paths: Sequence[str]) -> dict[str, str]:
    """Return by path the file's name without its endings, or that of its folder where all files of its kind are called so; the
    whole path where two would be called the same."""
    short = {path: _short(path) for path in paths}
    times = Counter(short.values())
    return {path: name if times[name] == 1 else path for path, name in short.items()}


def session_of(name: str, path: str, label: str, number: int) -> str:
    """Return the session of a record; `number` counts them from 1. A file of lines has a conversation in each."""
    return name if number == 1 and not uncompressed(path).endswith(_OF_LINES) else f"{name}:{label}"


def _short(path: str) -> str:
    file = PurePath(uncompressed(path))
    name = file.name.split(".")[0] or file.name
    return file.parent.name or name if name.lower() in _GENERIC else name
