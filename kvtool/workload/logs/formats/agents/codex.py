"""Rollouts of Codex: what was sent to the model and what it answered, item by item, in the order of the file.

An answer is the items of the model up to a `token_count`, which says its tokens; where none comes, up to the next input. Where the
first one after a user's message comes before all items, each says the tokens of the items after it. The tools are in no line, and
in files of the first year neither is the system prompt.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.agents.projects import project_of
from kvtool.workload.logs.formats.apis.responses import ResponseItems
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.chat_records import reported_call
from kvtool.workload.logs.records.failed_calls import PROMPTLESS
from kvtool.workload.logs.records.incomplete_prompts import NO_SYSTEM, NO_TOOLS
from kvtool.workload.logs.records.record import Record, Where, kind, seconds, text_of
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_LINES = frozenset(
    (
        *("session_meta", "response_item", "compacted", "turn_context", "event_msg"),
        *("world_state", "token_usage_record"),
    )
)
_ITEMS = frozenset(
    (
        *("message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call"),
        *("custom_tool_call_output", "web_search_call", "ghost_snapshot", "compaction"),
    )
)
_META = frozenset(("id", "timestamp", "instructions", "git", "cwd", "originator", "cli_version", "source"))
_OTHER_FORMATS = frozenset(
    (
        *("sessionId", "uuid", "parentUuid", "leafUuid", "isSnapshotUpdate", "messageId"),
        *("messages", "prompt", "inputs", "request", "body", "params", "request_body"),
    )
)
"""Fields of sessions of Claude Code and of bodies of APIs, whose items have the same types."""
_COUNTS = (
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "cache_write_input_tokens"),
)
_NO_ITEMS = ("ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "other")


@dataclass(slots=True)
class _Answer:
    """Items that the model wrote between two inputs. `sent` counts the messages of the history before it."""

    record: Record
    sent: int
    uncounted: Counter[str]
    began: float | None
    end: float | None = None
    id: str | None = None
    """Of the first tool that it calls: a copy of it in another file has the same."""
    messages: list[Message] = field(default_factory=list)


class CodexRollout:
    """A file of a session: a call is reported when its tokens are, or when the user says something else."""

    def __init__(self, where: Where) -> None:
        self._session = where.file_name or where.path
        self._named = False
        self._system: list[Message] = []
        self._history: list[Message] = []
        self._uncounted: Counter[str] = Counter()
        """Items of the history that are no text."""
        self._answers: list[_Answer] = []
        """Those whose call was not returned yet: parts of one answer, or answers without reported tokens."""
        self._ahead: Usage | None = None
        """Tokens that are reported before the items of their answer, as files of 2025 do."""
        self._after = False
        """Whether tokens are reported after the items, since the latest message of the user."""
        self._writing = False
        self._sent_at: float | None = None
        self._model: str | None = None
        self._provider: str | None = None
        self._effort: str | None = None
        self._project: str | None = None
        self._subagent = False
        self._total: tuple[int, ...] = ()

    def read(self, record: Record) -> Reading:
        """Return the call whose end a line reports."""
        fields = record.fields
        payload = fields.get("payload")
        if not isinstance(payload, dict):
            if fields.get("type") is None:
                self._begin(fields, record)
                return Several()
            return self._item(record, fields)
        match fields["type"]:
            case "session_meta":
                self._begin(payload, record)
            case "turn_context":
                self._model = names_of([payload.get("model"), self._model])
                self._effort = names_of([payload.get("effort"), payload.get("reasoning_effort")])
            case "response_item":
                return self._item(record, payload, "payload")
            case "compacted":
                return self._compacted(record, payload)
            case "event_msg" if payload.get("type") == "token_count":
                return self._counted(record, payload.get("info"))
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                return self._rolled_back(payload.get("num_turns"))
        return Several()

    def end(self) -> Reading:
        """Return the calls whose tokens nobody reported."""
        return self._close()

    def _begin(self, meta: dict[str, Any], record: Record) -> None:
        name = names_of([meta.get("id"), meta.get("session_id")])
        if name is None or self._named:  # the second one is that of the session that it goes on with
            return
        self._session, self._named = name, True
        self._provider = names_of([meta.get("model_provider")])
        self._project = project_of(meta.get("cwd"))
        source = meta.get("source")
        self._subagent = isinstance(source, dict) and "subagent" in source
        base = meta.get("base_instructions")
        text = base.get("text") if isinstance(base, dict) else base
        if isinstance(text, str) and text:
            path = ("payload", "base_instructions", *(("text",) if isinstance(base, dict) else ()))
            content = record.text(text, *path, part="base_instructions (system)")
            self._system = [{"role": "system", "content": content}]

    def _item(self, record: Record, item: dict[str, Any], *path: str) -> Reading:
        type_ = item.get("type")
        if not isinstance(type_, str):
            raise record.error(f"an item has a `type` that is {kind(type_)}", *path)
        if type_ in _NO_ITEMS:
            return Several()
        made = ResponseItems(record)
        made.add(item, record, *path)
        time = seconds(record.fields.get("timestamp"), "s")
        if type_.endswith("_output") or (type_ == "message" and item.get("role") != "assistant"):
            found = Several()
            if item.get("role") == "user":
                found, self._after = self._close(), False
            self._writing = False
            self._sent_at = time
            self._history += made.messages
            self._uncounted.update(made.uncounted)
            return found
        if not self._writing:
            self._answers.append(_Answer(record, len(self._history), self._uncounted.copy(), self._sent_at or time))
            self._writing = True
        answer = self._answers[-1]
        answer.end = time
        answer.id = answer.id or names_of([item.get("call_id")])
        for message in made.messages:
            calls = message.get("tool_calls")
            if calls and not message["content"] and answer.messages:
                answer.messages[-1].setdefault("tool_calls", []).extend(calls)
            else:
                answer.messages.append(message)
                self._history.append(message)
        self._uncounted.update(made.uncounted)
        return Several()

    def _counted(self, record: Record, info: Any) -> Reading:
        if not isinstance(info, dict):
            return Several()
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        at = ("payload", "info", "last_token_usage")
        if not isinstance(last, dict):
            if not isinstance(total, dict):
                return Several()
            now = _counts(total, record, "payload", "info", "total_token_usage")
            before = self._total or (0,) * len(now)
            since = tuple(new - old for new, old in zip(now, before, strict=True))
            self._total = now
            counts = min(now, before, key=min) if min(*now, *before) < 0 else since if min(since) >= 0 else now
            at = ("payload", "info", "total_token_usage")
        else:
            counts = _counts(last, record, *at)
            now = _counts(total, record, "payload", "info", "total_token_usage") if isinstance(total, dict) else ()
            if now and now == self._total:
                return Several()  # reported again
            self._total = now
        if not counts[0]:
            return Several()  # an estimate, or what was reported before
        prompt, cached, output, reasoning, written = counts
        usage = checked(Usage(prompt, cached, written or None, output=output, reasoning=reasoning))
        if self._answers and (self._ahead is None or self._writing):
            without_items = [] if self._ahead is None else [PROMPTLESS]
            self._ahead, self._after = usage, True
            return Several([*without_items, *self._close()])
        if self._after:
            return PROMPTLESS
        found = self._close()
        self._ahead = usage
        return found

    def _close(self) -> Several:
        """Return the answers since the last call as one with the tokens of it; a call each where none were reported."""
        answers, usage = self._answers, self._ahead
        self._answers, self._ahead, self._writing = [], None, False
        if usage is None:
            return Several([self._call(answer, None) for answer in answers])
        if not answers:
            return Several([PROMPTLESS])
        for part in answers[1:]:
            answers[0].messages += part.messages
            answers[0].end = part.end
        return Several([self._call(answers[0], usage)])

    def _call(self, answer: _Answer, usage: Usage | None) -> FoundCall | LeftOut:
        messages = [*self._system, *self._history[: answer.sent]]
        if not messages:
            return PROMPTLESS
        reason = NO_TOOLS if self._system else NO_SYSTEM
        call = reported_call(answer.record, messages, None, answer.uncounted, reason)
        effort = None if self._effort is None else json.dumps(self._effort)
        call = replace(
            call,
            model=self._model,
            provider=self._provider,
            project=self._project,
            subagent=self._subagent,
            usage=usage,
            end=answer.end,
            settings=replace(call.settings, effort=effort),
        )
        turn = answer.record.turn(
            call=call,
            messages=messages,
            output_text="".join(map(text_of, answer.messages)),
            output_tokens=None if usage is None else usage.output,
        )
        turn.session = self._session
        turn.arrival = turn.arrival if answer.began is None else answer.began
        return FoundCall([turn], answer.id, value=answer.record.fields)

    def _compacted(self, record: Record, payload: dict[str, Any]) -> Reading:
        found = self._close()
        made = ResponseItems(record)
        items = payload.get("replacement_history")
        if isinstance(items, list):
            for i, item in enumerate(items):
                if not isinstance(item, dict) or item.get("type") not in _NO_ITEMS:
                    made.add(item, record, "payload", "replacement_history", i)
        else:
            made.messages += [message for message in self._history if message["role"] in ("user", "developer")]
            if isinstance(summary := payload.get("message"), str) and summary:
                text = record.text(summary, "payload", "message", part="message (user)")
                made.messages.append({"role": "user", "content": text})
        self._history, self._uncounted = made.messages, made.uncounted
        return found

    def _rolled_back(self, turns: Any) -> Reading:
        found = self._close()
        said = [at for at, message in enumerate(self._history) if _is_of_user(message)]
        if isinstance(turns, int) and 0 < turns <= len(said):
            self._history = self._history[: said[-turns]]
        return found


def _counts(usage: dict[str, Any], record: Record, *path: str) -> tuple[int, ...]:
    return tuple(
        0 if usage.get(name) is None else count_of(usage[name], name, (*record.pointer, *path)) for name in _COUNTS
    )


def _is_of_user(message: Message) -> bool:
    """Return whether a user said it, and not the program in the user's name."""
    return message["role"] == "user" and not text_of(message).lstrip().startswith("<")


def fits(fields: Fields) -> bool:
    """Return whether a record is a line of a rollout: of today, or of the first year, when items were lines of their own."""
    kind = fields.get("type")
    if not isinstance(kind, str | None):
        return False
    if kind in _LINES and isinstance(fields.get("payload"), dict):
        return True
    if kind in _ITEMS:
        return _OTHER_FORMATS.isdisjoint(fields)
    if kind is not None:
        return False
    return fields == {"record_type": "state"} or (
        {"id", "timestamp", "instructions"} <= fields.keys() and _META.issuperset(fields)
    )


_EXAMPLE = """
{"timestamp": "2026-02-02T09:00:00Z", "type": "session_meta", "payload": {"id": "s1",
 "base_instructions": {"text": "Help."}}}
{"timestamp": "2026-02-02T09:00:00Z", "type": "response_item", "payload": {"type": "message", "role": "user",
 "content": [{"type": "input_text", "text": "Is it open?"}]}}
{"timestamp": "2026-02-02T09:00:00Z", "type": "response_item", "payload": {"type": "message",
 "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}}
"""
FORMAT = RecordFormat(
    "codex", "payload + type: response_item", fits, CodexRollout, state=True, grows=True, example=_EXAMPLE
)
