"""Sessions of GitHub Copilot's command line (`events.jsonl`): events that name the event before them.

Each message of the assistant is one call; its tokens are in the usage record with the same id of the call, in older files those of
its answer in the message. Events with an `agentId` are those of a subagent, which has a conversation of its own.
"""

from __future__ import annotations

import json
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM, NO_TOOLS
from kvtool.workload.logs.records.record import Record, Where, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_FAMILIES = frozenset(
    (
        *(
            "abort",
            "assistant",
            "auto_mode_switch",
            "capabilities",
            "command",
            "commands",
            "elicitation",
            "exit_plan_mode",
        ),
        *("external_tool", "hook", "human_response", "mcp", "mcp_app", "model", "pending_messages", "permission"),
        *(
            "sampling",
            "session",
            "session_limits_exhausted",
            "skill",
            "subagent",
            "system",
            "tool",
            "tool_search",
            "ui",
        ),
        *("user", "user_input", "workflow"),
    )
)
"""First words of the types of events; those that are not read here send nothing to the model."""
_REWRITES = ("session.truncation", "session.snapshot_rewind")
"""Events after which the messages that are sent are others than those of the file."""
_COUNTS = {
    "prompt": "inputTokens",
    "cached": "cacheReadTokens",
    "written": "cacheWriteTokens",
    "output": "outputTokens",
    "reasoning": "reasoningTokens",
}


class CopilotSession:
    """A file of a session."""

    def __init__(self, where: Where) -> None:
        self._session = where.file_name or where.path
        self._project: str | None = None
        self._model: str | None = None
        """Of the main agent, where its messages do not name it."""
        self._agents: dict[str | None, SessionCalls] = {}
        self._usage: dict[str, Record] = {}
        """Usage records whose message has not come yet, by the id of the call."""

    def read(self, record: Record) -> Reading:
        """Return the calls that have all of their pieces."""
        kind, time = str(record.fields.get("type")), seconds(record.fields.get("timestamp"), "s")
        inner = record.inner("data")
        if inner is None or kind.partition(".")[0] not in _FAMILIES:
            return NEW_KIND
        data = inner.fields
        if kind in ("session.start", "session.resume"):
            self._session = names_of([data.get("sessionId")]) or self._session
            self._project = project_of(object_of(data.get("context")).get("cwd")) or self._project
            self._model = names_of([data.get("selectedModel"), self._model])
            return Several()
        calls = self._calls(names_of([record.fields.get("agentId")]))
        match kind:
            case "system.message":
                self._begin(calls, [_said(inner, "system", "content")], calls.history)
            case "user.message":
                name = "transformedContent" if isinstance(data.get("transformedContent"), str) else "content"
                calls.say([_said(inner, "user", name)], time)
            case "tool.execution_complete":
                calls.say([_result(inner)], time)
            case "session.usage_record" if (told := inner.inner("usage")) is not None:
                self._count(calls, told)
            case "assistant.message":
                self._answer(calls, inner, time)
            case "session.compaction_complete" if data.get("success"):
                self._begin(calls, _system(calls), [_said(inner, "user", "summaryContent")])
                calls.compacted = True
            case "session.model_change":
                self._model = names_of([data.get("newModel"), self._model])
            case "session.context_cleared":
                self._begin(calls, _system(calls), [])
            case "model.call_failure":
                calls.leave_out(FAILED)
            case _ if kind in _REWRITES:
                calls.incomplete = LOST
        return calls.close() if kind == "assistant.turn_end" else Several()

    def end(self) -> Reading:
        """Return the calls that are left."""
        return Several(found for calls in self._agents.values() for found in calls.close())

    def _calls(self, agent: str | None) -> SessionCalls:
        """Return the conversation of an agent; None is the main one."""
        if agent not in self._agents:
            name = self._session if agent is None else f"{self._session}/{agent}"
            self._agents[agent] = SessionCalls(
                session=name, incomplete=NO_SYSTEM, project=self._project, subagent=agent is not None
            )
        return self._agents[agent]

    def _begin(self, calls: SessionCalls, system: list[Message], history: list[Message]) -> None:
        """Go on with a system message and these messages after it."""
        calls.forget([*system, *(message for message in history if message["role"] != "system")])
        if system and calls.incomplete == NO_SYSTEM:
            calls.incomplete = NO_TOOLS

    def _count(self, calls: SessionCalls, record: Record) -> None:
        """Keep the tokens of a call until its message comes, or add them to it."""
        identity = names_of([record.fields.get("apiCallId")])
        if identity is not None and calls.open_identity == identity:
            calls.answer(SessionAnswer(record=record, messages=[], usage=_usage(record), identity=identity))
        elif identity is not None:
            self._usage[identity] = record

    def _answer(self, calls: SessionCalls, record: Record, time: float | None) -> None:
        fields = record.fields
        identity = names_of([fields.get("apiCallId"), fields.get("messageId")])
        told = self._usage.pop(identity or "", record)
        used = told.fields
        calls.answer(
            SessionAnswer(
                record=record,
                messages=[_spoken(record)],
                usage=_usage(told),
                model=names_of([used.get("model"), fields.get("model"), None if calls.subagent else self._model]),
                provider=names_of([used.get("providerType")]) if used.get("isByok") else None,
                identity=identity,
                end=time,
            ),
            whole=True,
        )


