"""Sessions of Qwen Code: lines that name the line before them, with messages in the form of Gemini's API.

A line of `chat_compression` contains the history that is sent from then on. Each line of the assistant is one call;
lines of one id are pieces of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.formats.apis.gemini import ContentParts
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM
from kvtool.workload.logs.records.record import Record, Where, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_SAID = ("user", "tool_result", "assistant")
_KINDS = (*_SAID, "system")


@dataclass(slots=True)
class _Line:
    """A line with the messages that it adds to those of its parent; `lost`: its parent is not in the file."""

    parent: _Line | None
    messages: list[Message]
    time: float | None
    lost: bool = False
    begins: bool = False
    """Whether its messages replace those before."""


class QwenCodeSession:
    """A file of a session."""

    def __init__(self, where: Where) -> None:
        self._name = where.file_name or where.path
        self._lines: dict[str, _Line] = {}
        self._open: SessionCalls | None = None
        """With the call of the latest line of the assistant."""

    def read(self, record: Record) -> Reading:
        """Return the call of the line of the assistant before this one."""
        fields = record.fields
        name, of = str(fields["uuid"]), fields.get("parentUuid")
        if self._open is not None and self._open.open_identity == name:
            line = self._lines[name]
            content = object_of(fields.get("message")).get("parts")
            more = ContentParts(record).messages(content, ("assistant",), "message", "parts")
            line.messages = [*line.messages, *more]
            self._open.answer(_answer(record, more, line.time))
            return Several()
        found = self.end()
        parent = self._lines.get(of) if isinstance(of, str) else None
        line = _Line(parent, [], seconds(fields.get("timestamp"), "s"), lost=parent is None and isinstance(of, str))
        self._lines[name] = line
        kind = fields.get("type")
        if kind not in _KINDS:
            return Several([*found, NEW_KIND])
        payload = object_of(fields.get("systemPayload"))
        parts = ContentParts(record)
        history = payload.get("compressedHistory")
        if kind == "system" and isinstance(history, list):
            line.begins = True
            for at, content in enumerate(history):
                line.messages += parts.messages(content, (), "systemPayload", "compressedHistory", at)
        if kind in _SAID and isinstance(fields.get("message"), dict):
            roles = ("assistant",) if kind == "assistant" else ("user",)
            content = object_of(fields["message"]).get("parts")
            line.messages = parts.messages(content, roles, "message", "parts")
        if kind == "assistant":
            self._begin(record, line)
        return found

    def end(self) -> Several:
        """Return the call of the latest line of the assistant."""
        calls, self._open = self._open, None
        return Several() if calls is None else calls.close()

    def _begin(self, record: Record, line: _Line) -> None:
        """Open the call of a line."""
        fields = record.fields
        chain: list[_Line] = []
        at = line.parent
        while at is not None:
            chain.append(at)
            at = None if at.begins else at.parent
        first = chain[-1] if chain else line
        calls = self._open = SessionCalls(
            session=names_of([fields.get("sessionId"), self._name]) or self._name,
            incomplete=LOST if first.lost and not first.begins else NO_SYSTEM,
            project=project_of(fields.get("cwd")),
            subagent=bool(fields.get("isSidechain")),
            compacted=bool(chain) and chain[0].begins,
        )
        for each in reversed(chain):
            calls.say(each.messages, each.time)
        calls.answer(_answer(record, line.messages, line.time))


def _answer(record: Record, messages: list[Message], time: float | None) -> SessionAnswer:
    fields = record.fields
    return SessionAnswer(
        record=record,
        messages=messages,
        usage=_usage(record),
        model=names_of([fields.get("model")]),
        identity=str(fields["uuid"]),
        end=time,
    )


def _usage(record: Record) -> Usage | None:
    """Return the tokens of an answer; providers of OpenAI's kind count the thoughts among those of the candidates."""
    told = record.fields.get("usageMetadata")
    usage = usage_of(told, (*record.pointer, "usageMetadata"))
    if usage is None or not isinstance(told, dict) or usage.prompt is None or usage.output is None:
        return usage
    total = told.get("totalTokenCount")
    within = usage.reasoning and total == usage.prompt + usage.output - usage.reasoning
    return replace(usage, output=usage.output - (usage.reasoning or 0)) if within else usage


def fits(fields: Fields) -> bool:
    """Return whether a record is a line of a session, and none of Claude Code, which has the same ids."""
    if not {"sessionId", "uuid", "parentUuid"} <= fields.keys() or not isinstance(fields.get("type"), str):
        return False
    message = fields.get("message")
    return (isinstance(message, dict) and "parts" in message) or "systemPayload" in fields


_EXAMPLE = """
{"uuid": "u1", "parentUuid": null, "sessionId": "s1", "timestamp": "2026-02-02T09:00:00Z", "type": "user",
 "cwd": "/srv/shop", "version": "0.5.0", "message": {"role": "user", "parts": [{"text": "Is it open?"}]}}
{"uuid": "u2", "parentUuid": "u1", "sessionId": "s1", "timestamp": "2026-02-02T09:00:01Z", "type": "assistant",
 "cwd": "/srv/shop", "version": "0.5.0", "model": "qwen3-coder-plus", "message": {"role": "model",
 "parts": [{"text": "Yes."}]}, "usageMetadata": {"promptTokenCount": 24, "cachedContentTokenCount": 16,
 "candidatesTokenCount": 2, "totalTokenCount": 26}}
"""
FORMAT = RecordFormat(
    "qwen-code", "sessionId + uuid + message.parts", fits, QwenCodeSession, state=True, grows=True, example=_EXAMPLE
)
