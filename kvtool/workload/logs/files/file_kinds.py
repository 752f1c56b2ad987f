"""Kinds of files that contain records and are no JSON, in their order: the first one whose `begins` returns true reads the file.

A kind is declared in the `FILE_KINDS` of its module. Reading gives `RawRecord`s with a `value` each: what a line of JSON would
contain, in a form that some record format reads. Their places are those in the file, where it has lines; else the number of the
record is its line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import NamedTuple

from kvtool.errors import KvtoolError
from kvtool.text.files.compressed import HEAD, open_bytes
from kvtool.text.files.json_stream import RawRecord


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file. `begins` gets the first bytes (at most 64 KiB) and the path as the user gave it; `read` makes the records of
    a file from its bytes, the place where it lies, and that path, and raises KvtoolError. `example` is for the docs: the text of a
    file of the name `file`."""

    name: str
    shape: str
    begins: Callable[[bytes, str], bool]
    read: Callable[[io.BufferedReader, str, str], Iterator[RawRecord]]
    example: str = ""
    file: str = ""


class _Known(NamedTuple):
    """A kind and the module below `formats/` that declares it, which is imported for files that begin with `start`.

    `texts`: it is also looked for in files of prompts (.txt, .md), which else are one prompt each; `objects`: also in files that
    begin like JSON.
    """

    name: str
    module: str
    texts: bool = False
    objects: bool = False
    start: bytes = b""


_KNOWN = (
    _Known("columns", "parquet"),
    _Known("written-lines", "servers.wrapped_lines", objects=True),
    _Known("vllm-log", "servers.vllm_log"),
    _Known("sglang-log", "servers.sglang_log"),
    _Known("ollama-log", "servers.usage_records"),
    _Known("llama-log", "servers.usage_records"),
    _Known("koboldcpp-log", "servers.usage_records"),
    _Known("sonnet", "evaluations.vllm_bench", texts=True),
    _Known("inspect-ai", "evaluations.inspect_ai", start=b"PK\x03\x04"),
    _Known("session-store", "agents.session_stores", start=b"SQLite format 3\0"),
    _Known("aider-chat", "agents.aider", texts=True),
    _Known("aider", "agents.aider", texts=True),
    _Known("table", "tables"),
)


def kind_of(reader: io.BufferedReader, path: str, *, text: bool = False) -> FileKind | None:
    """Return the kind of a file; None: JSON, or else no log. `text`: by its name it is a prompt."""
    head = reader.peek(HEAD)[:HEAD]
    objects = head.lstrip()[:1] == b"{"
    if objects and b'"log"' not in head:  # as all but Docker's lines
        return None
    for known in _KNOWN:
        if (known.texts or not text) and (known.objects or not objects) and head.startswith(known.start):
            kind = _declared(known)
            if kind.begins(head, path):
                return kind
    return None


def has_text_records(file: str, path: str | None = None) -> bool:
    """Return whether a file that is a prompt by its name is a log by its contents. `path` is what the user calls it."""
    try:
        with open_bytes(file, path or file) as reader:
            return kind_of(reader, path or file, text=True) is not None
    except KvtoolError:  # reading it reports what is wrong
        return False


def file_kinds() -> Iterator[FileKind]:
    """Yield all kinds; imports their modules."""
    return map(_declared, _KNOWN)


@cache
def _declared(known: _Known) -> FileKind:
    declared: tuple[FileKind, ...] = import_module(f"kvtool.workload.logs.formats.{known.module}").FILE_KINDS
    return next(each for each in declared if each.name == known.name)
