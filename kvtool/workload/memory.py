"""Prompts that a program holds as a workload: what a log has as records, given as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import is_message, parse
from kvtool.workload.logs.files.log_file import LogEntry
from kvtool.workload.logs.files.plain_text_files import PLAIN_GROUP
from kvtool.workload.logs.log_pass import PassState
from kvtool.workload.logs.logs import MEMORY_FORMAT, LogOptions, LogSource
from kvtool.workload.logs.records.record import RecordError, Where
from kvtool.workload.logs.records.record_readings import LeftOut
from kvtool.workload.logs.records.records import read_record

MEMORY = "<prompts>"
"""What stands for a path in places: `<prompts>:4:1` is the fourth prompt."""

PromptValue = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text; a list of chat messages; or a request body of a chat API, or any other record that a log may have."""


class MemorySource(LogSource):
    """Prompts as requests, in their order. They are copied: what the program does to them afterwards changes nothing."""

    def __init__(self, prompts: Iterable[PromptValue], options: LogOptions) -> None:
        """Raises KvtoolError for a value that is none of `PromptValue`, or that JSON cannot hold."""
        super().__init__([MEMORY], options)
        self._prompts = [_copied(prompt, at) for at, prompt in enumerate(prompts)]
        if not self._prompts:
            raise KvtoolError("there is no prompt to profile: the list is empty")

    def _in_order(self, state: PassState, *, values: bool) -> Iterator[LogEntry | KvtoolError]:
        self.formats[MEMORY] = MEMORY_FORMAT
        for number, data in enumerate(self._prompts, 1):
            where = Where(MEMORY, number, 1, str(number), number, PLAIN_GROUP, self.options.trace_block_size)
            try:
                value = parse(data)
                for item in read_record(value, where, self._format)[1]:
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
    """The record of a prompt as JSON. A list of messages is what a program sends, not the record of a conversation."""
    if isinstance(prompt, str):
        record: Any = {"prompt": str.__str__(prompt)}
    elif isinstance(prompt, Mapping):
        if is_message(prompt):
            raise KvtoolError(
                "this is a message, not a prompt", hint="a prompt is a list of messages", place=Place(_shown(at))
            )
        record = dict(prompt)
    elif isinstance(prompt, list | tuple):
        record = {"messages": list(prompt)}
    else:
        raise KvtoolError(
            f"a prompt is a text, a list of messages or a request body, not {type(prompt).__name__}",
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
    """Messages as client libraries have them: mappings, and models that can dump themselves."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    raise TypeError(f"{type(value).__name__} is no text, number, list or mapping")


def _shown(at: int, pointer: Sequence[str | int] = ()) -> str:
    """`prompts[3].messages[0].content`, as a program would write it."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in pointer)
    return f"prompts[{at}]{''.join(steps)}"
