"""Sessions of Claude Code: a line for each message, which names the one before it by `parentUuid`.

An answer is written in parts, one line each, that share `message.id` and repeat its `usage`; what its tools gave may be between
them. A compacted conversation begins again at a line without a parent, or at its summary (`isCompactSummary`). The system prompt
and the tools are in no line.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Began, Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.records.call_fields import call_of, names_of, usage_of_record
from kvtool.workload.logs.records.chat_records import content_of, message_at, without_anthropic_blocks
from kvtool.workload.logs.records.failed_calls import FAILED, PROMPTLESS
from kvtool.workload.logs.records.incomplete_prompts import LOST, NO_SYSTEM, parts_not_counted
from kvtool.workload.logs.records.record import Record, Where, kind, object_of, seconds, text_of
from kvtool.workload.logs.records.record_format import (
    NEW_KIND,
    Fields,
    FoundCall,
    LeftOut,
    Reading,
    RecordFormat,
    Several,
    collected,
)

_MOST_HELD = 16 << 20
"""Characters of messages of sessions that are held, beside those of the session that is read."""
_KIND = re.compile(r"[a-z][a-z-]{2,40}")
_NOTES = frozenset(
    ("system", "summary", "file-history-snapshot", "queue-operation", "progress", "attachment", "worktree-state", "tag")
)
_IDS = frozenset(("sessionId", "uuid", "parentUuid", "leafUuid", "isSnapshotUpdate", "messageId"))
_PROMPTS = frozenset(("messages", "prompt", "input", "inputs", "request", "body", "params", "request_body"))
_MAIN = ""
_SYNTHETIC = "<synthetic>"
_OTHER_TOOLS = "deferred_tools_delta"
"""The attachment of a line after which the list of tools is another one: a server of tools came or went."""


@dataclass(slots=True, eq=False)
class _Answer:
    """An answer of the model, of which parts may still come."""

    first: Record
    parent: _Node
    parts: list[Any] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    usage: Usage | None = None
    fields: Record | None = None
    """The message of its last part that says its tokens."""
    last_time: float | None = None
    began: Began | None = None
    _made: list[Message] | None = None

    def add(self, part: Any) -> None:
        self.parts.append(part)
        self._made = None
        if isinstance(part, dict) and part.get("type") == "tool_use" and isinstance(part.get("id"), str):
            self.tools.append(part["id"])

    def messages(self) -> list[Message]:
        """Return it as a message, or nothing where it is all thinking."""
        if self._made is None:
            made = without_anthropic_blocks({"role": "assistant", "content": list(self.parts)})
            self._made = [each for each in made if each["content"] or each.get("tool_calls")]
        return self._made


@dataclass(slots=True, eq=False)
class _Node:
    """A message in its conversation. `lost`: what was before it is not in the file."""

    parent: _Node | None
    thread: str
    messages: list[Message] = field(default_factory=list)
    answer: _Answer | None = None
    time: float | None = None
    lost: bool = False


@dataclass(slots=True)
class _SessionEntries:
    """Entries of a session in the tables of a file, and the approximate size of its messages in characters."""

    nodes: list[str] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    size: int = 0


class ClaudeCodeSession:
    """A file of a session, or of several: a call is reported when the next one of its conversation begins. Of many sessions
    those are
    forgotten that were not met for longest; what goes on from one of them later has lost its beginning, and that is reported."""

    def __init__(self, where: Where) -> None:
        del where
        self._nodes: dict[str, _Node] = {}
        self._answers: dict[tuple[str, str], _Answer] = {}
        self._open: dict[str, tuple[str, _Answer]] = {}
        """By conversation, the answer that is being written and its id."""
        self._results: dict[str, Message] = {}
        """What a tool gave, by the id of its use."""
        self._prompts: dict[str, tuple[_Node, list[Message], Counter[str], bool]] = {}
        """By conversation, where the last prompt ended, the prompt, and whether it is lost what was before, as the next one begins
        with it."""
        self._sessions: OrderedDict[str, _SessionEntries] = OrderedDict()
        self._size = 0
        self._began: dict[str, Began] = {}
        """By session, what its records say of how the next call begins."""

    def read(self, record: Record) -> Reading:
        """Return the call before, where this line begins another one."""
        fields = record.fields
        held, ended = self._session(str(fields.get("sessionId") or ""))
        parent = self._parent(fields)
        thread = self._thread(fields, parent)
        if (began := _beginning(fields)) is not None and thread == _MAIN:
            session = str(fields.get("sessionId") or "")
            self._began[session] = self._began.get(session, began) if began == "tools_changed" else began
        if fields.get("isCompactSummary") is True:
            parent = None  # what was before is not sent any more
        node = parent or _Node(None, thread)
        message = fields.get("message")
        uuid = fields.get("uuid")
        if isinstance(uuid, str):
            self._nodes[uuid] = node  # whatever else is wrong with the line, it is a link
            held.nodes.append(uuid)
        found: Reading = Several()
        if fields.get("type") in ("user", "assistant") and message is not None:
            if not isinstance(message, dict):
                raise record.error(f"`message` must be an object, not {kind(message)}", "message")
            size = _length(message.get("content"))
            held.size += size
            self._size += size
            if fields["type"] == "user":
                node = self._add_user_message(record, message, node, thread, held)
            elif fields.get("isApiErrorMessage"):
                found = FAILED
            elif message.get("model") == _SYNTHETIC:
                found = LeftOut("synthetic answer")
            else:
                node, found = self._answered(record, message, node, thread, held)
        elif fields.get("type") not in _NOTES and ("parentUuid" in fields or not fits(fields)):
            found = NEW_KIND
        if isinstance(uuid, str):
            self._nodes[uuid] = node
        return Several([*ended, *collected(found)]) if ended else found

    def end(self) -> Reading:
        """Return the last call of each conversation."""
        still = sorted(self._open.values(), key=lambda each: each[1].last_time or 0.0)
        self._open = {}
        return Several([self._call(name, answer) for name, answer in still])

    def _session(self, name: str) -> tuple[_SessionEntries, list[FoundCall | LeftOut]]:
        """Return the state of a line's session, and the last calls of agents of others that took too much and were forgotten."""
        ended: list[FoundCall | LeftOut] = []
        held = self._sessions.setdefault(name, _SessionEntries())
        self._sessions.move_to_end(name)
        while len(self._sessions) > 1 and self._size > _MOST_HELD:
            _, old = self._sessions.popitem(last=False)
            self._size -= old.size
            for uuid in old.nodes:
                self._nodes.pop(uuid, None)
            for key in old.answers:
                self._answers.pop(key, None)
                if key[0] != _MAIN:
                    if key[0] in self._open:
                        ended.append(self._call(*self._open.pop(key[0])))
                    self._prompts.pop(key[0], None)
            for tool in old.results:
                self._results.pop(tool, None)
        return held, ended

    def _parent(self, fields: dict[str, Any]) -> _Node | None:
        named = fields.get("parentUuid")
        if not isinstance(named, str):
            return None
        return self._nodes.get(named) or _Node(None, _MAIN, lost=True)

    @staticmethod
    def _thread(fields: dict[str, Any], parent: _Node | None) -> str:
        if not fields.get("isSidechain"):
            return _MAIN
        inherited = parent.thread if parent is not None else _MAIN
        return names_of([fields.get("agentId"), inherited or None, fields.get("uuid")]) or _MAIN

    def _add_user_message(
        self, record: Record, message: dict[str, Any], parent: _Node, thread: str, held: _SessionEntries
    ) -> _Node:
        own = []
        for each in message_at(record, {"role": "user", "content": message.get("content")}, "message", "message"):
            if each["role"] == "tool" and (of := _call_answered(each)) is not None:
                self._results[of] = each
                held.results.append(of)
            if each["content"] or each["role"] == "tool":
                own.append(each)
        return _Node(parent, thread, own, time=seconds(record.fields.get("timestamp"), "s"))

    def _answered(
        self, record: Record, message: dict[str, Any], parent: _Node, thread: str, held: _SessionEntries
    ) -> tuple[_Node, Reading]:
        name = names_of([message.get("id"), record.fields.get("requestId"), record.fields.get("uuid")]) or ""
        found: Reading = Several()
        answer = self._answers.get((thread, name)) if name else None
        if answer is None:
            answer = _Answer(record, parent)
            if thread == _MAIN:
                answer.began = self._began.pop(str(record.fields.get("sessionId") or ""), None)
        inner = record.inner("message")
        assert inner is not None
        usage = usage_of_record(inner)
        content = content_of(record, message.get("content"), ("message", "content"), "message (assistant)")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []:
            answer.add(part)
        if usage is not None or answer.fields is None:
            answer.usage, answer.fields = usage or answer.usage, inner
        answer.last_time = seconds(record.fields.get("timestamp"), "s")
        if (thread, name) not in self._answers:
            before = self._open.get(thread)
            if before is not None:
                found = Several([self._call(*before)])
            self._open[thread] = name, answer
            self._answers[thread, name] = answer
            held.answers.append((thread, name))
        return _Node(parent, thread, answer=answer, time=answer.last_time), found

    def _call(self, name: str, answer: _Answer) -> FoundCall | LeftOut:
        record, parent = answer.first, answer.parent
        messages, uncounted, lost = self._prompt(parent)
        if not messages:
            return PROMPTLESS
        assert answer.fields is not None
        reason = LOST if lost else NO_SYSTEM
        call = call_of(answer.fields, uncounted=uncounted, images=uncounted["image"], incomplete=reason)
        told = answer.fields.fields.get("usage")
        usage = object_of(told)
        tier, speed = names_of([usage.get("service_tier")]), names_of([usage.get("speed")])
        if tier or speed:
            call = replace(call, settings=replace(call.settings, service_tier=tier, speed=speed))
        subagent = parent.thread != _MAIN or bool(record.fields.get("isSidechain"))
        call = replace(
            call,
            request_id=names_of([record.fields.get("requestId"), name]),
            project=project_of(record.fields.get("cwd")),
            subagent=subagent,
        )
        made = answer.messages()
        output = text_of(made[0]) if made else None
        tokens = None if answer.usage is None else answer.usage.output
        turn = record.turn(
            call=replace(call, usage=answer.usage, end=answer.last_time, began=answer.began),
            messages=messages,
            output_text=output,
            output_tokens=tokens,
        )
        if subagent:
            agent = self._thread(record.fields, parent)
            turn.session = f"{turn.session or record.session}/{agent}"
        if parent.time is not None and (turn.arrival is None or parent.time <= turn.arrival):
            turn.arrival = parent.time
        return FoundCall([turn], name or None, value=record.fields)

    def _prompt(self, node: _Node) -> tuple[list[Message], Counter[str], bool]:
        """Return all messages up to a node, their parts that are no text, and whether some before them are lost."""
        chain: list[_Node] = []
        at: _Node | None = node
        known, before, uncounted, lost = self._prompts.get(node.thread, (None, [], Counter[str](), False))
        while at is not None and at is not known:
            chain.append(at)
            at = at.parent
        messages = list(before) if at is not None else []
        if at is None:
            lost = chain[-1].lost
        given: set[str | None] = set()
        seen: _Answer | None = None
        for each in reversed(chain):
            if each.answer is not None and each.answer is not seen:
                seen = each.answer
                messages += seen.messages()
                messages += [self._results[tool] for tool in seen.tools if tool in self._results]
                given.update(seen.tools)
            messages += [message for message in each.messages if _call_answered(message) not in given]
        new = parts_not_counted(messages[len(before) :]) if at is not None else parts_not_counted(messages)
        uncounted = uncounted + new if at is not None else new
        self._prompts[node.thread] = node, messages, uncounted, lost
        return list(messages), uncounted, lost


