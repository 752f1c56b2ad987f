"""Events of OpenHands: actions of the agent and what came of them, from which the prompts of its calls are put together.

Actions of one answer share the id of its response. Versions from 1.0 on name the `kind` of an event; before, it is an `action` or
an `observation`. Tokens are reported as sums over the session.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, found_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.chat_records import content_of, tools_of
from kvtool.workload.logs.records.failed_calls import PROMPTLESS
from kvtool.workload.logs.records.record import Record, Where, object_of, seconds, text_of
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_SOURCES = ("agent", "user", "environment")
_KINDS = ("Condensation", "CondensationRequest", "UserRejectObservation", "CondensationSummaryEvent")
_FIELDS = frozenset(("args", "content", "extras", "message", "cause"))
_COUNTS = ("prompt_tokens", "cache_read_tokens", "cache_write_tokens", "completion_tokens")
_NO_PROMPT = frozenset(
    (
        *("agent_state_changed", "change_agent_state", "null", "success", "recall", "condensation_request"),
        *("loop_detection", "start", "pause", "resume", "stop", "reject"),
    )
)
_NO_ARGUMENTS = frozenset(("thought", "hidden", "confirmation_state", "security_risk", "is_confirmed", "blocking"))


@dataclass(slots=True)
class _Answer:
    """An answer of the model: `sent` is the number of events before it."""

    record: Record
    id: str | None
    prompt: list[Message]
    tools: list[Any] | None
    uncounted: Counter[str]
    message: Message
    began: float | None
    end: float | None = None
    usage: Usage | None = None
    model: str | None = None


class OpenHandsEvents:
    """The events of a session, one after another."""

    def __init__(self, where: Where, session: str | None = None) -> None:
        self._session = session or where.file_name or where.path
        self._tools: list[Any] | None = None
        self._history: list[tuple[str | None, Message]] = []
        """Messages, each with the id of its event."""
        self._uncounted: Counter[str] = Counter()
        self._answer: _Answer | None = None
        self._sent_at: float | None = None
        self._sums: tuple[int, ...] = (0,) * len(_COUNTS)

    def read(self, record: Record) -> Reading:
        """Return the call that an event ends: that of an agent's action before it."""
        fields = record.fields
        if isinstance(fields.get("kind"), str):
            return self._read_kind(record, fields["kind"])
        action, seen = fields.get("action"), fields.get("observation")
        name = names_of([fields.get("id")])
        args = fields.get("args") if isinstance(fields.get("args"), dict) else {}
        assert isinstance(args, dict)
        if isinstance(action, str) and action not in _NO_PROMPT:
            if action == "system":
                self._add(record, name, "system", args.get("content", fields.get("message")), "args", "content")
                self._tools = tools_of(replace(record, fields={"tools": args.get("tools")}))
            elif action.startswith("condensation"):
                self._condense(record, args, "args")
            elif fields.get("source") == "agent":
                return self._acted(record, name, action, args)
            else:
                return self._add_user_message(
                    record, name, args.get("content", fields.get("message")), "args", "content"
                )
        elif isinstance(seen, str) and seen not in _NO_PROMPT:
            of = object_of(fields.get("tool_call_metadata")).get("tool_call_id")
            self._add(record, name, "tool" if of else "user", fields.get("content"), "content", of=of)
        elif action == "recall" or seen == "recall":
            self._uncounted["recall"] += seen == "recall"
        return Several()

    def end(self) -> Reading:
        """Return the last call."""
        return self._close()

    def _read_kind(self, record: Record, kind: str) -> Reading:
        fields = record.fields
        name = names_of([fields.get("id")])
        match kind:
            case "SystemPromptEvent":
                parts = [each for each in (fields.get("system_prompt"), fields.get("dynamic_context")) if each]
                self._add(record, name, "system", parts, "system_prompt")
                self._tools = _sdk_tools(record)
            case "MessageEvent":
                message = object_of(fields.get("llm_message"))
                path = ("llm_message", "content")
                if fields.get("source") != "agent":
                    said = message.get("content")
                    if isinstance(more := fields.get("extended_content"), list) and isinstance(said, list):
                        said = [*said, *more]
                    return self._add_user_message(record, name, said, *path)
                content = content_of(record, message.get("content"), path, "llm_message (assistant)")
                return self._answered(
                    record, name, {"role": "assistant", "content": content}, fields.get("llm_response_id")
                )
            case "ActionEvent":
                call = object_of(fields.get("tool_call"))
                function = object_of(call.get("function")) or call
                said = {
                    "name": names_of([function.get("name"), fields.get("tool_name")]),
                    "arguments": function.get("arguments"),
                }
                if not isinstance(said["arguments"], str):
                    said["arguments"] = json.dumps(said["arguments"] or fields.get("action"), ensure_ascii=False)
                asked = {"id": fields.get("tool_call_id"), "type": "function", "function": said}
                thought = content_of(record, fields.get("thought") or None, ("thought",), "thought (assistant)")
                message = {"role": "assistant", "content": thought, "tool_calls": [asked]}
                return self._answered(record, name, message, fields.get("llm_response_id"))
            case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
                seen = object_of(fields.get("observation"))
                content = seen.get("content", seen.get("output", fields.get("error", fields.get("rejection_reason"))))
                self._add(record, name, "tool", content, "observation", "content", of=fields.get("tool_call_id"))
            case "Condensation":
                self._condense(record, fields)
        return Several()

    def _add(self, record: Record, name: str | None, role: str, content: Any, *path: str, of: object = None) -> None:
        made = content_of(record, content, path, f"{path[-1]} ({role})")
        message: Message = {"role": role, "content": made if made is not None else ""}
        if role == "tool":
            message["tool_call_id"] = of
        self._history.append((name, message))
        self._sent_at = seconds(record.fields.get("timestamp"), "s")

    def _add_user_message(self, record: Record, name: str | None, content: Any, *path: str) -> Reading:
        found = self._close()
        self._add(record, name, "user", content, *path)
        return found

    def _acted(self, record: Record, name: str | None, action: str, args: dict[str, Any]) -> Reading:
        metadata = object_of(record.fields.get("tool_call_metadata"))
        response = object_of(metadata.get("model_response"))
        if action == "message" or not metadata:
            said = args.get("content") if action == "message" else args.get("thought") or record.fields.get("message")
            content = content_of(record, said, ("args", "content"), "args (assistant)")
            message: Message = {"role": "assistant", "content": content}
        else:
            thought = content_of(record, args.get("thought") or None, ("args", "thought"), "args (assistant)")
            given = {key: value for key, value in args.items() if key not in _NO_ARGUMENTS}
            function = {"name": metadata.get("function_name"), "arguments": json.dumps(given, ensure_ascii=False)}
            asked = {"id": metadata.get("tool_call_id"), "type": "function", "function": function}
            message = {"role": "assistant", "content": thought, "tool_calls": [asked]}
        found = self._answered(record, name, message, response.get("id"))
        assert self._answer is not None
        self._answer.model = names_of([response.get("model"), self._answer.model])
        self._count(record, self._answer)
        return found

    def _answered(self, record: Record, name: str | None, message: Message, response: object) -> Reading:
        id_ = names_of([response])
        found = Several()
        if self._answer is not None and id_ is not None and self._answer.id == id_:
            self._answer.message.setdefault("tool_calls", []).extend(message.get("tool_calls", ()))
        else:
            found = self._close()
            prompt = [each for _, each in self._history]
            self._answer = _Answer(record, id_, prompt, self._tools, self._uncounted.copy(), message, self._sent_at)
            self._history.append((name, message))
        self._answer.end = seconds(record.fields.get("timestamp"), "s")
        return found

    def _count(self, record: Record, answer: _Answer) -> None:
        """Return its tokens: as they are reported for its response, or as more than was reported before."""
        metrics = object_of(record.fields.get("llm_metrics"))
        each = metrics.get("token_usages")
        for at, told in enumerate(each if isinstance(each, list) else []):
            if answer.id is not None and object_of(told).get("response_id") == answer.id:
                answer.usage = self._usage(_counts(record, told, "llm_metrics", "token_usages", at))
        summed = object_of(metrics.get("accumulated_token_usage"))
        if not summed:
            return
        model = names_of([summed.get("model")])
        answer.model = answer.model or (None if model == "default" else model)
        now = _counts(record, summed, "llm_metrics", "accumulated_token_usage")
        wrong = min(now, self._sums, key=min)
        since = tuple(new - old for new, old in zip(now, self._sums, strict=True))
        self._sums = now
        if answer.usage is None and (min(wrong) < 0 or (min(since) >= 0 and since[0])):
            answer.usage = self._usage(wrong if min(wrong) < 0 else since)

    @staticmethod
    def _usage(counts: tuple[int, ...]) -> Usage:
        prompt, cached, written, output = counts
        return checked(Usage(prompt=prompt, cached=cached, written=written, output=output))

    def _close(self) -> Several:
        answer, self._answer = self._answer, None
        return Several() if answer is None else Several([self._call(answer)])

    def _call(self, answer: _Answer) -> FoundCall | LeftOut:
        if not answer.prompt:
            return PROMPTLESS
        around = FieldsAround(
            session=self._session,
            time=answer.began,
            end=answer.end,
            identity=answer.id,
            model=answer.model,
            usage=answer.usage,
        )
        found = found_call(
            answer.record, answer.prompt, around=around, tools=answer.tools, answer=text_of(answer.message)
        )
        if answer.uncounted:
            turn = found.turns[0]
            parts = Counter(dict(turn.call.uncounted)) + answer.uncounted
            turn.call = replace(turn.call, uncounted=tuple(sorted(parts.items())))
        found.value = answer.record.fields
        return found

    def _condense(self, record: Record, told: dict[str, Any], *path: str) -> None:
        """Forget events, and put a summary in their place."""
        first, last = told.get("forgotten_events_start_id"), told.get("forgotten_events_end_id")
        ids = told.get("forgotten_event_ids")
        gone = {str(each) for each in ids} if isinstance(ids, list) else set()
        if isinstance(first, int) and isinstance(last, int) and 0 <= first <= last < 1 << 31:
            gone |= {
                name
                for name, _ in self._history
                if name is not None and whole_number(name, least=first, most=last, in_text=True) is not None
            }
        kept = [each for each in self._history if each[0] not in gone]
        summary, offset = told.get("summary"), told.get("summary_offset")
        if isinstance(summary, str) and summary:
            text = record.text(summary, *path, "summary", part="summary (user)")
            at = offset if isinstance(offset, int) and 0 <= offset <= len(kept) else min(1, len(kept))
            kept.insert(at, (names_of([record.fields.get("id")]), {"role": "user", "content": text}))
        self._history = kept


