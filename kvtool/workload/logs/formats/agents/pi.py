"""Sessions of Pi (pi-coding-agent): a line of facts, then entries that name the entry before them, or in files of the first
version follow one another and have no ids.

A compaction replaces what was before its first kept entry with a summary. Each message of the assistant is one call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM, kind_of_part
from kvtool.workload.logs.records.record import Record, Where, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_NOT_SENT = ("model_change", "thinking_level_change", "custom", "label", "session_info", "leaf", "usage")
"""Entries of which the model gets nothing."""
_SUMMARIES = ("compaction", "branch_summary")
_ENTRIES = ("message", "custom_message", *_SUMMARIES, *_NOT_SENT)
_SAID = (
    "user",
    "assistant",
    "toolResult",
    "bashExecution",
    "custom",
    "branchSummary",
    "compactionSummary",
    "hookMessage",
)
_COUNTS = ("input", "cacheRead", "cacheWrite", "output")
_WITHOUT_IDS = frozenset(
    (
        *("type", "timestamp", "message", "thinkingLevel", "provider", "modelId"),
        *("summary", "tokensBefore", "firstKeptEntryIndex"),
    )
)
"""Fields of entries of the first version."""


@dataclass(slots=True)
class _Entry:
    """An entry with the messages that it adds to those of its parent; `lost`: its parent is not in the file."""

    id: str
    parent: _Entry | None
    time: float | None
    lost: bool = False
    messages: list[Message] = field(default_factory=list)
    begins: bool = False
    """Whether its messages replace those before."""
    called: bool = False
    """Whether it is a call of the model."""

    def path(self) -> Iterator[_Entry]:
        """Yield this entry and those before it, back to where the prompt begins."""
        at: _Entry | None = self
        while at is not None:
            yield at
            at = None if at.begins else at.parent


class PiSession:
    """A file of a session."""

    def __init__(self, where: Where) -> None:
        self._session = where.file_name or where.path
        self._project: str | None = None
        self._entries: dict[str, _Entry] = {}
        self._place = 0
        """Of the latest line without an id, among those of its session."""

    def read(self, record: Record) -> Reading:
        """Return the call of a message of the assistant."""
        fields = record.fields
        kind = fields.get("type")
        if kind == "session":
            self._session = names_of([fields.get("id"), self._session]) or self._session
            self._project = project_of(fields.get("cwd"))
            self._place = 0
            return Several()
        name, of = fields.get("id"), fields.get("parentId")
        if _WITHOUT_IDS.issuperset(fields):
            before = self._entries.get(str(self._place))
            self._place += 1
            name, of = str(self._place), None if before is None else before.id
        if not isinstance(name, str):
            return NEW_KIND
        parent = self._entries.get(of) if isinstance(of, str) else None
        lost = parent is None and isinstance(of, str)
        entry = _Entry(name, parent, seconds(fields.get("timestamp"), "s"), lost)
        self._entries[entry.id] = entry
        if kind in _SUMMARIES:
            self._summarize(record, entry)
        elif kind == "custom_message":
            entry.messages = _messages(record, "user")
        elif kind == "message":
            return self._message(record, entry)
        elif kind not in _NOT_SENT:
            return NEW_KIND
        return Several()

    def end(self) -> Reading:
        """Return nothing: each call was returned at its entry."""
        return Several()

    def _summarize(self, record: Record, entry: _Entry) -> None:
        """Put a summary in the place of what it sums up; after a compaction the last entries before it stay."""
        entry.messages = [_said(record, "user", "summary")]
        if record.fields.get("type") == "compaction":
            entry.begins = True
            fields, kept = record.fields, list[_Entry]()
            first = fields.get("firstKeptEntryId") or str(fields.get("firstKeptEntryIndex"))
            for each in entry.parent.path() if entry.parent is not None else ():
                kept.append(each)
                if each.id == first:
                    entry.messages += [message for one in reversed(kept) for message in one.messages]
                    return

    def _message(self, record: Record, entry: _Entry) -> Reading:
        inner = record.inner("message")
        role = None if inner is None else inner.fields.get("role")
        if inner is None or role not in _SAID:
            return NEW_KIND
        if role == "bashExecution" and not inner.fields.get("excludeFromContext"):
            entry.messages = [_said(inner, "user", "command"), _said(inner, "user", "output")]
        elif role in ("branchSummary", "compactionSummary"):
            entry.messages = [_said(inner, "user", "summary")]
        elif role == "toolResult":
            entry.messages = _messages(inner, "tool", tool_call_id=inner.fields.get("toolCallId"))
        elif role == "assistant":
            return self._call(inner, entry)
        elif role != "bashExecution":
            entry.messages = _messages(inner, "user")
        return Several()

    def _call(self, record: Record, entry: _Entry) -> Reading:
        fields = record.fields
        usage = _usage(record)
        if fields.get("stopReason") == "error" and usage is None:
            return FAILED  # what it said until then is not sent again
        entry.messages = _messages(record, "assistant")
        before = [*entry.path()][1:]
        entry.called = True
        first = before[-1] if before else entry
        calls = SessionCalls(
            session=self._session,
            incomplete=LOST if first.lost and not first.begins else NO_SYSTEM,
            project=self._project,
            compacted=first.begins and not any(each.called for each in before),
        )
        for each in reversed(before):
            calls.say(each.messages, each.time)
        answer = SessionAnswer(
            record=record,
            messages=entry.messages,
            usage=usage,
            model=names_of([fields.get("responseModel"), fields.get("model")]),
            provider=names_of([fields.get("provider")]),
            cost=_cost(fields) if usage is not None else None,
            identity=names_of([fields.get("responseId")]) or f"{entry.id} {entry.time}",
            end=entry.time,
        )
        calls.answer(answer)
        return calls.close()


def _usage(record: Record) -> Usage | None:
    """Return the tokens of an answer; None where none are reported: a call that was stopped has zeros."""
    told = record.fields.get("usage")
    if not isinstance(told, dict) or not any(told.get(name) for name in _COUNTS):
        return None
    at = (*record.pointer, "usage")
    fresh, read, written, output = (count_of(told.get(name) or 0, name, at) for name in _COUNTS)
    return checked(Usage(fresh + read + written, read, written, output=output))


def _cost(fields: Fields) -> Decimal | None:
    return decimal_of(object_of(object_of(fields.get("usage")).get("cost")).get("total"))


def _said(record: Record, role: str, name: str) -> Message:
    return {"role": role, "content": record.text(record.fields.get(name) or "", name, part=name)}


def _messages(record: Record, role: str, **more: Any) -> list[Message]:
    """Return the message of a record with its `content`; none for one that is empty."""
    content = record.fields.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": record.text(content, "content", part=f"content ({role})"), **more}]
    said: list[Any] = []
    calls = []
    for at, part in enumerate(content if isinstance(content, list) else []):
        kind = object_of(part).get("type")
        if kind == "text":
            label = f"content[{at}] ({role})"
            said.append({"type": "text", "text": record.text(part.get("text"), "content", at, "text", part=label)})
        elif kind == "toolCall":
            arguments = json.dumps(part.get("arguments") or {}, ensure_ascii=False)
            calls.append(
                {
                    "id": part.get("id"),
                    "type": "function",
                    "function": {"name": part.get("name"), "arguments": arguments},
                }
            )
        elif kind != "thinking":
            said.append({"type": kind_of_part(str(kind))})
    if not said and not calls:
        return []
    return [{"role": role, "content": said, **({"tool_calls": calls} if calls else {}), **more}]


def fits(fields: Fields) -> bool:
    """Return whether a record is the facts of a session, or an entry of one."""
    kind = fields.get("type")
    if kind == "session":
        return "cwd" in fields and "timestamp" in fields and "parentId" not in fields
    if kind not in _ENTRIES or "timestamp" not in fields:
        return False
    if not {"id", "parentId"} <= fields.keys() and not _WITHOUT_IDS.issuperset(fields):
        return False
    return kind != "message" or object_of(fields.get("message")).get("role") in _SAID


_EXAMPLE = """
{"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-02T09:00:00Z", "cwd": "/srv/shop"}
{"type": "message", "id": "e1", "parentId": null, "timestamp": "2026-02-02T09:00:00Z",
 "message": {"role": "user", "content": "Is it open?", "timestamp": 1770022800000}}
{"type": "message", "id": "e2", "parentId": "e1", "timestamp": "2026-02-02T09:00:01Z",
 "message": {"role": "assistant", "content": [{"type": "text", "text": "Yes."}], "provider": "anthropic",
 "model": "claude-sonnet-4-5", "stopReason": "stop",
 "usage": {"input": 4, "output": 2, "cacheRead": 16, "cacheWrite": 4, "totalTokens": 26}}}
"""
FORMAT = RecordFormat(
    "pi",
    "type: session + cwd, and entries of id + parentId",
    fits,
    PiSession,
    state=True,
    grows=True,
    linked=True,
    example=_EXAMPLE,
)
