"""The record formats, in a visible list: what each looks like, and the function that makes turns of one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.text.files.json_stream import is_message
from kvtool.workload.logs import chat_records, trace_records
from kvtool.workload.logs.record import Record, RecordError, Turns, Where, kind

Fields = dict[str, Any]

WRAPPERS = ("body", "request", "params", "payload", "request_body", "kwargs")
"""Fields that logs wrap a request in; the rest of what is needed (ids, times, responses) may stand around them."""

_PROMPTS = ("prompt", "text_input", "text", "input", "inputs")
_BAILIAN_ONLY = {"chat_id", "parent_chat_id"}
_SHOWN_KEYS = 12
_MAX_DEPTH = 4  # of wrappers in wrappers


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A shape of records. The first format in the list whose `fits` says yes reads the record."""

    name: str
    shape: str
    fits: Callable[[Fields], bool]
    turns: Callable[[Record], Turns]


def prompts(record: Record) -> Turns:
    """A prompt as text; also the lists that the completions API takes in its place."""
    name, value = record.required(*_PROMPTS)
    if isinstance(value, list) and value:
        if is_message(value[0]):
            return chat_records.chat_at(record, name)
        if isinstance(value[0], str):
            return [
                record.turn(index=i, turns=len(value), text=record.text(each, name, i, part=f"{name}[{i}]"))
                for i, each in enumerate(value)
            ]
        return [record.turn(token_ids=trace_records.ids_of(record, value, name))]
    output, length = chat_records.answer_of(record.first("output", "response", "completion"))
    text = record.text(value, name, part=name)
    return [record.turn(text=text, output_text=output, output_tokens=length)]


RECORD_FORMATS: tuple[RecordFormat, ...] = (
    RecordFormat(
        "bailian",
        "hash_ids + input_length + chat_id",
        lambda f: "hash_ids" in f and not _BAILIAN_ONLY.isdisjoint(f),
        trace_records.bailian,
    ),
    RecordFormat("mooncake", "hash_ids + input_length", lambda f: "hash_ids" in f, trace_records.mooncake),
    RecordFormat(
        "weka",
        "requests + block_size",
        lambda f: "requests" in f and ("block_size" in f or "hash_id_scope" in f),
        trace_records.weka,
    ),
    RecordFormat(
        "lmcache-lookups", "chunk_hashes + seq_len", lambda f: "chunk_hashes" in f, trace_records.lmcache_lookups
    ),
    RecordFormat(
        "token-ids",
        "token_ids",
        lambda f: any(name in f for name in trace_records.TOKEN_FIELDS),
        trace_records.token_ids,
    ),
    RecordFormat("chat", "messages", lambda f: "messages" in f, chat_records.chat),
    RecordFormat(
        "sharegpt", "conversations", lambda f: "conversations" in f or "conversation" in f, chat_records.sharegpt
    ),
    RecordFormat(
        "trajectory",
        "traj or history",
        lambda f: any(isinstance(f.get(name), list) for name in ("traj", "history", "trajectory")),
        chat_records.trajectory,
    ),
    RecordFormat(
        "responses",
        "instructions + input",
        lambda f: "input" in f and ("instructions" in f or isinstance(f["input"], list)),
        chat_records.responses_api,
    ),
    RecordFormat("bfcl", "question + function", lambda f: isinstance(f.get("question"), list), chat_records.bfcl),
    RecordFormat("turns", "turns", lambda f: isinstance(f.get("turns"), list), chat_records.user_turns),
    RecordFormat(
        "prompt",
        "prompt, text or input",
        lambda f: any(name in f and not isinstance(f[name], dict) for name in _PROMPTS),
        prompts,
    ),
)
TEXT_FORMAT = "text"
FORMAT_NAMES = (*(each.name for each in RECORD_FORMATS), TEXT_FORMAT)


def format_named(name: str) -> RecordFormat:
    """The format that a user asked for by name."""
    from difflib import get_close_matches

    for each in RECORD_FORMATS:
        if each.name == name:
            return each
    near = get_close_matches(name, FORMAT_NAMES, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the formats are {', '.join(FORMAT_NAMES)}"
    raise KvtoolError(f"unknown log format `{name}`", hint=hint)


def read_record(value: Any, where: Where, format_: RecordFormat | None = None) -> tuple[str, Turns]:
    """The name of a record's format, and its turns. Raises RecordError."""
    if isinstance(value, list) and value and all(map(is_message, value)):
        return "messages", chat_records.bare_list(Record({}, where), value)
    if not isinstance(value, dict):
        raise RecordError(f"a record must be an object, not {kind(value)}")
    record, found = _unwrapped(Record(value, where), format_)
    return found.name, found.turns(record)


def _format_of(fields: Fields) -> RecordFormat | None:
    for each in RECORD_FORMATS:
        if each.fits(fields):
            return each
    return None


def _unwrapped(record: Record, format_: RecordFormat | None) -> tuple[Record, RecordFormat]:
    """The object that holds the prompt, the record itself or one inside it, and its format."""
    inner = record
    for _ in range(_MAX_DEPTH):
        found = _format_of(inner.fields) if format_ is None else format_ if format_.fits(inner.fields) else None
        if found is not None:
            return inner, found
        name = next((name for name in WRAPPERS if isinstance(inner.fields.get(name), dict)), None)
        if name is None:
            break
        inner = Record(inner.fields[name], inner.where, (*inner.pointer, name), (inner.fields, *inner.around))
    if format_ is not None:
        raise record.error(f"this is no record of the format {format_.name}, which has {format_.shape}")
    raise _unknown(record.fields)


def _unknown(fields: Fields) -> RecordError:
    from difflib import get_close_matches

    keys = [str(key)[:40] for key in fields]
    shown = ", ".join(f"`{key}`" for key in keys[:_SHOWN_KEYS])
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    named = f"its keys are {shown}{more}" if keys else "it is empty"
    known = {"messages", "prompt", "conversations", "history", "token_ids", "hash_ids", "instructions", *WRAPPERS}
    for key in keys:
        near = get_close_matches(key, known - set(keys), n=1, cutoff=0.75)
        if near:
            return RecordError(
                f"no prompt found in this record: {named}", hint=f"did you mean `{near[0]}` for `{key}`?"
            )
    shapes = "; ".join(each.shape for each in RECORD_FORMATS)
    return RecordError(f"no prompt found in this record: {named}", hint=f"a record has one of these: {shapes}")
