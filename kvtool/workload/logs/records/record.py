"""One record of a log as the format functions see it: its fields, where it is, and turns made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, SupportsIndex

import numpy as np
import orjson

from kvtool.text.bounded_number import finite_number, whole_number
from kvtool.text.files.json_stream import has_too_many_values
from kvtool.text.message import Message
from kvtool.text.traced import Origin, Traced
from kvtool.workload.call import NO_CALL, Call
from kvtool.workload.logs import TRACE_BLOCK
from kvtool.workload.logs.groups.session_names import session_of
from kvtool.workload.logs.records.caller_ids import session_of_caller
from kvtool.workload.logs.records.streamed_answers import answer_in
from kvtool.workload.logs.records.written_times import with_written_times
from kvtool.workload.turn import LocalTime, RequestName, Turn

Unit = Literal["s", "ms", "us", "ns"]
_SECONDS: dict[Unit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ZONE = re.compile(r" ?(?:UTC|GMT|Z)$")
FIRST_DATE = 1e9
"""Seconds since 1970, in 2001: times before it count from a start of their own."""
_EPOCH_RANGE = (FIRST_DATE, 1e10)  # up to the year 2286
_LATEST = 1e19
"""The end of that range in ns, the smallest unit: what is later is no time."""

# The names under which logs write these things; the first one that is there counts.
_TIME_UNITS: tuple[tuple[str, Unit], ...] = (
    ("arrival_time_ns", "ns"),
    ("timestamp_ns", "ns"),
    ("timestamp_us", "us"),
    ("timestamp_ms", "ms"),
    ("__REALTIME_TIMESTAMP", "us"),
)
_TIMES = (
    *("timestamp", "arrival_time", "arrived_at", "start_time", "startTime", "request_created_at", "created_at"),
    *("created", "logging_time", "time", "ts", "@timestamp", "date"),
)
_IDS = ("id", "custom_id", "request_id")
RESPONSES = ("response", "response_body", "full_response", "completion", "output")
"""Where the answer to a request is."""
_SESSIONS = ("session_id", "conversation_id", "thread_id", "sessionId")
_OUTPUT_LENGTHS = (
    *("output_length", "output_tokens", "output_tokens_count", "output_toks", "output_len", "completion_tokens"),
)


class RecordError(Exception):
    """A record cannot be used; `pointer` leads to the value inside it that is at fault."""

    def __init__(self, message: str, pointer: tuple[str | int, ...] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.hint = hint


class RecordJoins(Protocol):
    """Finds records of the source by the ids that they share."""

    def has(self, kind: str, key: str) -> bool: ...
    def find(self, kind: str, key: str) -> list[Record]: ...


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a record and what its source says about it. `label` names it within its file, `ordinal` within the source.

    `number` counts the records of the file from 1; `of_many`: the source has other files, too.
    """

    path: str
    line: int = 1
    column: int = 1
    label: str = "1"
    ordinal: int = 1
    group: str = "log"
    block_size: int = TRACE_BLOCK
    number: int = 1
    of_many: bool = False
    joins: RecordJoins | None = None
    """What other records of the source say of the same calls; None while these are still looked for."""
    file_name: str = ""
    """What the file is called among those of the source, in short."""

    @property
    def session(self) -> str:
        """Return the name of the record's conversation, where it names none."""
        return session_of(self.file_name or self.path, self.path, self.label, self.number)

    @property
    def name(self) -> str:
        """Return the record's name within the source."""
        return f"{self.path}:{self.label}" if self.of_many else self.label


