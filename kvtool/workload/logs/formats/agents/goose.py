"""Sessions of Goose: lines of messages after one of facts, or the object that `goose session export --format json` writes.

Tokens are reported for the whole session; in newer databases for each call (`usage_ledger`). After a summary, what was before is
marked as no longer seen by the agent.
"""

from __future__ import annotations

import json
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, Where, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_FACTS = ("message_count", "total_tokens", "conversation")
_OF_MESSAGES = frozenset(("id", "role", "created", "content", "metadata"))
_REQUESTS = ("toolRequest", "frontendToolRequest")
_NOT_SENT = (
    *("thinking", "redactedThinking", "reasoning", "toolConfirmationRequest", "actionRequired"),
    *("conversationCompacted", "systemNotification"),
)
_COUNTS = {
    "input_tokens": "prompt_tokens",
    "cache_read_tokens": "cached_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "output_tokens": "completion_tokens",
}
"""Counts of the ledger: the prompt is all that was sent."""
_CARRIED = "carried_forward"
"""A row that sums what was before the ledger."""


class GooseSession:
    """A file of a session."""

    def __init__(self, where: Where) -> None:
        self._calls = SessionCalls(session=where.file_name or where.path)
        self._model: str | None = None
        self._provider: str | None = None
        self._unseen: set[int] = set()
        """Messages of the history that the agent does not see any more, by their identity."""

    def read(self, record: Record) -> Reading:
        """Return the calls that a record ends."""
        fields, ended = record.fields, Several()
        if "role" in fields:
            self._add(record, {})
            return ended
        if isinstance(fields.get("conversation"), list):  # a session of its own: a database has many
            ended = self.end()
            self._calls, self._unseen = SessionCalls(session=record.where.session), set()
        calls = self._calls
        calls.session = names_of([fields.get("id"), calls.session]) or calls.session
        calls.project = project_of(fields.get("working_dir"))
        calls.subagent = fields.get("session_type") == "sub_agent"
        self._model = names_of([object_of(fields.get("model_config")).get("model_name")])
        self._provider = names_of([fields.get("provider_name")])
        messages = conversation if isinstance(conversation := fields.get("conversation"), list) else []
        told = _told_of_answers(messages, fields.get("usage_ledger"))
        for at, each in enumerate(messages):
            if (inner := record.inner("conversation", at)) is None:
                raise record.error(f"conversation[{at}] must be a message object, not {kind(each)}", "conversation", at)
            self._add(inner, told.get(at, {}))
        return ended

    def end(self) -> Several:
        """Return all calls."""
        return self._calls.close()

    def _add(self, record: Record, reported: Fields) -> None:
        role, told = record.fields.get("role"), object_of(record.fields.get("metadata"))
        if role not in ("user", "assistant"):
            self._calls.leave_out(NEW_KIND)
            return
        messages = self._messages(record, role)
        if told.get("agentVisible") is False:
            self._unseen.update(map(id, messages))
        elif self._unseen:
            self._calls.forget([each for each in self._calls.history if id(each) not in self._unseen])
            self._calls.compacted = True
            self._unseen = set()
        time = seconds(record.fields.get("created"), "s")
        if not _is_answer(record.fields):  # Goose itself writes what only the model sees
            self._calls.say(messages, time)
        elif messages:
            self._calls.answer(
                SessionAnswer(
                    record=record,
                    messages=messages,
                    usage=usage_of({ours: reported.get(name) for name, ours in _COUNTS.items()}, record.pointer),
                    model=names_of([reported.get("model"), self._model]),
                    provider=self._provider,
                    cost=decimal_of(reported.get("cost")),
                    end=time,
                )
            )

    def _messages(self, record: Record, role: str) -> list[Message]:
        content = record.fields.get("content")
        said: Message = {"role": role, "content": []}
        results: list[Message] = []
        for at, part in enumerate(content if isinstance(content, list) else []):
            if not isinstance(part, dict) or part.get("type") in _NOT_SENT:
                continue
            label = f"content[{at}] ({role})"
            match part.get("type"):
                case "text":
                    said["content"].append(
                        {"type": "text", "text": record.text(part.get("text"), "content", at, "text", part=label)}
                    )
                case request if request in _REQUESTS:
                    said.setdefault("tool_calls", []).append(_call(part))
                case "toolResponse":
                    text, path = _result(part)
                    results.append(
                        {
                            "role": "tool",
                            "tool_call_id": part.get("id"),
                            "content": record.text(text, "content", at, "toolResult", *path, part=label),
                        }
                    )
                case other:
                    named = kind_of_part(str(other))
                    said["content"].append({"type": record.text(named, "content", at, "type", part=label)})
        return [*results, *([said] if said["content"] or "tool_calls" in said else [])]


def _told_of_answers(messages: list[Any], ledger: Any) -> dict[int, Fields]:
    """Return what the ledger reports of each answer, by the place of its last message; nothing where these are not as many."""
    said = [object_of(each) for each in messages]
    of_model = [_is_answer(each) for each in said] + [False]
    ends = [at for at in range(len(said)) if of_model[at] and not of_model[at + 1]]
    rows = [object_of(each) for each in (ledger if isinstance(ledger, list) else [])]
    calls = [row for row in rows if not row.get("is_compaction") and row.get("cost_source") != _CARRIED]
    return dict(zip(ends, calls, strict=True)) if len(ends) == len(calls) else {}


def _is_answer(message: Fields) -> bool:
    return message.get("role") == "assistant" and object_of(message.get("metadata")).get("userVisible") is not False


def _call(part: Fields) -> dict[str, Any]:
    value = object_of(object_of(part.get("toolCall")).get("value"))
    arguments = json.dumps(value.get("arguments") or {}, ensure_ascii=False)
    return {"id": part.get("id"), "type": "function", "function": {"name": value.get("name"), "arguments": arguments}}


def _result(part: Fields) -> tuple[str, tuple[str | int, ...]]:
    """Return what a tool gave as a text, and where in `toolResult` it is."""
    told = object_of(part.get("toolResult"))
    if isinstance(told.get("error"), str):
        return told["error"], ("error",)
    value = told.get("value")
    items = value.get("content") if isinstance(value, dict) else value
    inner: tuple[str | int, ...] = ("value", "content") if isinstance(value, dict) else ("value",)
    listed = items if isinstance(items, list) else []
    texts = [(at, each["text"]) for at, each in enumerate(listed) if isinstance(object_of(each).get("text"), str)]
    if len(texts) == 1:
        return texts[0][1], (*inner, texts[0][0], "text")
    return "\n".join(text for _, text in texts), ()


def fits(fields: Fields) -> bool:
    """Return whether a record is the facts of a session, or a message of one."""
    if isinstance(fields.get("working_dir"), str):
        return any(name in fields for name in _FACTS) and isinstance(fields.get("conversation", []), list)
    return (
        {"role", "created", "content"} <= fields.keys()
        and ("id" in fields or _OF_MESSAGES.issuperset(fields))
        and "object" not in fields
        and isinstance(fields["created"], int)
        and isinstance(fields["content"], list)
    )


_EXAMPLE = """
{"working_dir": "/srv/shop", "description": "hours", "message_count": 2, "total_tokens": 26}
{"id": "m1", "role": "user", "created": 1770022800, "content": [{"type": "text", "text": "Is it open?"}]}
{"id": "m2", "role": "assistant", "created": 1770022801, "content": [{"type": "text", "text": "Yes."}]}
"""
FORMAT = RecordFormat(
    "goose",
    "working_dir + message_count, and messages of role + created",
    fits,
    GooseSession,
    state=True,
    grows=True,
    example=_EXAMPLE,
)