def _system(calls: SessionCalls) -> list[Message]:
    return [message for message in calls.history[:1] if message["role"] == "system"]


def _said(record: Record, role: str, name: str) -> Message:
    return {"role": role, "content": record.text(record.fields.get(name) or "", name, part=f"{name} ({role})")}


def _result(record: Record) -> Message:
    """Return what a tool gave, or its error."""
    name = "result" if isinstance(record.fields.get("result"), dict) else "error"
    inner = record.inner(name)
    field = "content" if name == "result" else "message"
    text = "" if inner is None else inner.text(inner.fields.get(field) or "", field, part=f"{name} (tool)")
    return {"role": "tool", "tool_call_id": record.fields.get("toolCallId"), "content": text}


def _spoken(record: Record) -> Message:
    listed = record.fields.get("toolRequests")
    calls = [
        {
            "id": each.get("toolCallId"),
            "type": "function",
            "function": {
                "name": each.get("name"),
                "arguments": json.dumps(each.get("arguments") or {}, ensure_ascii=False),
            },
        }
        for each in map(object_of, listed if isinstance(listed, list) else ())
    ]
    more: dict[str, Any] = {"tool_calls": calls} if calls else {}
    return {**_said(record, "assistant", "content"), **more}


def _usage(record: Record) -> Usage | None:
    """Return the tokens of a call: the prompt is all that was sent. Counts that the provider does not report are none; None where
    there are none."""
    fields = record.fields
    reports = fields.get("cacheDetailsReported") is not False
    found: dict[str, Any] = {
        ours: count_of(fields[name], name, record.pointer)
        for ours, name in _COUNTS.items()
        if fields.get(name) is not None and (reports or ours not in ("cached", "written"))
    }
    return checked(Usage(**found)) if found else None


def fits(fields: Fields) -> bool:
    """Return whether a record is an event of a session."""
    kind = fields.get("type")
    if not isinstance(kind, str) or not {"data", "id", "timestamp", "parentId"} <= fields.keys():
        return False
    return kind.partition(".")[0] in _FAMILIES and isinstance(fields.get("data"), dict)


_EXAMPLE = """
{"type": "session.start", "data": {"sessionId": "s1", "copilotVersion": "1.0.102", "context": {"cwd": "/srv/shop"}},
 "id": "e1", "timestamp": "2026-02-02T09:00:00Z", "parentId": null}
{"type": "user.message", "data": {"content": "Is it open?"}, "id": "e2", "timestamp": "2026-02-02T09:00:00Z",
 "parentId": "e1"}
{"type": "session.usage_record", "data": {"usage": {"model": "gpt-5", "inputTokens": 24, "cacheReadTokens": 16,
 "cacheWriteTokens": 0, "outputTokens": 2, "apiCallId": "c1"}}, "id": "e3", "timestamp": "2026-02-02T09:00:01Z",
 "parentId": "e2"}
{"type": "assistant.message", "data": {"content": "Yes.", "toolRequests": [], "apiCallId": "c1", "model": "gpt-5"},
 "id": "e4", "timestamp": "2026-02-02T09:00:01Z", "parentId": "e3"}
"""
FORMAT = RecordFormat(
    "copilot-cli",
    "type: session.start, user.message, … + data + parentId",
    fits,
    CopilotSession,
    state=True,
    grows=True,
    example=_EXAMPLE,
)
