"""Kinds of files that hold records and are no JSON, in a visible list: by what they begin with, and what reads their records.

Reading gives `RawRecord`s with a `value` each: what a line of JSON would say, in a form that some record format reads. Their places
are those in the file, where it has lines; else the number of the record stands for a line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvtool.text.files.compressed import HEAD
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.records import agent_records as agent_shapes
from kvtool.workload.logs.records.record_format import loaded

Records = Callable[[io.BufferedReader, str, str], Iterator[RawRecord]]
"""Makes the records of a file: told the bytes of it, where it lies, and what the user calls it. Raises KvtoolError."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """`begins` sees the first bytes (at most 64 KiB) and the path as the user gave it; `records` is a function below `formats/`, as
    `module.function`; `begins` may be named so, too. With `texts`, files of prompts are looked at (.txt, .md), which else are one
    prompt each; with `objects`, those that begin like JSON."""

    name: str
    shape: str
    begins: Callable[[bytes, str], bool] | str
    records: str
    texts: bool = False
    objects: bool = False

    def read(self, reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
        records: Records = loaded(self.records)
        return records(reader, file, path)


FILE_KINDS: tuple[FileKind, ...] = (
    FileKind("columns", "PAR1 or ARROW1", "parquet.begins", "parquet.records"),
    FileKind(
        "written-lines",
        "lines with Docker's, Kubernetes' or a logger's front",
        "servers.wrapped_lines.begins",
        "servers.wrapped_lines.records",
        objects=True,
    ),
    FileKind("vllm-log", "Received request … prompt", "servers.vllm_log.begins", "servers.vllm_log.records"),
    FileKind("sglang-log", "Finish: obj=GenerateReqInput(", "servers.sglang_log.begins", "servers.sglang_log.records"),
    FileKind(
        "sonnet", "sonnet.txt", "evaluations.vllm_bench.is_sonnet", "evaluations.vllm_bench.refuse_sonnet", texts=True
    ),
    FileKind("inspect-ai", "an .eval archive", agent_shapes.is_inspect_archive, "evaluations.inspect_ai.records"),
    FileKind(
        "aider-chat", "# aider chat started at", "agents.aider.chat_begins", "agents.aider.no_prompts", texts=True
    ),
    FileKind("aider", "TO LLM", "agents.aider.log_begins", "agents.aider.log_records", texts=True),
    FileKind("table", "a header line with a column of prompts", "csv_rows.begins", "csv_rows.records"),
)


def kind_of(reader: io.BufferedReader, path: str, *, text: bool = False) -> FileKind | None:
    """Which kind of file this is; None: JSON, or else no log. `text`: it is one of prompts by its name."""
    head = reader.peek(HEAD)[:HEAD]
    objects = head.lstrip()[:1] == b"{"
    if objects and b'"log"' not in head:  # as all but Docker's lines
        return None
    kinds = (kind for kind in FILE_KINDS if (kind.texts or not text) and (kind.objects or not objects))
    return next((kind for kind in kinds if loaded(kind.begins)(head, path)), None)