def read_run(record: Record) -> Reading:
    """Return a session that is one record: a download, or a row of an evaluation."""
    fields = record.fields
    name = next(each for each in ("history", "trajectory", "events") if isinstance(fields.get(each), list))
    session = names_of([fields.get("instance_id"), fields.get("session_id"), fields.get("conversation_id")])
    state = OpenHandsEvents(record.where, session or record.where.session)
    found = Several()
    for at, event in enumerate(fields[name]):
        paths: list[tuple[str | int, ...]] = [(name, at)]
        if isinstance(event, list):  # an action with what came of it
            paths = [(name, at, nth) for nth in range(len(event))]
        for path in paths:
            inner = record.inner(*path)
            if inner is not None:
                found += _list_of(state.read(replace(inner, around=())))
    found += _list_of(state.end())
    return found


def _list_of(reading: Reading) -> Several:
    assert isinstance(reading, Several)
    return reading


def _sdk_tools(record: Record) -> list[Any] | None:
    tools = record.fields.get("tools")
    if not isinstance(tools, list):
        return None
    plain = []
    for tool in tools:
        named = {"name": tool.get("name", tool.get("title")), **tool} if isinstance(tool, dict) else tool
        plain.append(named)
    return tools_of(replace(record, fields={"tools": plain}))


