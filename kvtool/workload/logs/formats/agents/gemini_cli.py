"""Sessions of Gemini CLI: a file of one object, and since 2026 a file of lines, in which a message is written again when it grows.

`tokens.input` counts the whole prompt with what the cache gave; `tokens.output` is without the thoughts.
"""

from __future__ import annotations

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.formats.apis.gemini import ContentParts, function_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, Where, kind, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import check_usage, count_of

_USERS = ("user", "user_shell")
_NOTES = ("info", "error", "warning")
_OF_MESSAGES = frozenset(
    (
        *("id", "timestamp", "type", "content", "displayContent", "model", "tokens", "thoughts", "toolCalls"),
        "memoryScratchpad",
    )
)


class GeminiCliSession:
    """A file of a session. Its calls are found at its end, and where messages are taken back."""

    def __init__(self, where: Where) -> None:
        self._session = where.file_name or where.path
        self._subagent = False
        self._messages: dict[str, Record] = {}
        """The last version of each message, in the order in which they began."""
        self._found: set[str] = set()
        """Ids of the answers whose calls were returned."""
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
            found = self._close()
            self._messages = {}
            self._add_listed(record)
            self._found.update(self._messages)
            self._compacted = True
            return found
        if "projectHash" in fields:
            self._session = names_of([fields.get("sessionId"), self._session]) or self._session
            self._subagent = fields.get("kind") == "subagent"
            self._add_listed(record)
        elif "$set" not in fields:
            self._add(record)
        return Several()

    def end(self) -> Reading:
        """Return the calls that were not returned yet."""
        return self._close()

    def _add_listed(self, record: Record) -> None:
        for at in range(len(record.list_of("messages")) if record.fields.get("messages") is not None else 0):
            if (inner := record.inner("messages", at)) is None:
                wrong = kind(record.fields["messages"][at])
                raise record.error(f"messages[{at}] must be a message object, not {wrong}", "messages", at)
            self._add(inner)

    def _add(self, record: Record) -> None:
        self._messages[names_of([record.fields.get("id")]) or f"\0{len(self._messages)}"] = record

    def _close(self) -> Several:
        calls = SessionCalls(session=self._session, subagent=self._subagent, compacted=self._compacted)
        for name, record in self._messages.items():
            fields = record.fields
            time = seconds(fields.get("timestamp"), "s")
            parts = ContentParts(record)
            match fields.get("type"):
                case "gemini":
                    answer = self._answer(record, parts, time)
                    if name in self._found:
                        calls.history += answer.messages
                    else:
                        calls.answer(answer)
                        self._found.add(name)
                    calls.say(self._results(record, parts), time)
                case user if user in _USERS:
                    calls.say(_texts(record, parts, "user"), time)
                case note if note not in _NOTES and name not in self._found:
                    calls.leave_out(NEW_KIND)
                    self._found.add(name)
        found = calls.close()
        self._compacted = self._compacted and calls.compacted
        return found

    @staticmethod
    def _answer(record: Record, parts: ContentParts, time: float | None) -> SessionAnswer:
        fields = record.fields
        said = _texts(record, parts, "assistant") or [{"role": "assistant", "content": None}]
        if calls := [function_call(each) for each in _tool_calls(fields)]:
            said[-1]["tool_calls"] = [*said[-1].get("tool_calls", ()), *calls]
        return SessionAnswer(
            record=record, messages=said, usage=_usage(record), model=names_of([fields.get("model")]), end=time
        )

    @staticmethod
    def _results(record: Record, parts: ContentParts) -> list[Message]:
        return [
            message | {"tool_call_id": each.get("id")} if message["role"] == "tool" else message
            for at, each in enumerate(_tool_calls(record.fields))
            for message in parts.messages(each.get("result"), ("user",), "toolCalls", at, "result")
        ]


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
    usage = Usage(prompt=prompt, cached=cached, output=output + thoughts, reasoning=thoughts)
    check_usage(usage, at)
    return usage if prompt else None


def fits(fields: Fields) -> bool:
    """Return whether a record is a session, or a line of one."""
    if isinstance(fields.get("projectHash"), str) and "sessionId" in fields:
        return True
    if isinstance(fields.get("$rewindTo"), str) or isinstance(fields.get("$set"), dict):
        return len(fields) == 1
    if fields.get("$snapshot") is True:
        return isinstance(fields.get("messages"), list)
    is_message = {"id", "timestamp", "type", "content"} <= fields.keys() and _OF_MESSAGES.issuperset(fields)
    return is_message and isinstance(fields["type"], str) and isinstance(fields["timestamp"], str)


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
