"""Traces of OpenAI's Agents SDK as its processors export them, and its sessions in SQLite, which `session_stores.py` reads.

A span of a generation has its prompt; one of a response names what OpenAI keeps, with its tokens. A session has neither the
instructions nor the tools.
"""

from __future__ import annotations

from collections import OrderedDict

from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.formats.apis.responses import ResponseItems
from kvtool.workload.logs.records.call_context import FieldsAround, call_from, usage_alone
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, Where, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_MOST_TRACES = 10_000
_OTHER_SPANS = {"function": "tool span", "agent": "agent span"}
_OF_ANSWERS = frozenset(("function_call", "reasoning"))
_STORED = LeftOut(
    "call without a prompt", hint="OpenAI keeps the prompt: use OpenAIChatCompletionsModel, or log the requests"
)


class AgentTraces:
    """A file of traces and of their spans; a trace is written before its spans."""

    def __init__(self, where: Where) -> None:
        del where
        self._groups: OrderedDict[str, str] = OrderedDict()
        """By trace, the conversation that it is of."""

    def read(self, record: Record) -> Reading:
        """Return the call of a span; nothing for a trace."""
        fields = record.fields
        if fields["object"] == "trace":
            if trace := names_of([fields.get("id")]):
                self._groups[trace] = names_of([fields.get("group_id"), trace]) or trace
                if len(self._groups) > _MOST_TRACES:
                    self._groups.popitem(last=False)
            return Several()
        told = object_of(fields.get("span_data"))
        type_ = told.get("type")
        if type_ not in ("generation", "response"):
            return LeftOut(_OTHER_SPANS.get(str(type_), "other span"))
        if fields.get("error") and not told.get("output"):
            return LeftOut("failed")
        trace = names_of([fields.get("trace_id")]) or ""
        around = FieldsAround(
            session=self._groups.get(trace, trace) or None,
            time=seconds(fields.get("started_at"), "s"),
            end=seconds(fields.get("ended_at"), "s"),
            identity=names_of([told.get("response_id"), fields.get("id")]),
            value=fields,
            model=names_of([told.get("model")]),
            usage=usage_of(told.get("usage"), record.pointer),
        )
        found = call_from(record, told.get("input"), around, answer=told.get("output"))
        return found or usage_alone(record, around) or _STORED

    def end(self) -> Reading:
        """Return nothing: no span waits for another."""
        return Several()


def read_session(record: Record) -> Reading:
    """Return the calls of a session: what the model wrote between two inputs is an answer."""
    session = object_of(record.fields.get("agents_session"))
    calls = SessionCalls(session=names_of([session.get("session_id")]) or record.where.session)
    for at, row in enumerate(record.list_of("messages")):
        inner = record.inner("messages", at, "message_data")
        if inner is None:
            raise record.error(f"messages[{at}] must be a message object, not {kind(row)}", "messages", at)
        item, time = inner.fields, seconds(object_of(row).get("created_at"), "s")
        items = ResponseItems(record)
        items.add(item, inner)
        if item.get("role") == "assistant" or item.get("type") in _OF_ANSWERS:
            calls.answer(SessionAnswer(record=inner, messages=items.messages, end=time))
        else:
            calls.say(items.messages, time)
    return calls.close()


_TRACES_EXAMPLE = """
{"object": "trace", "id": "trace_1", "workflow_name": "Agent workflow", "group_id": "s1"}
{"object": "trace.span", "id": "span_1", "trace_id": "trace_1", "started_at": "2026-02-02T09:00:00Z",
 "span_data": {"type": "generation", "model": "gpt-5.5", "input": [{"role": "system", "content": "You are Mina."},
 {"role": "user", "content": "Is it open?"}], "output": [{"role": "assistant", "content": "Yes."}],
 "usage": {"input_tokens": 24, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 2}}}
"""
_SESSION_EXAMPLE = r"""
{"agents_session": {"session_id": "s1"}, "messages": [{"created_at": "2026-02-02 09:00:00",
 "message_data": "{\"role\": \"user\", \"content\": \"Is it open?\"}"}, {"created_at": "2026-02-02 09:00:01",
 "message_data": "{\"role\": \"assistant\", \"content\": \"Yes.\", \"type\": \"message\"}"}]}
"""


def _is_trace(fields: Fields) -> bool:
    return fields.get("object") in ("trace", "trace.span") and ("workflow_name" in fields or "span_data" in fields)


FORMATS = (
    RecordFormat(
        "openai-agents", "object: trace.span + span_data", _is_trace, AgentTraces, state=True, example=_TRACES_EXAMPLE
    ),
    RecordFormat(
        "openai-agents-session",
        "agents_session + messages",
        lambda fields: isinstance(fields.get("agents_session"), dict),
        read_session,
        example=_SESSION_EXAMPLE,
        ending=".json",
    ),
)