def _counts(record: Record, told: dict[str, Any], *path: str | int) -> tuple[int, ...]:
    at = (*record.pointer, *path)
    return tuple(0 if told.get(name) is None else count_of(told[name], name, at) for name in _COUNTS)


def is_event(fields: Fields) -> bool:
    """Return whether a record is an event."""
    if fields.get("source") not in _SOURCES:
        return False
    kind = fields.get("kind")
    if isinstance(kind, str):
        return kind.endswith("Event") or kind in _KINDS
    said = fields.get("action", fields.get("observation"))
    return isinstance(said, str) and not _FIELDS.isdisjoint(fields)


def is_run(fields: Fields) -> bool:
    """Return whether a record contains a list of events."""
    for name in ("history", "trajectory", "events"):
        events = fields.get(name)
        first = events[0] if isinstance(events, list) and events else None
        first = first[0] if isinstance(first, list) and first else first
        if isinstance(first, dict) and is_event(first):
            return True
    return False


_OPENHANDS_EXAMPLE = """
{"id": 0, "timestamp": "2026-02-02T09:00:00Z", "source": "agent", "action": "system",
 "args": {"content": "You are Mina."}}
{"id": 1, "timestamp": "2026-02-02T09:00:00Z", "source": "user", "action": "message",
 "args": {"content": "Is it open?"}}
{"id": 2, "timestamp": "2026-02-02T09:00:00Z", "source": "agent", "action": "message",
 "args": {"content": "Yes."}}
"""
_OPENHANDS_RUN_EXAMPLE = """
{"instance_id": "i1", "history": [{"id": 0, "timestamp": "2026-02-02T09:00:00Z", "source": "agent",
 "action": "system", "args": {"content": "You are Mina."}}, {"id": 1, "timestamp": "2026-02-02T09:00:00Z",
 "source": "user", "action": "message", "args": {"content": "Is it open?"}}, {"id": 2,
 "timestamp": "2026-02-02T09:00:00Z", "source": "agent", "action": "message", "args": {"content": "Yes."}}]}
"""
FORMATS = (
    RecordFormat(
        "openhands", "source + action or observation", is_event, OpenHandsEvents, state=True, example=_OPENHANDS_EXAMPLE
    ),
    RecordFormat("openhands-run", "history of such events", is_run, read_run, example=_OPENHANDS_RUN_EXAMPLE),
)
