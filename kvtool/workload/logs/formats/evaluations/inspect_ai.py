"""Logs of inspect_ai: samples, and in each the events of its calls. Long texts are beside the events, and messages in a pool.

`.json` is one object with a list of samples; `.eval` is an archive with a file for each.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.json_stream import MAX_RECORD, NotJSONError, RawRecord, parse
from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.records.call_context import FieldsAround, found_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.chat_records import message_at, requests_of
from kvtool.workload.logs.records.failed_calls import CACHED, FAILED
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds, text_of
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_PREFIXES = ("tc://", "attachment://")
_DEEPEST = 40  # references inside references: a bound for hostile logs
_MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")
_ZSTD = 93  # the number of the method in ZIP's specification
_LOCAL_HEADER = struct.Struct("<26xHH")
_CUT_OUT = "its texts are not in the file"


def read(record: Record) -> Reading:
    """Return the calls of a sample; where no event reports them, what its messages say."""
    events = record.fields.get("events")
    path: tuple[str | int, ...] = ("events",)
    if not isinstance(events, list) and isinstance(old := record.fields.get("transcript"), dict):
        events, path = old.get("events"), ("transcript", "events")
    sample = _Sample(record)
    found = Several()
    for at, event in enumerate(events if isinstance(events, list) else []):
        if isinstance(event, dict) and event.get("event") == "model":
            found.append(sample.call(event, (*path, at)))
    if found:
        return found
    messages = record.fields.get("messages")
    if not isinstance(messages, list) or not any(
        isinstance(m, dict) and m.get("role") == "assistant" for m in messages
    ):
        return LeftOut("empty sample")
    made = [message for i, each in enumerate(messages) for message in sample.messages(each, "messages", i)]
    turns = requests_of(replace(record, fields={}), made, transcript=True)
    around = FieldsAround(session=sample.session, model=sample.model)
    return around.put_on(FoundCall(turns))


class _Sample:
    """A sample, and what its events refer to."""

    def __init__(self, record: Record) -> None:
        self._record = replace(record, fields={})
        fields = record.fields
        attachments = fields.get("attachments")
        self._attachments: dict[str, Any] = object_of(attachments)
        data = fields.get("events_data")
        self._pool_at: tuple[str | int, ...] = ("message_pool",)
        self._pool: list[Any] = []
        if isinstance(fields.get("message_pool"), list):
            self._pool = fields["message_pool"]
        elif isinstance(data, dict) and isinstance(data.get("messages"), list):
            self._pool, self._pool_at = data["messages"], ("events_data", "messages")
        self._made: dict[str, tuple[list[Message], bool]] = {}
        """Messages and whether they are whole, by what they were made of: prompts share them, however often they are written."""
        self._lost = False
        about: dict[str, Any] = next((each["eval"] for each in record.around if isinstance(each.get("eval"), dict)), {})
        run = names_of([about.get("eval_id"), about.get("run_id"), about.get("task")]) or record.where.path
        self.session = f"{run}/{names_of([fields.get('id')])}/{names_of([fields.get('epoch')])}"
        self.model = names_of([about.get("model")])

    def call(self, event: dict[str, Any], path: tuple[str | int, ...]) -> FoundCall | LeftOut:
        """Return a call with its whole prompt."""
        if event.get("cache") == "read":
            return CACHED
        output = object_of(event.get("output"))
        if event.get("pending") or not output.get("choices"):
            return FAILED
        self._lost = False
        messages: list[Message] = []
        for first, last in self._ranges(event, path):
            for number in range(first, last):
                messages += self.messages(self._pool[number], *self._pool_at, number)
        inputs = event.get("input")
        for i, each in enumerate(inputs if isinstance(inputs, list) else []):
            messages += self.messages(each, *path, "input", i)
        if not messages:
            raise self._record.error("a call has no input", *path)
        model = names_of([event.get("model"), self.model]) or ""
        provider, _, name = model.partition("/")
        choice = output["choices"][0] if isinstance(output["choices"], list) else None
        said = choice.get("message") if isinstance(choice, dict) else None
        tools = self._resolved(event.get("tools"), 0)
        around = FieldsAround(
            session=self.session,
            time=seconds(event.get("timestamp"), "s"),
            end=seconds(event.get("completed"), "s"),
            model=names_of([name.rpartition("/")[2] or None, model or None]),
            provider=provider if name else None,
            identity=names_of([event.get("uuid")]),
            usage=self._usage(output.get("usage"), (*path, "output", "usage")),
            incomplete=_CUT_OUT if self._lost else None,
        )
        answer = text_of(self._plain(said)) if isinstance(said, dict) else None
        return found_call(self._record, messages, around=around, tools=tools, answer=answer)

    def messages(self, value: Any, *path: str | int) -> list[Message]:
        """Return a message in the form of the APIs."""
        if not isinstance(value, dict):
            raise self._record.error(f"a message must be an object, not {kind(value)}", *path)
        said = json.dumps([value.get(name) for name in _MESSAGE_FIELDS])
        if said not in self._made:
            before, self._lost = self._lost, False
            label = "".join(f"[{key}]" if isinstance(key, int) else key for key in path[-2:])
            self._made[said] = message_at(self._record, self._plain(value), label, *path), self._lost
            self._lost = before
        made, lost = self._made[said]
        self._lost = self._lost or lost
        return made

    def _plain(self, message: dict[str, Any]) -> Message:
        plain: Message = {
            name: message[name] for name in ("role", "content", "tool_call_id", "name") if name in message
        }
        plain["content"] = self._resolved(plain.get("content"), 0)
        calls = message.get("tool_calls")
        if isinstance(calls, list) and calls:
            plain["tool_calls"] = [self._tool_call(each) for each in calls]
        return plain

    def _tool_call(self, call: Any) -> Any:
        if not isinstance(call, dict) or not isinstance(call.get("function"), str):
            return call
        arguments = json.dumps(self._resolved(call.get("arguments"), 0), ensure_ascii=False)
        return {
            "id": call.get("id"),
            "type": "function",
            "function": {"name": call["function"], "arguments": arguments},
        }

    def _resolved(self, value: Any, depth: int) -> Any:
        """Return a value with the texts that are beside the events."""
        if isinstance(value, str):
            prefix = next((each for each in _PREFIXES if value.startswith(each)), None)
            if prefix is None:
                return value
            found = self._attachments.get(value[len(prefix) :])
            self._lost = self._lost or not isinstance(found, str)
            return found if isinstance(found, str) else value
        if depth > _DEEPEST:
            return value
        if isinstance(value, list):
            return [self._resolved(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {key: self._resolved(each, depth + 1) for key, each in value.items()}
        return value

    def _ranges(self, event: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[tuple[int, int]]:
        refs = event.get("input_refs")
        for each in refs if isinstance(refs, list) else []:
            first, last = (each[0], each[1]) if isinstance(each, list) and len(each) > 1 else (each, each)
            if not isinstance(each, list) and isinstance(each, int):
                last = each + 1
            if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last <= len(self._pool)):
                raise self._record.error("`input_refs` points outside the pool of messages", *path, "input_refs")
            yield first, last

    def _usage(self, told: Any, path: tuple[str | int, ...]) -> Usage | None:
        """Return the tokens: `input_tokens` is what was neither read nor written, unless the total says that it is all."""
        if not isinstance(told, dict) or told.get("input_tokens") is None:
            return None
        at = (*self._record.pointer, *path)

        def count(name: str) -> int | None:
            return None if told.get(name) is None else count_of(told[name], name, at)

        fresh, output, total = count("input_tokens") or 0, count("output_tokens"), count("total_tokens")
        cached, written = count("input_tokens_cache_read"), count("input_tokens_cache_write")
        cache = (cached or 0) + (written or 0)
        whole = total is not None and total == fresh + (output or 0) and cache <= fresh
        return checked(Usage(prompt=fresh if whole else fresh + cache, cached=cached, written=written, output=output))


def records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Yield the samples of an `.eval`; each with what the header says around it."""
    del reader
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
            headers = [name for name in ("header.json", "_journal/start.json") if name in archive.namelist()]
            header = _entry(archive, headers[0], path) if headers else None
            around = object_of(header)
            if not names:
                raise KvtoolError("the evaluation has no samples", place=Place(path))
            for number, name in enumerate(names, 1):
                yield RawRecord(b"", number, 1, False, None, number, around, _entry(archive, name, path))
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError) as error:
        raise KvtoolError("a damaged archive of inspect_ai", place=Place(path)) from error
    except OSError as error:
        raise KvtoolError(f"cannot read: {error.strerror or error}", place=Place(path)) from error


