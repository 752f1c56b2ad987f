"""Records of a JSON file, one at a time: the lines of JSON lines, the elements of a top-level array, objects on many lines.

A file is read as lines where its first line is a whole value (or its second one begins like a record, so that the first is
merely broken). Else brackets are counted, which finds the ends of values on many lines and of array elements without parsing
what is between them. An array whose elements are chat messages is one record.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from kvtool.text.files.json_file import unreadable_at

MAX_RECORD = 256 << 20
"""Bytes of one record; longer ones are an error, so that a file of one endless line cannot fill the memory."""

_HEAD = 1 << 16
_CHUNK = 1 << 20
_EXCERPT = 200
_QUOTE = ord('"')
_SPACES = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*+")
# A whole string, or a bracket, or the quote of a string whose end has not been read yet.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{}]', re.DOTALL)


class RawRecord(NamedTuple):
    """The bytes of one record and where they begin; `problem` says why they are not one (`data` is then just an excerpt)."""

    data: bytes
    line: int
    column: int
    is_line: bool
    problem: str | None = None


class NotJSONError(Exception):
    """A record does not parse; `index` is the place in its text, and `text` is None where it is not UTF-8."""

    def __init__(self, reason: str, index: int, text: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index
        self.text = text


def parse(data: bytes) -> Any:
    """The value of a JSON text; NaN and lone surrogates (as U+FFFD) are let through. Raises NotJSONError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotJSONError(f"byte 0x{data[error.start]:02x} is not UTF-8", error.start, None) from None
    try:
        return _without_surrogates(json.loads(text))
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at").removesuffix(" starting")
        raise NotJSONError(reason[:1].lower() + reason[1:], error.pos, text) from None
    except RecursionError:
        raise NotJSONError("nested too deeply", unreadable_at(text), text) from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotJSONError(str(error).partition(";")[0], unreadable_at(text), text) from None


def read_records(reader: io.BufferedReader, *, step: int = _CHUNK) -> Iterator[RawRecord]:
    """The records of a file, in order. A `problem` that leaves the end of a record unknown is the last one.

    `step` bytes of lines are read at a time.
    """
    head, line = b"", 1
    while chunk := reader.read(_HEAD):
        blank = _BLANK.match(chunk)
        cut = chunk.rfind(b"\n", 0, blank.end() if blank else 0) + 1
        line += chunk.count(b"\n", 0, cut)
        head = chunk[cut:]
        if not head.isspace() and head:
            break
    if _is_lines(head):
        return _lines(head, reader, line, step)
    return _Scanner(head, reader, line).records()


def is_message(value: object) -> bool:
    """Whether a value looks like one message of a chat, in the way of the APIs or of ShareGPT."""
    if not isinstance(value, dict):
        return False
    return ("role" in value and ("content" in value or "tool_calls" in value)) or ("from" in value and "value" in value)


