"""Traces and logs of OpenTelemetry: spans of models in the conventions GenAI, OpenLLMetry, OpenInference and Vercel's AI SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.formats.observability.langfuse import LANGFUSE_INPUT, observation_of_span
from kvtool.workload.logs.formats.observability.otel_spans import (
    OTLP_FIELDS,
    Attributes,
    Span,
    lists_in,
    nested,
    spans_in,
)
from kvtool.workload.logs.formats.observability.span_joins import (
    INPUTS,
    MESSAGE_ROLES,
    MODEL,
    completed,
    is_again,
    keys_of,
    whole_input,
)
from kvtool.workload.logs.formats.observability.span_kinds import INDEXED_INPUTS, kind_of_span
from kvtool.workload.logs.formats.observability.span_usage import span_cost, span_usage
from kvtool.workload.logs.records.call_context import FieldsAround, prompt, request
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.message_forms import as_messages, as_tools, system_messages
from kvtool.workload.logs.records.record import Record, parsed_text
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, RecordFormat, Several

_WITHOUT = LeftOut(
    "call without a prompt",
    hint="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT (or TRACELOOP_TRACE_CONTENT) in the traced program",
)
_AGAIN = LeftOut("second record of the same call")
_ALONE = LeftOut("event without a span", hint="pass the traces too: kvtool joins events with their spans")
_OUTPUTS = (
    "gen_ai.output.messages",
    "gen_ai.completion",
    "ai.response.text",
    "gen_ai.content.completion",
    "response_data",
)
_OUTPUTS_INDEXED = ("llm.output_messages", "gen_ai.completion", "llm.completions")
_TOOLS = ("gen_ai.tool.definitions", "llm.request.tools", "ai.prompt.tools", "gen_ai.request.tools")
_TOOLS_INDEXED = ("llm.tools", "llm.request.functions", "ai.prompt.tools")
_MODELS = (
    *("gen_ai.request.model", "llm.model_name", "gen_ai.response.model", "llm.request.model", "ai.model.id"),
    "llm.model",
)
_PROVIDERS = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider")
_SESSIONS = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id", "ai.telemetry.metadata.sessionId"),
    *(f"traceloop.association.properties.{name}" for name in ("session_id", "conversation_id", "thread_id", "chat_id")),
)
_TENANTS = (
    *("user.id", "enduser.id", "langfuse.user.id", "ai.telemetry.metadata.userId", "gen_ai.request.user"),
    *("gen_ai.openai.request.user", "gen_ai.user.id"),
    *(f"traceloop.association.properties.{name}" for name in ("user_id", "tenant_id", "customer_id")),
)


def read(record: Record) -> Several:
    """Return all calls of a record: a span as an SDK prints it, or those of a record of OTLP."""
    return Several(item for span in spans_in(record.fields) if (item := _read(record, span)) is not None)


def _read(record: Record, span: Span) -> FoundCall | LeftOut | None:
    joins, identity = record.where.joins, span.identity
    if span.name in MESSAGE_ROLES:
        alone = joins is not None and not (identity and joins.has(MODEL, identity))
        return _ALONE if alone else None
    left = kind_of_span(span)
    if left is not None:
        return left
    if joins is not None and identity is not None:
        if is_again(span, identity, joins):
            return _AGAIN
        span = whole_input(completed(span, identity, joins), joins)
    found = call_of_span(record, span)
    if found is None and joins is None:  # it may be joined with its events, and keeps its place until then
        return prompt(record, "", FieldsAround(time=span.start, identity=identity))
    return found or (LeftOut("failed") if span.failed else _WITHOUT)


def _is_span(fields: Fields) -> bool:
    """Return whether a record is a span as an SDK of OpenTelemetry prints it, or as Phoenix exports it, as objects or as a row."""
    context, other = fields.get("context"), fields.get("spanContext")
    return (
        (isinstance(context, dict) and "span_id" in context and "attributes" in fields)
        or (isinstance(other, dict) and "spanId" in other and "attributes" in fields)
        or ("span_kind" in fields and ("attributes" in fields or "context.span_id" in fields))
        or "attributes.openinference.span.kind" in fields
    )


def call_of_span(record: Record, span: Span) -> FoundCall | None:
    """Return the call with its prompt, of the span itself or of its events; None where neither contains it."""
    told = [event.attributes.given for event in span.events if event.name not in MESSAGE_ROLES]
    attributes = Attributes({name: value for each in (*told, span.attributes.given) for name, value in each.items()})
    if LANGFUSE_INPUT in attributes.given:
        return observation_of_span(record, span)
    messages, answer, text = _prompt_and_answer(attributes)
    if messages is None and text is None:
        messages, answer = _of_events(span.events or _listed_events(attributes))
    around = _around(span)
    if messages is None:
        return None if text is None else prompt(record, text, around)
    said = any(each.get("content") or each.get("tool_calls") for each in answer or ())
    if span.failed and not said and (around.usage is None or not around.usage.prompt):
        return None
    fields: dict[str, Any] = {"messages": messages}
    if (tools := _tools(attributes)) is not None:
        fields["tools"] = tools
    if answer:
        fields["response"] = {"choices": [{"message": answer[0]}]}
    arguments = attributes.get("llm.invocation_parameters")
    if isinstance(arguments, str) and isinstance(parsed := parsed_text(arguments), dict):
        fields = {**{key: value for key, value in parsed.items() if key != "messages"}, **fields}
    return request(record, fields, around)


def _prompt_and_answer(attributes: Attributes) -> tuple[list[Message] | None, list[Message] | None, str | None]:
    """Return prompt and answer of these attributes."""
    messages, text = None, None
    for name in INDEXED_INPUTS:
        if listed := attributes.listed(name):
            messages = as_messages([_dressed(each) for each in listed])
            break
    for name in () if messages else INPUTS:
        value = attributes.get(name)
        if value is not None:
            messages = as_messages(value)
            if messages is None and isinstance(value, str) and value:
                text = value
            break
    if messages is None and text is None and attributes.get("openinference.span.kind", "llm.model_name") is not None:
        messages, text = _input_value(attributes)
    system = attributes.get("gen_ai.system_instructions", "ai.prompt.system")
    if messages is not None and system is not None:
        messages = [*system_messages(system), *messages]
    answer = None
    for name in _OUTPUTS_INDEXED:
        if listed := attributes.listed(name):
            answer = as_messages([_dressed(each) for each in listed])
    for name in () if answer else _OUTPUTS:
        value = attributes.get(name)
        if isinstance(value, str) and (parsed_text(value)) is None:
            answer = [{"role": "assistant", "content": value}]
        elif value is not None:
            answer = as_messages(value)
    return messages, answer, text


def _input_value(attributes: Attributes) -> tuple[list[Message] | None, str | None]:
    value = attributes.get("input.value")
    if not isinstance(value, str):
        return as_messages(value), None
    messages = as_messages(value)
    return messages, None if messages or not value else value


def _dressed(item: Any) -> Any:
    """Return an indexed message with its own lists as lists; OpenLLMetry's tool calls are in it as they are."""
    made = lists_in(_undotted(item))
    if isinstance(made, dict) and isinstance(content := made.get("content"), str) and content.startswith("[{"):
        parsed = parsed_text(content)
        if isinstance(parsed, list):
            made = {**made, "content": parsed}
    return made


