"""Traces and logs of OpenTelemetry: spans of models in the conventions GenAI, OpenLLMetry, OpenInference and Vercel's AI SDK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.observability.otel_spans import (
    Attributes,
    Span,
    lists_in,
    printed_span,
    spans_of,
    vendor_usage,
)
from kvtool.workload.logs.records.call_context import FieldsAround, prompt, request
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.message_forms import as_messages, as_tools, system_messages
from kvtool.workload.logs.records.record import Record, parsed_text
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, RecordFormat, Several
from kvtool.workload.logs.records.usage import count_of

_OTLP = frozenset(("resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"))
_EVENT, _DETAILS, _MODEL, _HOLDS = "otel event", "otel details", "otel model span", "otel span around a model span"
_MESSAGES = frozenset(f"gen_ai.{name}.message" for name in ("system", "user", "assistant", "tool"))
_CHOICE = "gen_ai.choice"
DETAILS = "gen_ai.client.inference.operation.details"
_WITHOUT = LeftOut(
    "call without a prompt",
    hint="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT (or TRACELOOP_TRACE_CONTENT) in the traced program",
)
_ALONE = LeftOut("event without a span", hint="pass the traces too: kvtool joins events with their spans")
_OPERATIONS = {
    "embeddings": "embedding",
    "embedding": "embedding",
    "execute_tool": "tool span",
    "rerank": "rerank",
    "invoke_agent": "agent span",
    "create_agent": "agent span",
    "invoke_workflow": "workflow span",
}
_INFERENCE = frozenset(
    ("chat", "completion", "text_completion", "generate_content", "responses", "message", "messages")
)
_TRACELOOP = frozenset(("workflow", "task", "agent", "tool"))
_WORDS = frozenset(("retriever", "chain", "embedding", "tool", "agent", "reranker", "guardrail", "evaluator", "prompt"))
_INPUTS = (
    *("gen_ai.input.messages", "ai.prompt.messages", "llm.request.messages", "gen_ai.request.messages"),
    *("gen_ai.prompt", "gen_ai.content.prompt", "llm.prompts", "ai.prompt", "request_data"),
)
"""The last is Logfire's, whole bodies of an API; its answers are in `response_data`."""
_INDEXED = ("llm.input_messages", "gen_ai.prompt", "llm.prompts")
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
_SENT = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens"),
    *("ai.usage.inputTokens", "ai.usage.promptTokens"),
)
_WROTE = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    *("llm.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
)
_READ = (
    *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    *("llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens", "ai.usage.cachedInputTokens"),
    *("gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.input_tokens.cached"),
    "gen_ai.usage.details.cache_read_input_tokens",
)
_WRITTEN = (
    *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    *("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_write_input_tokens"),
    *("llm.token_count.prompt_details.cache_write", "llm.usage.cache_creation_input_tokens"),
    *("gen_ai.usage.details.cache_write_tokens", "gen_ai.usage.details.cache_creation_input_tokens"),
)
_EVENT_ROLES = {
    **{f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")},
    "gen_ai.choice": "choice",
}


def read(record: Record) -> Several:
    """Return all calls of a record of OTLP."""
    return Several(item for span in spans_of(record.fields) if (item := _read(record, span)) is not None)


def read_printed(record: Record) -> Several:
    """Return the call of a span that is alone."""
    item = _read(record, printed_span(record.fields))
    return Several([] if item is None else [item])


def keys_of(record: Record) -> list[Key]:
    """Return the keys of spans by their ids."""
    return [key for span in spans_of(record.fields) for key in _keys(span)]


def keys_of_printed(record: Record) -> list[Key]:
    """Return the same of a span by itself."""
    return list(_keys(printed_span(record.fields)))


def _keys(span: Span) -> Iterator[Key]:
    identity = span.identity
    if identity is None:
        return
    if span.name in _MESSAGES or span.name == _CHOICE:
        yield _EVENT, identity
    elif span.name == DETAILS:
        yield _DETAILS, identity
    elif kind_of_span(span) is None:
        yield _MODEL, identity
        if span.parent:
            yield _HOLDS, f"{span.trace}:{span.parent}"


def _read(record: Record, span: Span) -> FoundCall | LeftOut | None:
    joins, identity = record.where.joins, span.identity
    if span.name in _MESSAGES or span.name == _CHOICE:
        alone = joins is not None and not (identity and joins.has(_MODEL, identity))
        return _ALONE if alone else None
    left = kind_of_span(span)
    if left is not None:
        return left
    if joins is not None and identity is not None and joins.has(_HOLDS, identity):
        return LeftOut("span around another of the same call")
    found = call_of_span(record, span, span.events)
    if found is None and joins is not None and identity is not None:
        if span.name != DETAILS and joins.has(_DETAILS, identity):
            return LeftOut("span with its call in an event")
        found = call_of_span(record, span, _events(joins.find(_EVENT, identity), identity))
    if found is None and joins is None:  # it may be joined with its events, and keeps its place until then
        return prompt(record, "", FieldsAround(time=span.start, identity=identity))
    return found or (LeftOut("failed") if span.failed else _WITHOUT)


def _events(records: list[Record], identity: str) -> list[Span]:
    return [event for record in records for event in spans_of(record.fields) if event.identity == identity]


def _is_span(fields: Fields) -> bool:
    """Return whether a record is a span as an SDK of OpenTelemetry prints it, or as Phoenix exports it, as objects or as a row."""
    context = fields.get("context")
    return (
        (isinstance(context, dict) and "span_id" in context and "attributes" in fields)
        or ("span_kind" in fields and ("attributes" in fields or "context.span_id" in fields))
        or "attributes.openinference.span.kind" in fields
    )


def kind_of_span(span: Span) -> LeftOut | None:
    """Return what a span is left out as; None where it is a call of a model."""
    attributes = span.attributes
    kind = attributes.get("openinference.span.kind") or span.kind
    if isinstance(kind, str) and kind:
        word = kind.lower()
        return None if word == "llm" else LeftOut(f"{word} span" if word in _WORDS else "other span")
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation:
        if operation in _INFERENCE:
            return None
        return LeftOut(_OPERATIONS.get(operation, "other span"))
    told = attributes.get("traceloop.span.kind")
    if isinstance(told, str) and told in _TRACELOOP:
        return LeftOut(f"{told} span")
    vercel = attributes.get("ai.operationId")
    if isinstance(vercel, str):
        if vercel.endswith((".doGenerate", ".doStream")):
            return None
        return LeftOut("embedding" if ".embed" in vercel else "tool span" if "toolCall" in vercel else "workflow span")
    asked = attributes.get("llm.request.type")
    if asked in ("embedding", "rerank"):
        return LeftOut(str(asked))
    if isinstance(asked, str) or any(attributes.has(name) for name in ("gen_ai.input", *_INDEXED)):
        return None
    if attributes.get("gen_ai.request.model") is not None and attributes.get("gen_ai.tool.name") is None:
        return None
    return LeftOut("other span")


def call_of_span(record: Record, span: Span, events: Sequence[Span]) -> FoundCall | None:
    """Return the call with its prompt, of the span itself or of its events; None where neither holds it."""
    attributes = span.attributes
    messages, answer, text = _prompt_and_answer(attributes)
    if messages is None and text is None:
        for event in events:
            if messages is None and text is None:
                messages, answer, text = _prompt_and_answer(event.attributes)
            answer = answer if answer is not None else _prompt_and_answer(event.attributes)[1]
    if messages is None and text is None:
        messages, answer = _of_events(events or _listed_events(attributes))
    around = _around(span)
    if messages is None:
        return None if text is None else prompt(record, text, around)
    if span.failed and answer is None and around.usage is None:
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
    for name in _INDEXED:
        if listed := attributes.listed(name):
            messages = as_messages([_dressed(each) for each in listed])
            break
    for name in () if messages else _INPUTS:
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
    made = lists_in(item)
    if isinstance(made, dict) and isinstance(content := made.get("content"), str) and content.startswith("[{"):
        parsed = parsed_text(content)
        if isinstance(parsed, list):
            made = {**made, "content": parsed}
    return made


def _of_events(events: Sequence[Span]) -> tuple[list[Message] | None, list[Message] | None]:
    """Return messages of events, one each."""
    messages: list[Message] = []
    answer: list[Message] | None = None
    for event in events:
        role = _EVENT_ROLES.get(event.name)
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
        usage=_usage(attributes),
    )