def _without_surrogates(value: Any) -> Any:
    """No tokenizer takes a lone surrogate; U+FFFD is what decoders put in its place, and it keeps every offset."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _is_lines(head: bytes) -> bool:
    start = head.lstrip(_SPACES)[:1]
    if start != b"{":
        return start != b"["
    first, newline, rest = head.partition(b"\n")
    if not newline:
        return True  # one long line that is an object
    try:
        parse(first)
    except NotJSONError:
        rest = rest.lstrip(b"\r\n")
        return not rest or rest.startswith(b"{")
    return True


def _lines(head: bytes, reader: io.BufferedReader, number: int, step: int) -> Iterator[RawRecord]:
    parts: list[bytes] = []  # of the line that is being read
    size = 0
    chunk = head
    while chunk:
        ends = chunk.split(b"\n")
        for part in ends[:-1]:
            line = b"".join((*parts, part)) if parts else part
            size += len(part)
            if size > MAX_RECORD:
                yield _too_long(line, number)
            elif line and not line.isspace():
                yield RawRecord(line.removesuffix(b"\r"), number, 1, True)
            number += 1
            size = 0
            parts.clear()
        size += len(ends[-1])
        parts.append(ends[-1])
        if size > MAX_RECORD:
            parts = [b"".join(parts)[:_EXCERPT]]  # the rest of the line is only counted
        chunk = reader.read(step)
    line = b"".join(parts)
    if size > MAX_RECORD:
        yield _too_long(line, number)
    elif line and not line.isspace():
        yield RawRecord(line, number, 1, True)


def _too_long(line: bytes, number: int) -> RawRecord:
    return RawRecord(line[:_EXCERPT], number, 1, True, f"a record of more than {MAX_RECORD >> 20} MiB")


class _LostError(Exception):
    """The text is not JSON in a way that leaves the place of the next record unknown."""


class _Scanner:
    """Finds records by counting brackets. `_buffer[_at:]` is unread, and begins at `_line` and `_column` of the file."""

    def __init__(self, head: bytes, reader: io.BufferedReader, line: int) -> None:
        self._reader = reader
        self._buffer = head
        self._at = 0
        self._line = line
        self._column = 1

    def records(self) -> Iterator[RawRecord]:
        """Every top-level value is a record, or an array of records."""
        try:
            while start := self._skip_spaces():
                if start == b"[" and not self._is_one_record():
                    yield from self._elements()
                else:
                    yield self._value()
        except _LostError as lost:
            data = self._buffer[self._at : self._at + _EXCERPT]
            yield RawRecord(data, self._line, self._column, False, str(lost))

    def _elements(self) -> Iterator[RawRecord]:
        """The elements of the array that begins here."""
        self._take(1)
        if self._skip_spaces() == b"]":
            self._take(1)
            return
        while True:
            yield self._value()
            separator = self._skip_spaces()
            if separator == b"]":
                self._take(1)
                return
            if separator != b",":
                raise _LostError("expected `,` or `]` after an array element")
            self._take(1)
            self._skip_spaces()

    def _value(self) -> RawRecord:
        """The object or array that begins here; all the rest of the file where its end is missing."""
        if self._buffer[self._at : self._at + 1] not in (b"{", b"["):
            raise _LostError("expected a record, `{` or `[`")
        length = self._end(0) or len(self._buffer) - self._at
        line, column = self._line, self._column
        return RawRecord(self._take(length), line, column, False)

    def _is_one_record(self) -> bool:
        """Whether the array that begins here is a list of messages (or of numbers), and not of records."""
        offset = 1
        while True:
            blank = _BLANK.match(self._buffer, self._at + offset)
            offset = (blank.end() if blank else self._at + offset) - self._at
            first = self._buffer[self._at + offset : self._at + offset + 1]
            if first or not self._more():
                break
        if first != b"{":
            return first not in (b"[", b"]")
        end = self._end(offset)
        if not end:
            return False
        try:
            return is_message(parse(self._buffer[self._at + offset : self._at + end]))
        except NotJSONError:
            return False

    def _end(self, offset: int) -> int:
        """Where the value at `_at + offset` ends, counted from `_at`; 0 where the file ends before."""
        depth = 0
        while True:
            for token in _TOKEN.finditer(self._buffer, self._at + offset):
                start, end = token.span()
                byte = self._buffer[start]
                if byte == _QUOTE:
                    if end - start == 1:
                        offset = start - self._at
                        break
                elif byte in b"{[":
                    depth += 1
                else:
                    depth -= 1
                    if not depth:
                        return end - self._at
                offset = end - self._at
            if len(self._buffer) - self._at > MAX_RECORD:
                raise _LostError(f"a record of more than {MAX_RECORD >> 20} MiB")
            if not self._more():
                return 0

    def _more(self) -> bool:
        """Reads at least as much again as is unread, so that a long record is copied only a few times."""
        rest = self._buffer[self._at :]
        chunk = self._reader.read(max(_CHUNK, len(rest)))
        self._buffer = rest + chunk
        self._at = 0
        return bool(chunk)

    def _skip_spaces(self) -> bytes:
        """The first byte that is not blank, not taken; empty at the end of the file."""
        while True:
            blank = _BLANK.match(self._buffer, self._at)
            self._take((blank.end() if blank else self._at) - self._at)
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def _take(self, length: int) -> bytes:
        data = self._buffer[self._at : self._at + length]
        self._at += length
        if newlines := data.count(b"\n"):
            self._line += newlines
            self._column = 1
        tail = data[data.rfind(b"\n") + 1 :] if newlines else data
        self._column += len(tail) if tail.isascii() else len(tail.decode(errors="replace"))
        return data
