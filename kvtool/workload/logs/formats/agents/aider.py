"""Files of aider: the history of a chat, which shows no prompt, and the log of what was sent (`--llm-history-file`)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import MAX_RECORD, RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind

_SENT, _ANSWERED, _BETWEEN = "TO LLM ", "LLM RESPONSE ", "-------"
_STARTED = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\r?$", re.MULTILINE)
_ROLES = ("SYSTEM", "USER", "ASSISTANT", "TOOL", "DEVELOPER")


def chat_begins(head: bytes, path: str) -> bool:
    """Return whether a file is `.aider.chat.history.md`, or what is left of one after its beginning was cut."""
    del path
    return _STARTED.search(head) is not None


def log_begins(head: bytes, path: str) -> bool:
    """Return the beginning of a log of what was sent."""
    del path
    start = head.lstrip()
    return start.startswith(_SENT.encode()) and b"\n" + _BETWEEN.encode() in start[:64]


def no_prompts(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Raise: a chat is not what was sent."""
    del reader, file
    hint = "run aider with --llm-history-file FILE, and pass that file"
    raise KvtoolError("a chat history of aider does not contain the sent prompts", hint=hint, place=Place(path))


def log_records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Yield the requests of a log, with their answers, each at the line where it begins."""
    del file
    value: dict[str, Any] | None = None
    begun, size, offset = 1, 0, 0
    writing: list[str] = []
    for number, raw in enumerate(reader, 1):
        size += len(raw)
        if size > MAX_RECORD:
            raise KvtoolError(f"a record of more than {MAX_RECORD >> 20} MiB", place=Place(path, begun))
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line.startswith(_SENT) and len(line) <= len(_SENT) + 40:
            if value is not None:
                yield _record(value, writing, begun, offset)
            offset += size - len(raw)
            value, writing, begun, size = {"timestamp": line[len(_SENT) :], "messages": []}, [], number, len(raw)
        elif value is not None:
            writing.append(line)
    if value is not None:
        yield _record(value, writing, begun, offset)


def _record(value: dict[str, Any], lines: list[str], line: int, offset: int) -> RawRecord:
    """Return a request of its lines: each begins with the role of its message."""
    messages: list[dict[str, Any]] = value["messages"]
    answer: list[str] | None = None
    for each in lines:
        if each == _BETWEEN:
            messages.append({"role": "", "content": []})
            continue
        if each.startswith(_ANSWERED) and len(each) <= len(_ANSWERED) + 40:
            answer = []
            continue
        role, _, text = each.partition(" ")
        if answer is not None:
            answer.append(text if role == "ASSISTANT" else each)
        elif messages and role in _ROLES:
            messages[-1]["role"] = role.lower()
            messages[-1]["content"].append(text)
    value["messages"] = [{**each, "content": "\n".join(each["content"])} for each in messages if each["role"]]
    if answer is not None:
        value["response"] = "\n".join(answer)
    return RawRecord(b"", line, 1, True, None, offset, None, value)


FILE_KINDS = (
    FileKind(
        "aider-chat",
        "# aider chat started at",
        chat_begins,
        no_prompts,
        example="# aider chat started at 2026-02-02 09:00:00\n\n#### Is it open?\n",
        file=".aider.chat.history.md",
    ),
    FileKind(
        "aider",
        "TO LLM",
        log_begins,
        log_records,
        example=(
            "TO LLM 2026-02-02T09:00:00\n-------\nUSER Is it open?\nLLM RESPONSE 2026-02-02T09:00:01\nASSISTANT Yes.\n"
        ),
        file="llm.log",
    ),
)
