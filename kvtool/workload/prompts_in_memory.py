"""Prompts that a program has in memory as a workload, and the inputs that callers of the Python API may give."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import is_message, parse
from kvtool.workload.logs.files.log_file import LogEntry
from kvtool.workload.logs.files.plain_text_files import PLAIN_GROUP
from kvtool.workload.logs.log_pass import PassState
from kvtool.workload.logs.logs import MEMORY_FORMAT, LogOptions, LogSource
from kvtool.workload.logs.records.record import RecordError, Where
from kvtool.workload.logs.records.record_format import LeftOut
from kvtool.workload.logs.records.records import read_record

MEMORY = "<prompts>"
"""What stands for a path in places: `<prompts>:4:1` is the fourth prompt."""

PromptValue = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text; a list of chat messages; or a request body of a chat API, or any other record that a log may have."""
AnyPath = str | os.PathLike[str]
Prompt = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text, a list of chat messages, or a request body of a chat API (`messages`, `tools`, `cache_salt`, …)."""
_INPUT_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".traj", ".log", ".txt", ".md", ".gz", ".zst")
_LONGEST_PATH = 4096  # characters; longer texts are prompts


class MemorySource(LogSource):
    """Prompts as requests, in their order. They are copied: what the program does to them afterwards changes nothing."""

    def __init__(self, prompts: Iterable[PromptValue], options: LogOptions) -> None:
        """Raise KvtoolError for a value that is none of `PromptValue`, or that JSON cannot hold."""
        super().__init__([MEMORY], options)
        self._prompts = [_copied(prompt, at) for at, prompt in enumerate(prompts)]
        if not self._prompts:
            raise KvtoolError("the list of prompts is empty")

    def _in_order(self, state: PassState, *, values: bool) -> Iterator[LogEntry | KvtoolError]:
        self.formats[MEMORY] = MEMORY_FORMAT
        for number, data in enumerate(self._prompts, 1):
            where = Where(MEMORY, number, 1, str(number), number, PLAIN_GROUP, self.options.trace_block_size)
            try:
                value = parse(data)
                for item in read_record(value, where, self._contents.format)[1]:
                    if isinstance(item, LeftOut):
                        state.left_out.add(item, Place(MEMORY, number, 1))
                    else:
                        yield LogEntry(item.turns, item.turns[0], value if values else None, MEMORY, len(data))
            except RecordError as error:
                problem = KvtoolError(error.message, hint=error.hint, place=Place(_shown(number - 1, error.pointer)))
                if self.options.on_bad_line == "error":
                    raise problem from error
                yield problem


def _copied(prompt: object, at: int) -> bytes:
    """Return the record of a prompt as JSON. A list of messages is what a program sends, not the record of a conversation."""
    if isinstance(prompt, str):
        record: Any = {"prompt": str.__str__(prompt)}
    elif isinstance(prompt, Mapping):
        if is_message(prompt):
            raise KvtoolError(
                "this is a message, not a prompt", hint="pass a list of messages as a prompt", place=Place(_shown(at))
            )
        record = dict(prompt)
    elif isinstance(prompt, list | tuple):
        record = {"messages": list(prompt)}
    else:
        raise KvtoolError(
            f"a prompt must be a text, a list of messages or a request body, not {type(prompt).__name__}",
            place=Place(_shown(at)),
        )
    try:
        return orjson.dumps(record, default=_plain)
    except TypeError:
        pass
    try:  # what orjson does not take: lone surrogates, large numbers
        return json.dumps(record, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise KvtoolError(f"JSON cannot hold it: {error}", place=Place(_shown(at))) from error


def _plain(value: object) -> object:
    """Return messages as client libraries have them: mappings, and models that can dump themselves."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    raise TypeError(f"{type(value).__name__} is not a text, number, list or mapping")


def _shown(at: int, pointer: Sequence[str | int] = ()) -> str:
    """Return a path as `prompts[3].messages[0].content`, as a program would write it."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in pointer)
    return f"prompts[{at}]{''.join(steps)}"


def sorted_inputs(
    inputs: AnyPath | Iterable[AnyPath | Prompt],
    *,
    on_bad_line: Literal["error", "skip"],
    log_format: str | None,
    requests: int | None,
) -> tuple[list[str], MemorySource | None]:
    """Return paths, or a source of prompts with what stands for its path."""
    if isinstance(inputs, str | os.PathLike):
        return [path_of(inputs)], None
    if isinstance(inputs, Mapping):
        raise KvtoolError("one request body is one prompt", hint="pass a list of prompts: [body]")
    items = list(inputs)
    paths = [item for item in items if isinstance(item, str | os.PathLike) and _is_path(item)]
    if paths and len(paths) == len(items):
        return [path_of(path) for path in paths], None
    if paths:
        shown = os.fspath(paths[0])
        raise KvtoolError(f"paths and prompts together: `{shown[:80]}` is a path", hint="pass either files or prompts")
    from kvtool.workload.logs.logs import LogOptions

    options = LogOptions(on_bad_line=on_bad_line, limit=requests, format=log_format)
    prompts: list[Any] = items
    return [MEMORY], MemorySource(prompts, options)


def _is_path(item: str | os.PathLike[str]) -> bool:
    """Return whether a string in a list names a file, rather than being a prompt."""
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
    """Return a path as the command line has it."""
    text = os.fspath(path)
    if text == "-":
        raise KvtoolError("the API does not read standard input", hint="pass a path, or the prompts")
    return text
