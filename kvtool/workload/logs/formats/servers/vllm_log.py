"""vLLM's log: the prompts of requests, in INFO lines up to 0.10, later in DEBUG lines only."""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.servers.python_reprs import integers_of, string_at
from kvtool.workload.logs.formats.servers.server_lines import LogClock, ServerLine, front_of, has_line, lines_of
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import LeftOut, Reading, RecordFormat

NO_PROMPT = LeftOut("request without its prompt")
_BEGINS = re.compile(
    r"(?:^|[ )|])(?:INFO|DEBUG|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \["
    r"|Received request \S{1,200}: (?:prompt|params): |Request \S{1,200} details: prompt: "
)
_REQUEST = re.compile(r"Received request (\S{1,200}): (prompt|params): |Request (\S{1,200}) details: prompt: ")
_IDS = re.compile(r"prompt_token_ids: (\[[\d, ]*+\])")
_REMEMBERED = 4096
"""Requests whose prompt came in a line of its own, just before the one that says that they came."""


def begins(head: bytes, _path: str) -> bool:
    """Return whether a file is such a log."""
    return has_line(head, _BEGINS)


def records(reader: io.BufferedReader, _file: str, path: str) -> Iterator[RawRecord]:
    """Yield its requests. Raise KvtoolError where none has its prompt."""
    clock = LogClock()
    detailed: OrderedDict[str, None] = OrderedDict()
    found = False
    first: ServerLine | None = None
    for line in lines_of(reader):
        request = _REQUEST.search(line.text)
        if request is None or (front := front_of(line.text, request.start())) is None:
            continue
        first = first or line
        own = request[1] or request[3]
        if request[2] == "params":
            if own not in detailed:
                yield _raw(line, {"vllm_request": own})
            continue
        detailed[own] = None
        if len(detailed) > _REMEMBERED:
            detailed.popitem(last=False)
        found = True
        said: dict[str, Any] = {"vllm_request": own, "id": own}
        if (time := clock.read(front)) is not None:
            said["timestamp"] = time
        prompt = string_at(line.text, request.end())
        if prompt is not None:
            said["prompt"] = prompt[0]
        elif line.text.startswith(("'", '"'), request.end()):
            yield RawRecord(b"", line.number, 1, True, "the prompt of this request is cut off", line.offset, value={})
            continue
        elif (ids := _IDS.search(line.text, request.end())) is not None:
            said["prompt"] = integers_of(ids[1])
        yield _raw(line, said)
    if not found:
        raise KvtoolError(
            "this vLLM log has no prompts at its log level",
            hint="run vLLM with VLLM_LOGGING_LEVEL=DEBUG and --enable-log-requests",
            place=Place(path, 1 if first is None else first.number, 1),
        )


def read(record: Record) -> Reading:
    """Return the request of a line."""
    from kvtool.workload.logs.formats.apis.prompt_texts import prompts

    return prompts(record) if record.fields.get("prompt") else NO_PROMPT


def _raw(line: ServerLine, said: dict[str, Any]) -> RawRecord:
    return RawRecord(b"", line.number, 1, True, None, line.offset, value=said)


FORMAT = RecordFormat("vllm-log", "a line of vLLM's log", lambda fields: "vllm_request" in fields, read)
FILE_KINDS = (
    FileKind(
        "vllm-log",
        "Received request … prompt",
        begins,
        records,
        example=(
            "INFO 02-02 09:00:00 [logger.py:43] Received request cmpl-1-0: "
            "prompt: 'Is it open?', params: SamplingParams()\n"
        ),
        file="vllm.log",
    ),
)
