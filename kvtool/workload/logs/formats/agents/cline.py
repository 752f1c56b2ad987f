"""Tasks of Cline and Roo Code: a list of messages in a file of its name, and beside it what was shown, which reports the tokens of
requests: alone, that is a bill without prompts. Cline's command line keeps a session in one file, with the tokens of each
answer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsIndex

import orjson

from kvtool.text.bounded_number import finite_number, whole_number
from kvtool.text.files.json_stream import MAX_RECORD
from kvtool.text.message import Message
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_context import FieldsAround, usage_alone
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.chat_records import messages_of, requests_of
from kvtool.workload.logs.records.incomplete_prompts import NO_SYSTEM, NO_TOOLS
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several, Turns
from kvtool.workload.logs.records.usage import usage_of
from kvtool.workload.turn import Turn

_HISTORY, _SHOWN = "api_conversation_history.json", "ui_messages.json"
_SENT = "api_req_started"
_CUT = "conversationHistoryDeletedRange"
_COUNTS = ("tokensIn", "cacheReads", "cacheWrites", "tokensOut")

_OF_METRICS = {
    "inputTokens": "prompt_tokens",
    "cacheReadTokens": "cached_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}
"""Counts of an answer in a session of its command line: the prompt is all that was sent."""
_LEAD = "lead"
_COMPACTED = ".compaction.json"
"""The end of the name of a file with the history that a session goes on with."""
_COPY = LeftOut("copy of a session", hint="pass the file beside it that ends in .messages.json")
_FILE = '<file_content path="{path}">\n{content}\n</file_content>'
"""How a file is sent that a message of its command line is given."""
_SUMMARY = {"source_message_count", "conversation_id", "messages"}
"""Fields of the summary that its command line keeps of a session, beside it."""

Told = dict[str, Any]


def read_history(record: Record, items: list[Any]) -> Turns:
    """Return the task as a conversation, with the tokens of those answers whose request is found."""
    answers = [at for at, item in enumerate(items) if isinstance(item, dict) and item.get("role") == "assistant"]
    told = dict(zip(answers, _of_answers([items[at] for at in answers], _requests(record.where.path)), strict=True))
    messages: list[Message] = []
    starts: list[int] = []
    for at, item in enumerate(items):
        starts.append(len(messages))
        messages += messages_of(record, [{**item, **told[at]} if at in told else item], first=at)
    starts.append(len(messages))
    turns = requests_of(record, messages, transcript=True, incomplete=NO_SYSTEM)
    left = [_left_out(items, at, told[at].get(_CUT)) for at in answers if at]
    if not any(left) or len(left) != len(turns):
        return turns
    return _Cut(turns, [[slice(starts[at], starts[at + 1]) for at in each] for each in left])


def _left_out(items: list[Any], answer: int, cut: tuple[int, int] | None) -> list[int]:
    """Return the messages before an answer that its request did not have: Cline cuts a range of them; Roo Code names the summary
    or the mark that replaces a message, if that is there by then."""
    before = [object_of(each) for each in items[:answer]]
    made = {names_of([each.get(name)]) for each in before for name in ("condenseId", "truncationId")} - {None}
    dropped = range(cut[0], cut[1] + 1) if cut else ()
    return [
        at
        for at, each in enumerate(before)
        if at in dropped
        or not made.isdisjoint(names_of([each.get(name)]) for name in ("condenseParent", "truncationParent"))
    ]


class _Cut:
    """Turns without the messages that were no longer sent when the conversation grew too long."""

    def __init__(self, turns: Turns, left: list[list[slice]]) -> None:
        self._turns = turns
        self._left = left

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, index: SupportsIndex, /) -> Turn:
        turn = self._turns[index]
        if turn.messages is not None:
            kept = list(turn.messages)
            for each in reversed(self._left[index.__index__()]):
                del kept[each]
            turn.messages = kept
        return turn


def read_shown(record: Record) -> Reading:
    """Return the tokens of a request that was shown, where the history is not beside it; otherwise they are read with that."""
    fields = record.fields
    told = parsed_text(fields["text"]) if fields.get("say") == _SENT and isinstance(fields.get("text"), str) else None
    usage = _usage(told) if isinstance(told, dict) else None
    if usage is None or Path(record.where.path).with_name(_HISTORY).is_file():
        return Several()
    model = object_of(fields.get("modelInfo"))
    around = FieldsAround(
        session=record.where.file_name or record.where.path,
        time=seconds(fields.get("ts"), "ms"),
        model=names_of([model.get("modelId")]),
        provider=names_of([model.get("providerId")]),
        usage=usage_of(usage, record.pointer),
        cost=decimal_of(usage["cost"]),
    )
    return usage_alone(record, around) or Several()


def read_session(record: Record) -> Reading:
    """Return the calls of a session of Cline's command line, with what each answer reports of its own call."""
    fields = record.fields
    if record.where.path.endswith(_COMPACTED):
        return _COPY
    calls = SessionCalls(
        session=names_of([fields.get("sessionId")]) or record.where.session,
        incomplete=NO_TOOLS if fields.get("system_prompt") else NO_SYSTEM,
        subagent=fields.get("agent") not in (None, _LEAD),
    )
    if fields.get("system_prompt"):
        system = record.text(fields["system_prompt"], "system_prompt", part="system_prompt (system)")
        calls.say([{"role": "system", "content": system}], None)
    for at, item in enumerate(record.list_of("messages")):
        said = messages_of(record, [_with_files(item)], "messages", first=at)
        time = seconds(object_of(item).get("ts"), "ms")
        if said and said[-1]["role"] == "assistant":
            metrics, model = object_of(item.get("metrics")), object_of(item.get("modelInfo"))
            answer = SessionAnswer(
                record=record,
                messages=said,
                usage=usage_of({_OF_METRICS.get(name, name): count for name, count in metrics.items()}, record.pointer),
                model=names_of([model.get("id")]),
                provider=names_of([model.get("provider")]),
                cost=decimal_of(metrics.get("cost")),
                identity=names_of([item.get("id")]),
                end=time,
            )
            calls.answer(answer, whole=True)
        else:
            calls.say(said, time)
    return calls.close()


