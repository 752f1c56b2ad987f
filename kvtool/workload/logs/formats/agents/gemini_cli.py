"""Sessions of Gemini CLI: a file of one object, and since 2026 a file of lines, in which a message is written again when it grows.

`tokens.input` counts the whole prompt with what the cache gave; `tokens.output` is without the thoughts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.formats.apis.gemini import ContentParts, function_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, Where, kind, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_USERS = ("user", "user_shell")
_NOTES = ("info", "error", "warning")
_OF_OTHERS = frozenset(("role", "message", "messages", "uuid", "sessionId"))
"""Fields that messages of other formats have."""


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a session: an answer with what its tools gave, or what a user says; neither where it is not sent."""

    time: float | None
    known: bool
    answer: SessionAnswer | None = None
    given: tuple[Message, ...] = ()

    def copy_answer(self) -> SessionAnswer | None:
        """Return the answer for a history, which may add to it."""
        if self.answer is None:
            return None
        messages = [
            {**each, "tool_calls": list(each["tool_calls"])} if "tool_calls" in each else dict(each)
            for each in self.answer.messages
        ]
        return replace(self.answer, messages=messages)


class GeminiCliSession:
    """A file of a session. Its calls are found at its end, and where messages are taken back."""

    def __init__(self, where: Where) -> None:
        self._session = where.file_name or where.path
        self._subagent = False
        self._messages: dict[str, _Message] = {}
        """The last version of each message, in the order in which they began."""
        self._found: set[str] = set()
        """Ids of the messages that were returned."""
        self._compacted = False

    def read(self, record: Record) -> Reading:
        """Return the calls that a line ends: those before a summary, or before messages that a user takes back."""
        fields = record.fields
        if "$rewindTo" in fields:
            found = self._close()
            ids = list(self._messages)
            to = fields["$rewindTo"]
            kept = ids[: ids.index(to)] if to in ids else []
            self._messages = {each: self._messages[each] for each in kept}
            return found
        if fields.get("$snapshot") is True:
            summary = self._listed(record)
            found = self._close()
            self._messages = summary
            self._found.update(summary)
            self._compacted = True
            return found
        if "projectHash" in fields:
            self._session = names_of([fields.get("sessionId"), self._session]) or self._session
            self._subagent = fields.get("kind") == "subagent"
            self._messages |= self._listed(record)
        elif "$set" not in fields:
            self._messages[_name(record)] = _read_message(record)
        elif (inner := record.inner("$set")) is not None and inner.fields.get("messages"):
            found = self._close()
            self._messages = self._listed(inner)
            return found
        return Several()

    def end(self) -> Reading:
        """Return the calls that were not returned yet."""
        return self._close()

    def _listed(self, record: Record) -> dict[str, _Message]:
        listed = record.list_of("messages") if record.fields.get("messages") is not None else []
        found: dict[str, _Message] = {}
        for at, each in enumerate(listed):
            if (inner := record.inner("messages", at)) is None:
                raise record.error(f"messages[{at}] must be a message object, not {kind(each)}", "messages", at)
            name = _name(inner)  # a call and what came of it may have one
            found[f"{name}\0{at}" if name in found else name] = _read_message(inner)
        return found

    def _close(self) -> Several:
        calls = SessionCalls(session=self._session, subagent=self._subagent, compacted=self._compacted)
        given: set[object] = set()
        """Calls of tools whose results are with them; since 2026 these are messages of a user, too."""
        for name, each in self._messages.items():
            new = name not in self._found
            self._found.add(name)
            if (answer := each.copy_answer()) is not None:
                if new:
                    calls.answer(answer)
                else:
                    calls.repeat(answer.messages)
            elif not each.known and new:
                calls.leave_out(NEW_KIND)
            calls.say([message for message in each.given if message.get("tool_call_id") not in given], each.time)
            if each.answer is not None:
                given.update(message.get("tool_call_id") for message in each.given)
                given.discard(None)
        found = calls.close()
        self._compacted = self._compacted and calls.compacted
        return found


def _name(record: Record) -> str:
    """Return the id of a message; for one without, its place."""
    return names_of([record.fields.get("id")]) or f"{record.where.label}\0{record.pointer}"


def _read_message(record: Record) -> _Message:
    fields = record.fields
    time = seconds(fields.get("timestamp"), "s")
    parts = ContentParts(record)
    said_by = fields.get("type")
    if said_by in _USERS:
        return _Message(time, True, given=tuple(_texts(record, parts, "user")))
    if said_by != "gemini":
        return _Message(time, said_by in _NOTES)
    said = _texts(record, parts, "assistant") or [{"role": "assistant", "content": None}]
    if calls := [function_call(each) for each in _tool_calls(fields)]:
        said[-1]["tool_calls"] = [*said[-1].get("tool_calls", ()), *calls]
    model = names_of([fields.get("model")])
    answer = SessionAnswer(record=record, messages=said, usage=_usage(record), model=model, end=time)
    return _Message(time, True, answer, _results(record, parts))


def _results(record: Record, parts: ContentParts) -> tuple[Message, ...]:
    return tuple(
        message | {"tool_call_id": names_of([each.get("id")])} if message["role"] == "tool" else message
        for at, each in enumerate(_tool_calls(record.fields))
        for message in parts.messages(each.get("result"), ("user",), "toolCalls", at, "result")
    )


def _texts(record: Record, parts: ContentParts, role: str) -> list[Message]:
    content = record.fields.get("content")
    return parts.messages(content, (role,), "content") if content else []


def _tool_calls(fields: Fields) -> list[Fields]:
    calls = fields.get("toolCalls")
    return [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []


def _usage(record: Record) -> Usage | None:
    tokens = record.fields.get("tokens")
    if not isinstance(tokens, dict):
        return None
    at = (*record.pointer, "tokens")
    prompt, cached, output, thoughts = (
        0 if tokens.get(name) is None else count_of(tokens[name], name, at)
        for name in ("input", "cached", "output", "thoughts")
    )
    usage = checked(Usage(prompt=prompt, cached=cached, output=output + thoughts, reasoning=thoughts))
    return usage if prompt else None


def fits(fields: Fields) -> bool:
    """Return whether a record is a session, or a line of one."""
    if isinstance(fields.get("projectHash"), str) and "sessionId" in fields:
        return True
    if isinstance(fields.get("$rewindTo"), str) or isinstance(fields.get("$set"), dict):
        return len(fields) == 1
    if fields.get("$snapshot") is True:
        return isinstance(fields.get("messages"), list)
    if not {"id", "timestamp", "content"} <= fields.keys() or not _OF_OTHERS.isdisjoint(fields):
        return False
    return fields.get("type") in ("gemini", *_USERS, *_NOTES)


_EXAMPLE = """
{"sessionId": "s1", "projectHash": "ab", "startTime": "2026-02-02T09:00:00Z", "messages": [{"id": "m1",
 "timestamp": "2026-02-02T09:00:00Z", "type": "user", "content": "Is it open?"}, {"id": "m2",
 "timestamp": "2026-02-02T09:00:01Z", "type": "gemini", "content": "Yes.", "model": "gemini-2.5-pro",
 "tokens": {"input": 24, "output": 2, "cached": 16, "thoughts": 0, "tool": 0, "total": 26}}]}
"""
FORMAT = RecordFormat(
    "gemini-cli",
    "sessionId + projectHash, and messages of type: gemini",
    fits,
    GeminiCliSession,
    state=True,
    grows=True,
    example=_EXAMPLE,
    ending=".json",
)
