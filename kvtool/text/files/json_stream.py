"""Records of a JSON file, one at a time: the lines of JSON lines, the elements of a top-level array, objects on many lines.

A file is read as lines where its first line is a whole value (or its second one begins like a record, so that the first is
merely broken). Else brackets are counted, which finds the ends of values on many lines and of array elements without parsing
what is between them. An array whose elements are chat messages is one record.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import orjson

from kvtool.text.files.json_file import unreadable_at

MAX_RECORD = 64 << 20
"""Bytes of one record; longer ones are an error, so that a file of one endless line cannot fill the memory. APIs take requests of
50 MB at most, with their images."""
MOST_VALUES = 2 << 20
"""Of one record; each takes up to a hundred bytes of memory, and three in the file."""

_HEAD = 1 << 16
_CHUNK = 1 << 20
_EXCERPT = 200
_DEEPEST_LIST = 2
"""Objects in the one object of a file in which the list of records may be."""
_QUOTE = ord('"')
_SPACES = b" \t\r\n"
_BEFORE_VALUES = (b",", b"[", b"{")
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")
_BLANK = re.compile(rb"[ \t\r\n]*+")
# A whole string, or a bracket, or the quote of a string whose end has not been read yet.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{}]', re.DOTALL)
_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,\[{]', re.DOTALL)
_SCALAR = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.0-9A-Za-z]++', re.DOTALL)


class RawRecord(NamedTuple):
    """The bytes of one record and where they begin; `problem` says why they are not one (`data` is then just an excerpt).

    `offset` counts bytes from where reading began. `around` is what is before the list that a record is an element of, where
    that list is a member of an object. `value` is what `data` means where that is no JSON: a row of a table, an entry of an
    archive.
    """

    data: bytes
    line: int
    column: int
    is_line: bool
    problem: str | None = None
    offset: int = 0
    around: dict[str, Any] | None = None
    value: Any = None


class NotJSONError(Exception):
    """A record does not parse; `index` is the place in its text, and `text` is None where it is not UTF-8."""

    def __init__(self, reason: str, index: int, text: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index
        self.text = text


def parse(data: bytes) -> Any:
    """The value of a JSON text; NaN and lone surrogates (as U+FFFD) are let through. Raises NotJSONError."""
    if has_too_many_values(data):
        raise NotJSONError(f"a record of more than {MOST_VALUES:,} values", 0, "")
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


def has_too_many_values(data: bytes | str) -> bool:
    """Return whether a JSON text has more values than a record may, by the marks before them that are in no string."""
    if len(data) <= MOST_VALUES:
        return False
    data = data.encode(errors="replace") if isinstance(data, str) else data
    if sum(map(data.count, _BEFORE_VALUES)) <= MOST_VALUES:
        return False
    marks = (found for found in _MARK.finditer(data) if found[0] in _BEFORE_VALUES)
    return next(islice(marks, MOST_VALUES, None), None) is not None


Opens = Callable[[dict[str, Any], tuple[str, ...], Any], bool]
"""Whether a list of objects inside the one object of a file holds the records: reported what is before it, the names that lead to
it and its first element (None: that is long)."""


def read_records(reader: io.BufferedReader, *, step: int = _CHUNK, opens: Opens | None = None) -> Iterator[RawRecord]:
    """The records of a file, in order. A `problem` that leaves the end of a record unknown is the last one.

    `step` bytes of lines are read at a time. Where the file is one object, `opens` says of its first list whether that holds them.
    """
    head, line, offset = b"", 1, 0
    while chunk := reader.read(_HEAD):
        blank = _BLANK.match(chunk)
        cut = chunk.rfind(b"\n", 0, blank.end() if blank else 0) + 1
        line += chunk.count(b"\n", 0, cut)
        head = chunk[cut:]
        if not head.isspace() and head:
            offset += cut
            break
        offset += len(chunk)
    lines = _is_lines(head)
    several = lines and b"\n" in head.rstrip(_SPACES)
    if opens is not None and not several and (found := _opened_list(head, opens)) is not None:
        at, around, depth = found
        return _Scanner(head, reader, line, offset).elements_at(at, around, depth)
    if lines:
        return _lines(head, reader, line, step, offset)
    return _Scanner(head, reader, line, offset).records()


def _opened_list(head: bytes, opens: Opens) -> tuple[int, dict[str, Any], int] | None:
    """Find the list of the records in the beginning of a file, the members before it, and in how many objects it
    is; None: there is none. It may be in an object that is too long to be read at once."""
    at = _blank_end(head, 0)
    if head[at : at + 1] != b"{":
        return None
    around: dict[str, Any] = {}
    inside, path = around, tuple[str, ...]()
    at = _blank_end(head, at + 1)
    while head[at : at + 1] == b'"':
        key = _TOKEN.match(head, at)
        if key is None or len(key[0]) < 2:
            return None
        at = _blank_end(head, key.end())
        if head[at : at + 1] != b":":
            return None
        at = _blank_end(head, at + 1)
        try:
            name = str(orjson.loads(key[0]))
            if head[at : at + 1] == b"[":
                first = _blank_end(head, at + 1)
                if head[first : first + 1] == b"{":
                    end = _value_end(head, first)
                    element = orjson.loads(head[first:end]) if end else None
                    if opens(around, (*path, name), element):
                        return at, around, len(path) + 1
            end = _value_end(head, at)
            if not end and head[at : at + 1] == b"{" and len(path) < _DEEPEST_LIST:
                inside[name] = inside = {}
                path = (*path, name)
                at = _blank_end(head, at + 1)
                continue
            if not end:
                return None
            inside[name] = orjson.loads(head[at:end])
        except orjson.JSONDecodeError:
            return None
        at = _blank_end(head, end)
        if head[at : at + 1] != b",":
            return None
        at = _blank_end(head, at + 1)
    return None


def _blank_end(data: bytes, at: int) -> int:
    blank = _BLANK.match(data, at)
    return blank.end() if blank else at


def _value_end(data: bytes, at: int) -> int:
    """Return the end of a value; 0 where the data end before, or it is none."""
    first = data[at : at + 1]
    if first not in (b"{", b"["):
        scalar = _SCALAR.match(data, at)
        return scalar.end() if scalar and scalar.end() < len(data) else 0
    depth = 0
    for token in _TOKEN.finditer(data, at):
        text = token[0]
        if text == b'"':
            return 0
        if text in _OPENING:
            depth += 1
        elif text in _CLOSING:
            depth -= 1
            if not depth:
                return token.end()
    return 0


def is_message(value: object) -> bool:
    """Return whether a value looks like one message of a chat, in the way of the APIs or of ShareGPT."""
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


def _lines(head: bytes, reader: io.BufferedReader, number: int, step: int, offset: int) -> Iterator[RawRecord]:
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
                yield RawRecord(line.removesuffix(b"\r"), number, 1, True, None, offset)
            number += 1
            offset += size + 1
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
        yield RawRecord(line, number, 1, True, None, offset)


def _too_long(line: bytes, number: int) -> RawRecord:
    return RawRecord(line[:_EXCERPT], number, 1, True, f"a record of more than {MAX_RECORD >> 20} MiB")


class _LostError(Exception):
    """The text is not JSON in a way that leaves the place of the next record unknown."""


class _Scanner:
    """Finds records by counting brackets. `_buffer[_at:]` is unread, and begins at `_line` and `_column` of the file."""

    def __init__(self, head: bytes, reader: io.BufferedReader, line: int, offset: int) -> None:
        self._reader = reader
        self._buffer = head
        self._at = 0
        self._line = line
        self._column = 1
        self._offset = offset

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

    def elements_at(self, at: int, around: dict[str, Any], depth: int) -> Iterator[RawRecord]:
        """The elements of the array that begins at `at` of what is read; what is after it in its objects is passed over."""
        self._take(at)
        try:
            for raw in self._elements():
                yield raw._replace(around=around)
            self._pass_over(depth)
            yield from self.records()
        except _LostError as lost:
            data = self._buffer[self._at : self._at + _EXCERPT]
            yield RawRecord(data, self._line, self._column, False, str(lost))

    def _pass_over(self, depth: int) -> None:
        """The rest of the objects that the array was in, to their end."""
        while depth:
            offset = 0
            for token in _TOKEN.finditer(self._buffer, self._at):
                start, end = token.span()
                byte = self._buffer[start]
                if byte == _QUOTE and end - start == 1:
                    break
                depth += (byte in b"{[") - (byte in b"]}")
                offset = end - self._at
                if not depth:
                    break
            else:
                offset = len(self._buffer) - self._at
            self._take(offset)
            if depth and not self._more():
                raise _LostError("the object is never closed")

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
        line, column, offset = self._line, self._column, self._offset
        return RawRecord(self._take(length), line, column, False, None, offset)

    def _is_one_record(self) -> bool:
        """Return whether the array that begins here is a list of messages (or of numbers), and not of records."""
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
        """Return the end of the value at `_at + offset`, counted from `_at`; 0 where the file ends before."""
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
        self._offset += length
        if newlines := data.count(b"\n"):
            self._line += newlines
            self._column = 1
        tail = data[data.rfind(b"\n") + 1 :] if newlines else data
        self._column += len(tail) if tail.isascii() else len(tail.decode(errors="replace"))
        return data