def _call_answered(message: Message) -> str | None:
    """Return the id of the call whose result a message is."""
    of = message.get("tool_call_id")
    return of if isinstance(of, str) else None


def _beginning(fields: dict[str, Any]) -> Began | None:
    """Return how the session goes on after a line: a hook ran at its resume, a summary replaces what was before, or the list of
    tools is another one."""
    if fields.get("isCompactSummary") is True or fields.get("subtype") == "compact_boundary":
        return "compacted"
    attachment = object_of(fields.get("attachment"))
    if attachment.get("type") == _OTHER_TOOLS:
        return "tools_changed"
    return "resumed" if attachment.get("hookName") == "SessionStart:resume" else None


def _length(content: Any) -> int:
    """Estimate the characters of a message."""
    if isinstance(content, str):
        return len(content)
    parts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    return sum(len(str(each.get("text") or each.get("content") or each.get("input") or "")) for each in parts)


def fits(fields: Fields) -> bool:
    """Return whether a record is a message of a session, or a note, which has a field of its kind's name."""
    kind = fields.get("type")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind) or not _PROMPTS.isdisjoint(fields):
        return False
    if _IDS.isdisjoint(fields):
        return False
    if kind in ("user", "assistant"):
        return isinstance(fields.get("message"), dict)
    first, *rest = kind.split("-")
    return kind in _NOTES or "parentUuid" in fields or first + "".join(map(str.capitalize, rest)) in fields


_EXAMPLE = """
{"type": "user", "sessionId": "s1", "uuid": "u1", "parentUuid": null, "timestamp": "2026-02-02T09:00:00Z",
 "message": {"role": "user", "content": "Is it open?"}}
{"type": "assistant", "sessionId": "s1", "uuid": "u2", "parentUuid": "u1", "timestamp": "2026-02-02T09:00:00Z",
 "message": {"role": "assistant", "content": "Yes.", "id": "msg_1", "model": "claude-opus-4-5",
 "usage": {"input_tokens": 8, "cache_read_input_tokens": 16, "output_tokens": 2}}}
"""
FORMAT = RecordFormat(
    "claude-code",
    "sessionId + uuid + type",
    fits,
    ClaudeCodeSession,
    state=True,
    grows=True,
    linked=True,
    example=_EXAMPLE,
)