def _usage(attributes: Attributes) -> Usage | None:
    """Return prompts count all that was sent; some emitters send what is left beside the cache, which shows where that is less."""
    sent, cached = _count(attributes, _SENT), _count(attributes, _READ)
    written, output = _count(attributes, _WRITTEN), _count(attributes, _WROTE)
    if cached is written is None and (told := vendor_usage(attributes)) is not None:
        return replace(told, output=output if told.output is None else told.output)
    if sent is cached is written is output is None:
        return None
    if sent is not None and (cached or 0) + (written or 0) > sent:
        sent += (cached or 0) + (written or 0)
    return Usage(sent, cached, written, output=output)


def _count(attributes: Attributes, names: Sequence[str]) -> int | None:
    value = attributes.get(*names)
    if value is None or isinstance(value, dict):
        return None
    return count_of(whole_number(value, in_text=True) if isinstance(value, str) else value, names[0], ())


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
        lambda fields: not _OTLP.isdisjoint(fields),
        read,
        keys=keys_of,
        example=_OTLP_EXAMPLE,
    ),
    RecordFormat(
        "otel-spans",
        "context.span_id or span_kind + attributes",
        _is_span,
        read_printed,
        keys=keys_of_printed,
        example=_OTEL_SPANS_EXAMPLE,
    ),
)