def _entry(archive: zipfile.ZipFile, name: str, path: str) -> Any:
    info = archive.getinfo(name)
    if info.file_size > MAX_RECORD:
        raise KvtoolError(f"a record of more than {MAX_RECORD >> 20} MiB", place=Place(path))
    if info.compress_type == _ZSTD:
        data = _zstd(archive, info, path)
    else:
        with archive.open(info) as entry:
            data = entry.read(MAX_RECORD + 1)
    try:
        return parse(data)
    except NotJSONError as error:
        raise KvtoolError(f"an entry is not JSON ({error.reason})", place=Place(path)) from error


def _zstd(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
    """Return an entry in zstd, which zipfile does not read before Python 3.14."""
    import zstandard

    file = archive.fp
    assert file is not None
    file.seek(info.header_offset)
    name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(name + extra, io.SEEK_CUR)
    try:
        return zstandard.ZstdDecompressor().decompress(file.read(info.compress_size), max_output_size=MAX_RECORD)
    except zstandard.ZstdError as error:
        raise KvtoolError("a damaged archive of inspect_ai", place=Place(path)) from error


def is_sample(fields: Fields) -> bool:
    """Return whether a record is a sample of a log."""
    return "epoch" in fields and "input" in fields and ("target" in fields or "events" in fields)


def is_archive(head: bytes, path: str) -> bool:
    """Return whether a file begins as an `.eval`."""
    if not head.startswith(b"PK\x03\x04"):
        return False
    return path.lower().endswith(".eval") or any(
        name in head[:96] for name in (b"_journal/", b"header.json", b"samples/")
    )


_EXAMPLE = """
{"id": 1, "epoch": 1, "input": "Is it open?", "target": "Yes.", "events": [{"event": "model",
 "timestamp": "2026-02-02T09:00:00Z", "model": "openai/gpt-5.5", "input": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}],
 "output": {"choices": [{"message": {"role": "assistant", "content": "Yes."}}], "usage": {"input_tokens": 8,
 "input_tokens_cache_read": 16, "output_tokens": 2}}}]}
"""
FORMAT = RecordFormat("inspect-ai", "samples + events + epoch", is_sample, read, example=_EXAMPLE)
FILE_KINDS = (FileKind("inspect-ai", "an .eval archive", is_archive, records),)
