"""Sessions that `opencode export` writes, or older versions in a storage folder: messages with their parts. `tokens.input` is what
the cache neither gave nor took.

A message of the assistant is one call; in older versions it is one for each of its parts `step-finish`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from kvtool.text.bounded_number import whole_number
from kvtool.text.files.json_stream import MAX_RECORD
from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import NO_TOOLS, kind_of_part
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_NOT_SENT = ("reasoning", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction", "subtask")
_OUTPUTS = ("output", "reasoning")


def read(record: Record) -> Reading:
    """Return the calls of a session."""
    info = object_of(record.fields.get("info"))
    name = names_of([info.get("id")]) or record.where.session
    calls = SessionCalls(
        session=name, project=project_of(info.get("directory")), subagent=bool(names_of([info.get("parentID")]))
    )
    for at, item in enumerate(record.list_of("messages")):
        message = record.inner("messages", at)
        fields = {} if message is None else message.fields
        facts, parts = fields.get("info"), fields.get("parts")
        if message is None or not isinstance(facts, dict) or not isinstance(parts, list):
            raise record.error(f"messages[{at}] must have `info` and `parts`, but is {kind(item)}", "messages", at)
        role = facts.get("role")
        if role == "assistant":
            _read_answers(calls, message, facts)
        elif role == "user":
            texts = [each for nth, part in enumerate(parts) if (each := _sent(message, part, nth, "user"))]
            calls.say([{"role": "user", "content": texts}] if texts else [], _time(facts, "created"))
        else:
            calls.leave_out(NEW_KIND)
    return calls.close()


def read_stored(record: Record) -> Reading:
    """Return the calls of a session of the storage folder: the files of its messages and parts are in folders of their names."""
    path = Path(record.where.path)
    storage, left = path.parent.parent.parent, MAX_RECORD
    messages = []
    for message in sorted((storage / "message" / path.stem).glob("*.json")):
        told = [message, *sorted((storage / "part" / message.stem).glob("*.json"))]
        left -= sum(each.stat().st_size for each in told)
        if left < 0:
            raise record.error(f"a session of more than {MAX_RECORD >> 20} MiB", "id")
        try:
            info, *parts = (orjson.loads(each.read_bytes()) for each in told)
        except (OSError, ValueError) as error:
            raise record.error(f"the files of message `{message.stem}` cannot be read", "id") from error
        messages.append({"info": info, "parts": parts})
    return read(Record({"info": record.fields, "messages": messages}, record.where))


def read_inner(record: Record) -> Reading:
    """Return nothing: a message or a part belongs to the file of its session."""
    del record
    return Several()


def _read_answers(calls: SessionCalls, message: Record, info: Fields) -> None:
    """Add the calls of a message of the assistant, each with what its tools gave."""
    _set_system(calls, message, info.get("system"))
    parts = message.fields["parts"]
    ends = [at for at, part in enumerate(parts) if isinstance(part, dict) and part.get("type") == "step-finish"]
    if info.get("error") is not None and not ends and not any(map(_is_said, parts)):
        calls.leave_out(FAILED)
        return
    stops = [*(ends[:-1] if len(ends) > 1 else []), len(parts) - 1]
    begin, said = 0, _time(info, "created")
    for stop in stops:
        step = list(range(begin, stop + 1))
        told, at = (parts[ends[stops.index(stop)]], ("parts", stop)) if len(stops) > 1 else (info, ("info",))
        last = stop == stops[-1]
        ended = _time(info, "completed") if last else None
        calls.answer(
            SessionAnswer(
                record=message,
                messages=[_answer(message, step)],
                usage=_usage(message, told, *at),
                model=names_of([info.get("modelID")]),
                provider=names_of([info.get("providerID")]),
                cost=decimal_of(object_of(told).get("cost")),
                identity=None if len(stops) > 1 else names_of([info.get("id")]),
                end=ended,
            ),
            whole=True,
        )
        results, done = _results(message, step)
        said = done or ended or said
        if info.get("summary") is True:
            kept = [each for each in calls.history if each["role"] == "system"]
            kept += [each for each in calls.history[:-1] if each["role"] == "user"][-1:]
            calls.forget([*kept, calls.history[-1]])
            calls.compacted = True
        calls.say(results, said)
        begin = stop + 1


def _set_system(calls: SessionCalls, message: Record, system: Any) -> None:
    """Put the system prompt of a message in the place of the one before; newer versions do not write it."""
    if not isinstance(system, list) or not system:
        return
    made: list[Message] = [
        {"role": "system", "content": message.text(text, "info", "system", at, part="system")}
        for at, text in enumerate(system)
    ]
    calls.incomplete = NO_TOOLS
    calls.history = [*made, *(each for each in calls.history if each["role"] != "system")]


def _is_said(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "tool")


def _sent(message: Record, part: Any, at: int, role: str) -> Fields | None:
    """Return a part that the model gets, as a part of the chat API."""
    if not isinstance(part, dict) or part.get("ignored") is True or part.get("type") in _NOT_SENT:
        return None
    if part.get("type") == "text":
        text = message.text(part.get("text"), "parts", at, "text", part=f"parts[{at}] ({role})")
        return {"type": "text", "text": text}
    named = str(part.get("mime") or part.get("type")).partition("/")[0]
    return {"type": message.text(kind_of_part(named), "parts", at, "type", part=f"parts[{at}] ({role})")}


def _answer(message: Record, step: list[int]) -> Message:
    parts = message.fields["parts"]
    texts, calls = [], []
    for at in step:
        part = object_of(parts[at])
        if part.get("type") == "text" and (made := _sent(message, part, at, "assistant")) is not None:
            texts.append(made)
        elif part.get("type") == "tool":
            arguments = json.dumps(object_of(part.get("state")).get("input") or {}, ensure_ascii=False)
            function = {"name": part.get("tool"), "arguments": arguments}
            calls.append({"id": part.get("callID"), "type": "function", "function": function})
    said: Message = {"role": "assistant", "content": texts or None}
    return said | {"tool_calls": calls} if calls else said


def _results(message: Record, step: list[int]) -> tuple[list[Message], float | None]:
    """Return what tools gave, and when the last one ended."""
    found: list[Message] = []
    ended: float | None = None
    for at in step:
        part = object_of(message.fields["parts"][at])
        state = object_of(part.get("state"))
        name = next((each for each in ("output", "error") if isinstance(state.get(each), str)), None)
        if part.get("type") == "tool" and name is not None:
            text = message.text(state[name], "parts", at, "state", name, part=f"parts[{at}] (tool)")
            found.append({"role": "tool", "tool_call_id": part.get("callID"), "content": text})
            ended = _time(state, "end") or ended
    return found, ended


def _usage(message: Record, told: Any, *path: str | int) -> Usage | None:
    tokens = object_of(told).get("tokens")
    if not isinstance(tokens, dict):
        return None
    at = (*message.pointer, *path, "tokens")
    cache = object_of(tokens.get("cache"))
    output, reasoning = (0 if tokens.get(name) is None else count_of(tokens[name], name, at) for name in _OUTPUTS)
    cached, written = (
        0 if cache.get(name) is None else count_of(cache[name], name, (*at, "cache")) for name in ("read", "write")
    )
    fresh = tokens.get("input") or 0
    if (taken_twice := whole_number(fresh, least=-cached - written, most=-1)) is not None:
        fresh = taken_twice + cached + written  # of a provider whose count was without them
    prompt = count_of(fresh, "input", at) + cached + written
    usage = checked(Usage(prompt, cached, written, output=output + reasoning, reasoning=reasoning))
    return usage if prompt else None


def _time(fields: Fields, name: str) -> float | None:
    return seconds(object_of(fields.get("time")).get(name), "ms")


def fits(fields: Fields) -> bool:
    """Return whether a record is an export: messages that have their parts beside `info`."""
    messages = fields.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return (
        isinstance(fields.get("info"), dict)
        and isinstance(first, dict)
        and isinstance(first.get("info"), dict)
        and isinstance(first.get("parts"), list)
    )


def _is_stored(fields: Fields) -> bool:
    return fields.keys() >= {"id", "projectID", "directory", "version", "time"}


def _is_inner(fields: Fields) -> bool:
    """Return whether a record is a message of a session, or a part of one, in a file of its own."""
    of_message = isinstance(fields.get("messageID"), str) and isinstance(fields.get("type"), str)
    return (
        isinstance(fields.get("sessionID"), str)
        and "id" in fields
        and (of_message or {"role", "time"} <= fields.keys())
    )


_EXAMPLE = """
{"info": {"id": "ses_1", "directory": "/srv/shop"}, "messages": [{"info": {"id": "msg_1", "role": "user",
 "time": {"created": 1770022800000}}, "parts": [{"type": "text", "text": "Is it open?"}]}, {"info": {"id": "msg_2",
 "role": "assistant", "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "cost": 0.012,
 "tokens": {"input": 8, "output": 2, "reasoning": 0, "cache": {"read": 16, "write": 0}},
 "time": {"created": 1770022800000, "completed": 1770022801000}}, "parts": [{"type": "text", "text": "Yes."}]}]}
"""
FORMATS = (
    RecordFormat("opencode", "info + messages with info and parts", fits, read, example=_EXAMPLE, ending=".json"),
    RecordFormat("opencode-stored", "projectID + directory + version", _is_stored, read_stored, ending=".json"),
    RecordFormat("opencode-inner", "sessionID + id", _is_inner, read_inner, ending=".json"),
)