def _with_files(item: Any) -> Any:
    """Return a message with its files as the texts that are sent for them."""
    content = object_of(item).get("content")
    if not isinstance(content, list):
        return item
    parts = [
        {"type": "text", "text": _FILE.format(path=part.get("path"), content=part["content"])}
        if isinstance(part, dict) and part.get("type") == "file" and isinstance(part.get("content"), str)
        else part
        for part in content
    ]
    return {**item, "content": parts}


def _of_answers(answers: list[Told], requests: list[tuple[float | None, Told]]) -> list[Told]:
    """Return the facts on each answer: by the times, or in their order where as many requests were answered."""
    models: list[Told] = [{"model": name} if (name := _model(answer)) is not None else {} for answer in answers]
    times = [finite_number(answer.get("ts")) for answer in answers]
    known = [time for time, _ in requests if time is not None]
    if answers and None not in times and len(known) == len(requests):
        bounds: list[float] = [float("-inf"), *(time for time in times if time is not None)]
        for model, (after, until) in zip(models, pairwise(bounds), strict=True):
            within = [usage for time, usage in requests if time is not None and after < time <= until]
            model |= _answer_fields(within[-1]) if within else {}
    elif len(requests) == len(answers):
        for model, (_, usage) in zip(models, requests, strict=True):
            model |= _answer_fields(usage)
    return models


def _answer_fields(usage: Told) -> Told:
    """Return the fields of an answer: its tokens, and what was left out of its request."""
    cut = usage.get(_CUT)
    return {"usage": {name: count for name, count in usage.items() if name != _CUT}, **({_CUT: cut} if cut else {})}


def _requests(path: str) -> list[tuple[float | None, Told]]:
    """Return when each answered request of a task was made, and its tokens; nothing where the file is not there or is no such
    file."""
    beside = Path(path).with_name(_SHOWN)
    try:
        if not beside.is_file() or beside.stat().st_size > MAX_RECORD:
            return []
        shown = orjson.loads(beside.read_bytes())
    except (OSError, ValueError):
        return []
    found = []
    for each in shown if isinstance(shown, list) else []:
        if isinstance(each, dict) and each.get("say") == _SENT and isinstance(each.get("text"), str):
            told = parsed_text(each["text"])
            if isinstance(told, dict) and (usage := _usage(told)) is not None:
                found.append((finite_number(each.get("ts")), usage))
        if found and (cut := _range(each.get(_CUT) if isinstance(each, dict) else None)) is not None:
            found[-1][1][_CUT] = cut
    return found


def _range(value: Any) -> tuple[int, int] | None:
    """Return the first and the last message that are left out of requests. What is shown from the request on has the range that is
    in force: it may change while the request is made."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(each) is int for each in value):
        return None
    return (value[0], value[1]) if 0 < value[0] <= value[1] else None


def _usage(told: Told) -> Told | None:
    """Return its tokens: those sent are without what was read or written. None where they are not reported, or cannot be."""
    counts = [whole_number(told.get(name, 0) or 0) for name in _COUNTS]
    fresh, cached, written, output = counts
    if fresh is None or cached is None or written is None or output is None:
        return None
    if not fresh + cached + written:
        return None
    return {
        "prompt_tokens": fresh + cached + written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "completion_tokens": output,
        "cost": told.get("cost"),
    }


def _model(answer: Told) -> str | None:
    info = answer.get("modelInfo")
    return names_of([info.get("modelId")]) if isinstance(info, dict) else None


def _is_session(fields: Fields) -> bool:
    return {"agent", "sessionId", "messages", "version"} <= fields.keys()


def is_shown(fields: Fields) -> bool:
    """Return whether a record is what Cline shows of a task, or notes on the task."""
    if fields.get("type") in ("say", "ask"):
        return "ts" in fields and fields["type"] in fields
    return ("files_in_context" in fields and "model_usage" in fields) or fields.keys() >= _SUMMARY


_EXAMPLE = r"""
{"ts": 1, "type": "say", "say": "api_req_started", "text": "{\"tokensIn\": 8, \"tokensOut\": 2}"}
"""
_SESSION_EXAMPLE = """
{"version": 1, "agent": "lead", "sessionId": "s1", "system_prompt": "You are Mina.", "messages": [{"id": "m1",
 "role": "user", "content": "Is it open?", "ts": 1770022800000}, {"id": "m2", "role": "assistant", "content": "Yes.",
 "ts": 1770022801000, "modelInfo": {"id": "gpt-5.5", "provider": "openai"}, "metrics": {"inputTokens": 24,
 "outputTokens": 2, "cacheReadTokens": 16, "cacheWriteTokens": 0}}]}
"""
FORMATS = (
    RecordFormat("cline-shown", "ts + say", is_shown, read_shown, example=_EXAMPLE),
    RecordFormat(
        "cline-session",
        "agent + sessionId + version + messages",
        _is_session,
        read_session,
        example=_SESSION_EXAMPLE,
        ending=".json",
    ),
)
