"""Calls with counted tokens whose prompts are not in the log: records of usage, and lines of local servers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.servers.server_lines import LogClock, has_line, lines_of
from kvtool.workload.logs.formats.servers.slot_lines import SLOT, slot_calls
from kvtool.workload.logs.records.call_fields import call_of
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT
from kvtool.workload.logs.records.record import RESPONSES, Record
from kvtool.workload.logs.records.record_format import Reading, RecordFormat

_OLLAMA_TIME = re.compile(r"\btime=(\S{10,40})")
_KOBOLD = re.compile(r"^Welcome to KoboldCpp\b|^Processing Prompt(?: \[\w{1,10}\])? \(\d{1,9} / \d{1,9} tokens\)")
_KOBOLD_STEP = re.compile(r"(Processing Prompt|Generating)(?: \[\w{1,10}\])? \((\d{1,9}) / (\d{1,9}) tokens\)")
_KOBOLD_END = re.compile(r"(?:^|\] )CtxLimit: ?(\d{1,9})/\d{1,9}, (?:Amt: ?(\d{1,9})/\d{1,9}, )?\w")
_INNER = ("request", "body", "request_body")


def lacks_prompt(record: Record) -> bool:
    """Return whether a record reports a prompt that cannot be in it: it has fewer characters than that has tokens."""
    usage = call_of(_inner(record)).usage
    if usage is None or usage.prompt is None or usage.cached is None:
        return False
    return _characters({name: value for name, value in record.fields.items() if name not in RESPONSES}) < usage.prompt


def _inner(record: Record) -> Record:
    return next((found for name in _INNER if (found := record.inner(name)) is not None), record)


def _characters(value: Any) -> int:
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            total += len(each)
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            total += len(each)  # of token ids, each is one
            waiting += each
    return total


def read(record: Record) -> Reading:
    """Return a request of one token, which is in place of its prompt, and what its server reports of it."""
    return [record.promptless_turn(call_of(_inner(record), incomplete=NO_PROMPT))]


def begins_llama(head: bytes, _path: str) -> bool:
    """Return whether a file is a log of llama-server."""
    return has_line(head, SLOT)


def begins_ollama(head: bytes, _path: str) -> bool:
    """Return whether a file is a log of Ollama."""
    return has_line(head, re.compile(r"\btime=\S{10,40} level=[A-Z]{4,7} source=\w"))


def slot_records(reader: io.BufferedReader, _file: str, _path: str) -> Iterator[RawRecord]:
    """Yield the calls: the tokens of each prompt, less those that were computed, were in its slot."""
    clock = LogClock()
    for call in slot_calls(lines_of(reader)):
        if call.prompt is None or call.cached is None or call.line is None:
            continue
        time = _OLLAMA_TIME.search(call.front)
        said = counted_usage(call.prompt, call.cached, clock.read(call.front) if time is None else time[1])
        if call.answered is not None:
            said["usage"]["completion_tokens"] = call.answered
        yield RawRecord(b"", call.line.number, 1, True, None, call.line.offset, value=said)


def begins_kobold(head: bytes, _path: str) -> bool:
    """Return whether a file is what KoboldCpp printed."""
    return has_line(head, _KOBOLD)


def kobold_records(reader: io.BufferedReader, _file: str, _path: str) -> Iterator[RawRecord]:
    """Yield the calls: the context at the end, less the answer, is the prompt; the steps say how much of it was computed."""
    computed = answered = None
    for line in lines_of(reader):
        for step in _KOBOLD_STEP.finditer(line.text):  # progress overwrites itself, so one line has several
            if step[1] == "Generating":
                answered = int(step[2])
            else:
                computed, answered = int(step[3]), None
        if (end := _KOBOLD_END.search(line.text)) is None:
            continue
        output = int(end[2]) if end[2] is not None else answered
        if computed is not None and output is not None and int(end[1]) > output:
            tokens = int(end[1]) - output
            said = counted_usage(tokens, max(tokens - computed, 0), None)
            said["usage"]["completion_tokens"] = output
            yield RawRecord(b"", line.number, 1, True, None, line.offset, value=said)
        computed = answered = None


def counted_usage(prompt: int, cached: int, time: object) -> dict[str, Any]:
    """Return a record of tokens that a server counted, without their prompt."""
    counts = {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"without_prompt": True, "usage": counts, **({} if time is None else {"timestamp": time})}


_EXAMPLE = """
{"without_prompt": true, "timestamp": "2026-02-02T09:00:00Z", "model": "gpt-4o",
 "usage": {"prompt_tokens": 24, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}}
"""
FORMAT = RecordFormat(
    "usage", "usage, and no prompt", lambda fields: "without_prompt" in fields, read, unit="s", example=_EXAMPLE
)
FILE_KINDS = (
    FileKind(
        "llama-log",
        "slot … new prompt … prompt eval time",
        begins_llama,
        slot_records,
        example=(
            "slot update_slots: id  0 | task 1 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 24\n"
            "slot print_timing: id  0 | task 1 |\n"
            "prompt eval time =      79.44 ms /     8 tokens (    9.93 ms per token,   100.70 tokens per second)\n"
            "       eval time =      36.76 ms /     2 tokens (   18.38 ms per token,    54.41 tokens per second)\n"
        ),
        file="llama.log",
    ),
    FileKind(
        "ollama-log",
        'msg="loading cache slot"',
        begins_ollama,
        slot_records,
        example=(
            "time=2026-02-02T09:00:00.240Z level=DEBUG source=cache.go:142 "
            'msg="loading cache slot" id=0 cache=17 prompt=24 used=16 remaining=8\n'
        ),
        file="ollama.log",
    ),
    FileKind(
        "koboldcpp-log",
        "Processing Prompt … CtxLimit",
        begins_kobold,
        kobold_records,
        example=(
            "Processing Prompt (8 / 8 tokens)\n"
            "Generating (2 / 100 tokens)\n"
            "[09:00:00] CtxLimit:26/4096, Amt:2/100, Init:0.00s, Process:0.08s (100.70T/s), Generate:0.04s (54.41T/s)\n"
        ),
        file="koboldcpp.log",
    ),
)