def _undotted(item: Any) -> Any:
    """Return a message that Arize exports, `{"message.role": …}`, with objects in it; any other as it is."""
    if isinstance(item, list):
        return [_undotted(each) for each in item]
    if not isinstance(item, dict) or not any(name.startswith(("message.", "tool_call.")) for name in item):
        return item
    return nested({name: _undotted(value) for name, value in item.items()})


def _of_events(events: Sequence[Span]) -> tuple[list[Message] | None, list[Message] | None]:
    """Return messages of events, one each."""
    messages: list[Message] = []
    answer: list[Message] | None = None
    for event in events:
        role = MESSAGE_ROLES.get(event.name)
        if role is None:
            continue
        said = event.body
        if said is None:
            said = event.attributes.get("gen_ai.event.content")
        if isinstance(said, str):
            said = parsed_text(said) or {"content": said}
        if said is None:
            said = event.attributes.given
        if not isinstance(said, dict):
            continue
        if role == "choice":
            told = said.get("message", said)
            told = told if isinstance(told, dict) else {"content": told}
            answer = as_messages([_dressed({**told, "role": "assistant"})])
            continue
        own = said.get("id")
        told = {"role": role, **({"tool_call_id": own} if role == "tool" and own else {}), **said}
        found = as_messages([_dressed(told)])
        messages += found or []
    return messages or None, answer


def _listed_events(attributes: Attributes) -> list[Span]:
    """Yield the events of messages in one attribute, as Pydantic AI writes them."""
    value = attributes.get("events")
    value = parsed_text(value) if isinstance(value, str) else value
    return [
        Span(str(each.get("event.name")), "", "", "", None, None, attributes, body=each)
        for each in (value if isinstance(value, list) else [])
        if isinstance(each, dict)
    ]


def _tools(attributes: Attributes) -> list[Any] | None:
    for name in _TOOLS:
        value = attributes.get(name)
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            value = [parsed_text(each) for each in value]
        if value is not None and (found := as_tools(value)) is not None:
            return found
    for name in _TOOLS_INDEXED:
        if listed := attributes.listed(name):
            return as_tools([lists_in(each) for each in listed])
    return None


def _around(span: Span) -> FieldsAround:
    attributes = span.attributes
    return FieldsAround(
        session=names_of([attributes.get(name) for name in _SESSIONS]) or span.trace or None,
        time=span.start,
        end=span.end,
        identity=span.identity,
        value=span.value,
        model=names_of([attributes.get(name) for name in _MODELS]),
        provider=names_of([attributes.get(name) for name in _PROVIDERS]),
        tenant=names_of([attributes.get(name) for name in _TENANTS]),
        usage=span_usage(attributes),
        cost=span_cost(attributes),
        incomplete=span.lacks,
    )


_OTLP_EXAMPLE = r"""
{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t1", "spanId": "s1",
 "startTimeUnixNano": "1770022800000000000", "attributes": [{"key": "gen_ai.operation.name",
 "value": {"stringValue": "chat"}}, {"key": "gen_ai.input.messages",
 "value": {"stringValue": "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\", \"content\": \"Is it open?\"}]}]"}}]}]}]}]}
"""
_OTEL_SPANS_EXAMPLE = r"""
{"name": "chat", "context": {"trace_id": "t1", "span_id": "s1"}, "start_time": "2026-02-02T09:00:00Z",
 "attributes": {"gen_ai.operation.name": "chat",
 "gen_ai.input.messages": "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\", \"content\": \"Is it open?\"}]}]"}}
"""
FORMATS = (
    RecordFormat(
        "otlp",
        "resourceSpans or resourceLogs",
        lambda fields: not OTLP_FIELDS.isdisjoint(fields),
        read,
        keys=keys_of,
        example=_OTLP_EXAMPLE,
    ),
    RecordFormat(
        "otel-spans",
        "context.span_id, spanContext.spanId or span_kind + attributes",
        _is_span,
        read,
        keys=keys_of,
        example=_OTEL_SPANS_EXAMPLE,
    ),
)
