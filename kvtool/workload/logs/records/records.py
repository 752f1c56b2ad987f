"""Contents of a record of a log: its format, its requests, and what an order of them needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvtool.text.files.json_stream import is_message
from kvtool.workload.logs.field_names import fields_shown, is_field_name
from kvtool.workload.logs.formats.known_formats import FORMAT_NAMES, format_named, format_of, list_format
from kvtool.workload.logs.records.call_fields import answer_object, is_answer_name, unread_answer
from kvtool.workload.logs.records.failed_calls import left_out_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, RecordError, Where, kind, object_of
from kvtool.workload.logs.records.record_format import (
    NEW_KIND,
    Fields,
    FileState,
    FoundCall,
    LeftOut,
    Reading,
    RecordFormat,
    Several,
    collected,
)
from kvtool.workload.turn import Turn

WRAPPERS = (
    *("body", "request", "params", "payload", "request_body", "full_request", "kwargs"),
    *("jsonPayload", "message", "@message", "msg", "MESSAGE", "log", "line", "textPayload", "event"),
)
"""Fields that logs wrap a request in, or that collectors of logs put a line in; the rest of what is needed (ids, times, responses)
may be around them."""
LISTS = (
    *("data", "requests", "records", "items", "logs", "runs", "calls", "spans", "results", "samples", "events"),
    *("logEvents", "request_states", "batch"),
)
"""Fields that hold the records of a file that is one object."""

_PROMPT_KEYS = frozenset(("messages", "prompt", "conversations", "history", "token_ids", "hash_ids", "instructions"))
_USAGE = "usage"
"""The format of calls without prompts."""
_SHOWN_KEYS = 12  # that a message names
_MAX_DEPTH = 4  # of wrappers in wrappers
_NOWHERE = Where("")


def read_record(
    value: Any,
    where: Where,
    format_: RecordFormat | None = None,
    states: dict[str, FileState] | None = None,
    around: Fields | None = None,
) -> tuple[str, Several]:
    """Return the name of a record's format, and all that it holds; `around` is what is around it in the file. Raises
    RecordError."""
    if isinstance(value, list) and value and all(map(is_message, value)):
        name, reader = list_format(where.path)
        return name, Several([FoundCall(reader(Record({}, where), value))])
    if not isinstance(value, dict):
        raise RecordError(f"a record must be an object, not {kind(value)}")
    whole = _whole(value, where, around)
    name, items = "", Several()
    new, held = _objects_in(whole, format_, states or {})
    if new is not None:
        grown = format_named(new)
        return new, collected(grown.read(whole, states or {})) if grown.linked else Several([NEW_KIND])
    for record, found in held:
        name = found.name
        _add(items, record, found, states)
    return name, items


def _add(items: Several, record: Record, found: RecordFormat, states: dict[str, FileState] | None) -> None:
    """Put in what a record of a format holds."""
    left = None if found.unit is None else left_out_of(record)
    made = collected(left or found.read(record, {} if states is None else states))
    for item in made:
        if isinstance(item, FoundCall):
            if item.identity is None and len(made) == 1:
                item.identity, item.weak = identity_of(record)
            if found.unit is not None:
                _note_unread(record, item)
            if item.value is None and record.pointer and isinstance(record.pointer[-1], int):
                item.value = record.fields
        items.append(item)


def _note_unread(record: Record, item: FoundCall) -> None:
    """Note on a request without an answer which key of its record looks like one."""
    if not isinstance(item.turns, list) or len(item.turns) != 1:
        return
    turn: Turn = item.turns[0]
    if any(each is not None for each in (turn.output_text, turn.output_ids, turn.output_tokens)):
        return
    if (key := unread_answer(record)) is not None:
        shown = f"`{key}`" if is_answer_name(key) or is_field_name(key) else "an unknown key"
        turn.call = replace(turn.call, unread=shown)


@dataclass(frozen=True, slots=True)
class DatedCall:
    """A call, before it is read: when it was made, and what it is called."""

    time: float | None
    identity: str | None


PaintOfFate = tuple[list[DatedCall | None], list[Key], bool]


def outline(
    value: Any,
    where: Where,
    format_: RecordFormat | None,
    states: dict[str, FileState],
    around: Fields | None = None,
) -> PaintOfFate:
    """Return the contents of a record, as far as an order needs them (None: no call); the ids that others may ask for it by;
    whether it must be read in the order of its file. Raises RecordError."""
    if not isinstance(value, dict):
        _, items = read_record(value, where, format_, states, around)
        return dated_calls(items), [], False
    whole = _whole(value, where, around)
    seen: list[DatedCall | None] = []
    keys: list[Key] = []
    state = False
    new, held = _objects_in(whole, format_, states)
    if new is not None:
        return [None], keys, True
    for record, found in held:
        keys += found.keys_of(record)
        state = state or found.state
        if found.unit is not None:
            left = left_out_of(record) is not None
            seen.append(None if left else DatedCall(record.arrival(found.unit), identity_of(record)[0]))
            continue
        items = Several()
        _add(items, record, found, states)
        seen += dated_calls(items)
    return seen, keys, state


def _objects_in(
    record: Record, format_: RecordFormat | None, states: Mapping[str, FileState]
) -> tuple[str | None, list[tuple[Record, RecordFormat]]]:
    """Return the objects of a record that hold prompts; and the format of its file where it may be of a kind that its program did
    not write before: it holds none itself. RecordError where it is of no format."""
    growing = None
    if isinstance(record.fields.get("type"), str) and _PROMPT_KEYS.isdisjoint(record.fields):
        growing = next((name for name in states if format_named(name).grows), None)
    try:
        held = _prompt_objects(record, format_)
    except RecordError:
        if growing is None:
            raise
        return growing, []
    return (growing if any(inner is not record for inner, _ in held) else None), held


def _whole(value: Fields, where: Where, around: Fields | None) -> Record:
    return Record(value, where) if around is None else Record(value, where, (), (around,))


def dated_calls(items: Several) -> list[DatedCall | None]:
    """Return what an order needs of all items; None where one is no call."""
    return [None if isinstance(item, LeftOut) else DatedCall(item.turns[0].arrival, item.identity) for item in items]


def identity_of(record: Record) -> tuple[str | None, bool]:
    """Return the id of a call wherever it is logged: the id of its answer; else one that may also be that of something else."""
    answer = answer_object(record)[0]
    own = answer.get("id") or answer.get("responseId")
    if isinstance(own, str) and own:
        return own, False
    own = record.first("request_id", "id", "custom_id")
    return (str(own), True) if isinstance(own, str | int) and own != "" else (None, False)


def is_known(value: Any) -> bool:
    """Return whether some format has such records."""
    return isinstance(value, dict) and _found(Record(value, _NOWHERE), None) is not None


def asked_for(value: Any, where: Where, around: Fields | None, key: Key) -> Record:
    """Return the object of a record, or of one of those in it, that answers to a key; the record itself where none does."""
    whole = _whole(object_of(value), where, around)
    try:
        held = _prompt_objects(whole, None)
    except RecordError:
        return whole
    if len(held) == 1:
        return held[0][0]
    return next((record for record, found in held if key in found.keys_of(record)), whole)


def read_inner(record: Record) -> Reading | None:
    """Return the contents of an object inside a record that is a body of an API, or has one; None where it is none."""
    found = _found(record, None)
    return None if found is None else found[1].read(found[0], {})


def opens(around: Fields, path: tuple[str, ...], first: Any) -> bool:
    """Return whether a list of objects, a member of the one object of a file after others or of one in it, contains its records."""
    if path == ("log", "entries"):  # of a HAR
        return True
    [name, *inner] = path
    if inner or name not in LISTS or _found(Record({**around, name: [first]}, _NOWHERE), None) is not None:
        return False
    return first is None or (isinstance(first, dict) and _found(Record(first, _NOWHERE), None) is not None)


def _prompt_objects(record: Record, format_: RecordFormat | None) -> list[tuple[Record, RecordFormat]]:
    """Return the objects of a record that hold prompts, with their formats: the record itself, one inside it, or those of a list
    in it."""
    found = _found(record, format_)
    if found is not None:
        return [found]
    for name in LISTS:
        values = record.fields.get(name)
        if isinstance(values, list) and values and all(isinstance(value, dict) for value in values):
            inner = [Record(each, record.where, (name, at), ({}, record.fields)) for at, each in enumerate(values)]
            held = [_found(each, format_) for each in inner]
            if held[0] is not None:
                missing = next((at for at, each in enumerate(held) if each is None), None)
                if missing is not None:
                    raise _unknown(inner[missing])
                return [each for each in held if each is not None]
    if format_ is not None:
        mapped = format_.name not in FORMAT_NAMES
        hint = "add --format NAME for a known format, or --on-bad-line skip" if mapped else None
        raise record.error(f"not a {format_.name} record: that format has {format_.shape}", hint=hint)
    from kvtool.workload.logs.formats.servers.usage_records import lacks_prompt

    if lacks_prompt(record):
        return [(record, format_named(_USAGE))]
    raise _unknown(record)


def _found(record: Record, format_: RecordFormat | None) -> tuple[Record, RecordFormat] | None:
    """Return the object that holds the prompt, the record itself or one inside it, and its format."""
    inner = record
    for _ in range(_MAX_DEPTH):
        found = format_of(inner.fields) if format_ is None else format_ if format_.fits(inner.fields) else None
        if found is not None:
            return inner, found
        held = next((each for name in WRAPPERS if name in inner.fields and (each := inner.inner(name))), None)
        if held is None:
            return None
        inner = held
    return None


def _unknown(record: Record) -> RecordError:
    from difflib import get_close_matches

    from kvtool.workload.logs.formats.unread import shape_inside

    if (shape := shape_inside(record.fields)) is not None:
        return record.error(shape.message, hint=shape.hint)
    keys = list(record.fields)
    named = fields_shown("key", keys, _SHOWN_KEYS) if keys else "it is empty"
    message = f"no prompt found in this record: {named}"
    known = {*_PROMPT_KEYS, *WRAPPERS}
    for key in keys:
        near = get_close_matches(key, known - set(keys), n=1, cutoff=0.75)
        if near:
            return record.error(message, hint=f"did you mean `{near[0]}` for `{key}`?")
    return record.error(
        message, hint="say where it is: --map messages=a.b (or prompt=a.b); docs/inputs.md lists the formats"
    )
