"""What callers of the API may give as inputs: paths, or prompts in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.workload.memory import MemorySource

AnyPath = str | os.PathLike[str]
Prompt = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text, a list of chat messages, or a request body of a chat API (`messages`, `tools`, `cache_salt`, …)."""

_INPUT_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".traj", ".log", ".txt", ".md", ".gz", ".zst")
_LONGEST_PATH = 4096


def sorted_inputs(
    inputs: AnyPath | Iterable[AnyPath | Prompt],
    *,
    on_bad_line: Literal["error", "skip"],
    log_format: str | None,
    requests: int | None,
) -> tuple[list[str], MemorySource | None]:
    """Paths, or a source of prompts with what stands for its path."""
    if isinstance(inputs, str | os.PathLike):
        return [path_of(inputs)], None
    if isinstance(inputs, Mapping):
        raise KvtoolError("one request body is one prompt", hint="give a list of them: [body]")
    items = list(inputs)
    paths = [item for item in items if isinstance(item, str | os.PathLike) and _is_path(item)]
    if paths and len(paths) == len(items):
        return [path_of(path) for path in paths], None
    if paths:
        shown = os.fspath(paths[0])
        raise KvtoolError(
            f"paths and prompts together: `{shown[:80]}` is a path", hint="give files, or prompts, in one call"
        )
    from kvtool.workload.logs.logs import LogOptions
    from kvtool.workload.memory import MEMORY, MemorySource

    options = LogOptions(on_bad_line=on_bad_line, limit=requests, format=log_format)
    prompts: list[Any] = items
    return [MEMORY], MemorySource(prompts, options)


def _is_path(item: str | os.PathLike[str]) -> bool:
    """Whether a string in a list names a file, rather than being a prompt."""
    if isinstance(item, os.PathLike):
        return True
    if not item or len(item) > _LONGEST_PATH or "\n" in item or "\0" in item:
        return False
    if item.lower().endswith(_INPUT_SUFFIXES) and not any(char.isspace() for char in item):
        return True
    try:
        return os.path.isfile(item)  # noqa: PTH113 - a string that may be no path at all
    except (OSError, ValueError):
        return False


def optional_path(path: AnyPath | None) -> str | None:
    return None if path is None else path_of(path)


def path_of(path: AnyPath) -> str:
    """A path as the command line has it."""
    text = os.fspath(path)
    if text == "-":
        raise KvtoolError("the API does not read standard input", hint="give a path, or the prompts themselves")
    return text