@dataclass(frozen=True, slots=True)
class Record:
    """The object that holds the prompt (`fields`, at `pointer`) and the objects around it, innermost first."""

    fields: dict[str, Any]
    where: Where
    pointer: tuple[str | int, ...] = ()
    around: tuple[dict[str, Any], ...] = ()
    in_text: bool = False
    """Whether it is JSON in a text of the record: then `pointer` leads to that text, and nothing to what is in it."""

    def inner(self, *path: str | int) -> Record | None:
        """Return the object at this path, with all on the way around it; JSON in a text counts as what it says. None: there is
        none."""
        pointer, in_text = self.pointer, self.in_text
        value: Any = self.fields
        around = [self.fields]
        """One for each step, so that they are where the pointer says."""
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
            pointer = pointer if in_text else (*pointer, step)
            if isinstance(value, str) and (parsed := parsed_text(value)) is not None:
                value, in_text = parsed, True
            around.insert(0, value if isinstance(value, dict) else {})
        if not isinstance(value, dict):
            return None
        return Record(value, self.where, pointer, (*around[1:], *self.around), in_text)

    def holding(self, fields: dict[str, Any], *path: str | int) -> Record:
        """Return the same record with other fields: those that it has at `path`, made into the form of a body of a chat API."""
        pointer = self.pointer if self.in_text else (*self.pointer, *path)
        return Record(fields, self.where, pointer, self.around, self.in_text)

    def error(self, message: str, *path: str | int, hint: str | None = None) -> RecordError:
        return RecordError(message, self.pointer if self.in_text else (*self.pointer, *path), hint)

    def found(self, *names: str) -> tuple[Any, tuple[str | int, ...]]:
        """Return the value of `first` with its path; JSON in a text counts as what it says, as do events of an answer."""
        for depth, fields in enumerate((self.fields, *self.around)):
            for name in names:
                if name in fields and (value := fields[name]) is not None:
                    base = self.pointer if self.in_text else self.pointer[: max(len(self.pointer) - depth, 0)]
                    if name in RESPONSES:
                        value = answer_in(value)
                    elif isinstance(value, str) and (parsed := parsed_text(value)) is not None:
                        value = parsed
                    return value, base if self.in_text else (*base, name)
        return None, self.pointer

    def first(self, *names: str) -> Any:
        """Return the first of these fields that is there, in the object itself or else around it; None if none is."""
        for fields in (self.fields, *self.around) if self.around else (self.fields,):
            for name in names:
                if name in fields and (value := fields[name]) is not None:
                    return value
        return None

    def required(self, *names: str) -> tuple[str, Any]:
        """Return name and value of the field that is there."""
        for name in names:
            if self.fields.get(name) is not None:
                return name, self.fields[name]
        raise self.error(f"`{'` or `'.join(names)}` is missing")

    def list_of(self, name: str) -> list[Any]:
        value = self.required(name)[1]
        if not isinstance(value, list):
            raise self.error(f"`{name}` must be a list, not {kind(value)}", name)
        return value

    def count(self, *names: str, least: int = 0) -> int:
        """Return a whole number that is not negative."""
        name, value = self.required(*names)
        return whole(self, value, name, name, least=least)

    def text(self, value: object, *path: str | int, part: str, name: str = "") -> Traced:
        """Return a string of the record that remembers where it is."""
        if not isinstance(value, str):
            raise self.error(f"{name or f'`{path[-1]}`'} must be text, not {kind(value)}", *path)
        where = self.where
        pointer = () if self.in_text else (*self.pointer, *path)
        return Traced.of(
            value, Origin(where.path, where.line, where.column, verbatim=False, pointer=pointer, part=part, text=value)
        )

    @property
    def own_id(self) -> str | None:
        value = self.first(*_IDS)
        return str(value) if isinstance(value, str | int) else None

    @property
    def own_session(self) -> str | None:
        value = self.first("session_id", "conversation_id", "conversation_hash")
        if value is None and (value := self.first("sessionId", "thread_id", "conversation", "session")) is None:
            for fields in (self.fields, *self.around):
                if isinstance(inner := fields.get("metadata"), dict):
                    value = next((inner[name] for name in _SESSIONS if inner.get(name) is not None), value)
        if isinstance(value, dict):
            value = value.get("id")
        if isinstance(value, str | int):
            return str(value)
        return next((found for each in (self.fields, *self.around) if (found := session_of_caller(each))), None)

    @property
    def session(self) -> str:
        """Return the session of the record's turns, whether or not the record names one."""
        return self.own_session or self.where.session

    def arrival(self, unit: Unit = "s") -> float | None:
        """Return seconds, on the clock of the log; `unit` is what the format counts small numbers in."""
        for fields in (self.fields, *self.around):
            if (found := time_of(fields, unit)) is not None:
                return found
        answer = self.first("response", "response_body")
        answer = answer.get("body", answer) if isinstance(answer, dict) else None
        if isinstance(answer, dict):
            return seconds(answer.get("created", answer.get("created_at")), unit)
        return None

    def output_tokens(self) -> int | None:
        """Return the length of the answer where the record gives it."""
        for name in _OUTPUT_LENGTHS:
            value = self.first(name)
            if value is not None:
                return whole(self, value, name, *((name,) if name in self.fields else ()))
        return None

    def turn(self, *, index: int = 0, turns: int = 1, unit: Unit = "s", call: Call = NO_CALL, **content: Any) -> Turn:
        """Return a request of this record: number `index` of `turns`. Only the first one has an arrival, the others follow
        answers."""
        own_id = self.own_id
        extra = self.first("chat_template_kwargs")
        salt = self.first("cache_salt")
        turn = Turn(
            group=self.where.group,
            session=self.own_session or (self.session if turns > 1 else None),
            index=index,
            id=f"{own_id or self.where.name}:{index}" if turns > 1 or own_id is None else own_id,
            arrival=None if index else self.arrival(unit),
            salt=salt if isinstance(salt, str) else None,
            written=(self.where.path, self.where.line, self.where.column),
            name=RequestName(self.where.path, self.where.number, index + 1 if turns > 1 else 0),
            call=with_written_times(call, content.get("tools"), content.get("messages")),
            **content,
        )
        if isinstance(extra, dict):
            turn.extra = extra
        if turn.output_tokens is None and turn.output_text is None and turn.output_ids is None and turns == 1:
            turn.output_tokens = self.output_tokens()
        return turn

    def promptless_turn(self, call: Call) -> Turn:
        """Return a request of one token, which is in place of its prompt, and what its server reports of it."""
        tokens = None if call.usage is None else call.usage.output
        return self.turn(call=call, token_ids=np.zeros(1, np.int32), output_tokens=tokens)


class Transcript:
    """The requests of a recorded conversation, one per assistant turn, made when asked for: the prompts together are
    quadratic in the length of the conversation, so they never exist all at once. Messages are shared between them."""

    def __init__(
        self,
        record: Record,
        messages: list[Message],
        answers: list[int],
        content: dict[str, Any],
        told: Callable[[int], tuple[Call, float | None]] | None = None,
    ) -> None:
        """`told` gives what the record says of the call of the message of a number, and when that began."""
        self._record = record
        self._messages = messages
        self._answers = answers
        self._content = content
        self._told = told

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, index: SupportsIndex, /) -> Turn:
        position = index.__index__()
        at = self._answers[position]
        call, began = (NO_CALL, None) if self._told is None else self._told(at)
        turn = self._record.turn(
            index=position,
            turns=max(len(self._answers), 2),  # a transcript is a session even with one answer in it
            call=call,
            messages=self._messages[:at],
            output_text=text_of(self._messages[at]),
            **self._content,
        )
        if began is not None:
            turn.arrival = began
        return turn


class Dialogue(list[Turn]):
    """Turns that hold only what the user adds; the answers between them are not recorded, they come from the engine."""


def text_of(message: Message) -> str:
    """Return the text that a model wrote for this message: its text, then its tool calls as JSON."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    text = str.__str__(content) if isinstance(content, str) else ""
    calls = message.get("tool_calls")
    return text + json.dumps(calls, ensure_ascii=False, separators=(",", ":")) if calls else text


def object_of(value: object) -> dict[str, Any]:
    """Return the object that a value is; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def parsed_text(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or the list that a text is the JSON of, or the JSON of a text of; None where it is something else."""
    if text[:2] in ('"{', '"['):  # it was written as JSON twice
        try:
            text = str(orjson.loads(text))
        except orjson.JSONDecodeError:
            return None
    if text[:1] not in ("{", "[") and text.lstrip()[:1] not in ("{", "["):
        return None
    if has_too_many_values(text):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict | list) else None


def whole(record: Record, value: object, name: str, *path: str | int, least: int = 0) -> int:
    """Return `value` as a whole number; logs also write them as 12.0."""
    number = whole_number(value, least=least, most=(1 << 31) - 1)
    if number is None:
        raise record.error(
            f"`{name}` must be a whole number from {least} to {(1 << 31) - 1:,}, not {kind(value)}", *path
        )
    return number


def time_of(fields: dict[str, Any], unit: Unit = "s") -> float | None:
    """Return when the fields say that something began."""
    for name, fixed in _TIME_UNITS:
        if name in fields:
            return seconds(fields[name], fixed, fixed=True)
    for name in _TIMES:
        if name in fields and (found := seconds(fields[name], unit)) is not None:
            return found
    return None


def seconds(value: object, unit: Unit, *, fixed: bool = False) -> float | None:
    """Return a time in seconds: an ISO 8601 text, or a number. A number in the range of today's clocks (since 1970, in s, ms, µs
    or ns) is in that unit, unless `fixed`; any other is in `unit`. None for what is no time."""
    if isinstance(value, LocalTime):
        return value
    number = finite_number(value, least=-_LATEST, most=_LATEST, in_text=True)
    if number is None:
        return _iso_seconds(value) if isinstance(value, str) else None
    if not fixed and number >= _EPOCH_RANGE[0]:
        low, high = _EPOCH_RANGE
        unit = next((each for each, factor in _SECONDS.items() if low <= number * factor < high), unit)
    return number * _SECONDS[unit]


def _iso_seconds(text: str) -> float | None:
    """Return the seconds of a text of ISO 8601, also with slashes and the name of a zone; else of a date as in mails and HTTP."""
    plain = _ZONE.sub("+00:00", text.strip())
    if plain[4:5] == plain[7:8] == "/":
        plain = plain.replace("/", "-", 2)
    try:
        time = datetime.fromisoformat(plain)
        return since_1970(time)
    except (ValueError, OverflowError):
        pass
    if not plain[:1].isalpha():
        return None
    from email.utils import parsedate_to_datetime

    try:
        return since_1970(parsedate_to_datetime(text))
    except (ValueError, OverflowError, TypeError):
        return None


def since_1970(time: datetime) -> float:
    """Return the seconds since 1970 of a time, which may be of no zone."""
    return time.timestamp() if time.tzinfo else LocalTime(time.replace(tzinfo=UTC).timestamp())


def kind(value: object) -> str:
    """Return the words for a JSON value in a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a huge number" if abs(value) >= 1e15 else f"the number {value}"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"
