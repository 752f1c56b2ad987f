"""Spans and events of one call: which says the same call once more, and what they add to each other.

A library and the framework around it may both write a span of a call, and only one of these its prompt; or the prompt is in events.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.workload.logs.formats.observability.langfuse import LANGFUSE_INPUT
from kvtool.workload.logs.formats.observability.otel_spans import Attributes, Span, spans_in
from kvtool.workload.logs.formats.observability.span_kinds import INDEXED_INPUTS, kind_of_span
from kvtool.workload.logs.formats.observability.span_usage import span_usage
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.incomplete_prompts import LOST
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, RecordJoins, parsed_text

MESSAGE_ROLES = {
    **{f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")},
    "gen_ai.choice": "choice",
}
"""Events of one message each, and its role."""
DETAILS = "gen_ai.client.inference.operation.details"
"""The event that has all of a call."""
INPUTS = (
    *("gen_ai.input.messages", "ai.prompt.messages", "llm.request.messages", "gen_ai.request.messages"),
    *("gen_ai.prompt", "gen_ai.content.prompt", "llm.prompts", "ai.prompt", "request_data"),
)
"""The last is Logfire's, whole bodies of an API; its answers are in `response_data`."""

MODEL, _EVENT, _DETAILS, _PROMPT = "otel model span", "otel event", "otel details", "otel prompt"
_AROUND, _ANSWER, _STREAMED = "otel span around a prompt", "otel answer", "otel streamed answer"
_BARE, _BARE_ANSWER = "otel span around no prompt", "otel answer without a prompt"
"""Keys of spans with a prompt: the span around them, the id of their answer; the same of those without."""
_INPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.system_instructions"
_BASE, _DROPPED = "lk.input.base_span_id", "lk.input.dropped_from_base"
"""The span whose input a span of LiveKit continues, and how many of its last messages are left out."""
_MOST_CONTINUED = 1_000


def keys_of(record: Record) -> list[Key]:
    """Return the keys of the spans and events of a record."""
    return [key for span in spans_in(record.fields) for key in _keys(span)]


def _keys(span: Span) -> Iterator[Key]:
    identity = span.identity
    if identity is None:
        return
    if span.name in MESSAGE_ROLES:
        yield _EVENT, identity
    elif span.name == DETAILS:
        yield _DETAILS, identity
    elif kind_of_span(span) is None:
        yield MODEL, identity
        if _has_prompt(span):
            yield _PROMPT, identity
            names = {_AROUND: span.holder, _ANSWER: _answer(span), _STREAMED: _streamed(span, "log")}
        else:
            names = {_BARE: span.holder, _BARE_ANSWER: _answer(span)}
        yield from ((name, value) for name, value in names.items() if value)


def is_again(span: Span, identity: str, joins: RecordJoins) -> bool:
    """Return whether another span or event has the same call, with its prompt."""
    if span.name == DETAILS:
        return not _has_prompt(span) and joins.has(_PROMPT, identity)
    if _has_prompt(span):
        streamed = span_usage(span.attributes) is None and joins.has(_STREAMED, _streamed(span, "span"))
        return streamed or joins.has(_AROUND, identity)
    return joins.has(_DETAILS, identity) or joins.has(_PROMPT, span.holder) or joins.has(_ANSWER, _answer(span))


def completed(span: Span, identity: str, joins: RecordJoins) -> Span:
    """Return a span with what others say of its call: its own events, the span of an event, one inside that has no prompt."""
    if span.name == DETAILS:
        others = _found(joins.find(MODEL, identity), lambda each: each.identity == identity and each.name != DETAILS)
        for other in others:
            return replace(span, attributes=_joined(other, span), start=other.start, end=other.end)
    elif _has_prompt(span):
        answer = _answer(span)
        inner = chain(joins.find(_BARE, identity), joins.find(_BARE_ANSWER, answer))
        for other in _found(inner, lambda each: each.holder == identity or (bool(answer) and _answer(each) == answer)):
            return replace(span, attributes=_joined(other, span))
    else:
        events = _found(joins.find(_EVENT, identity), lambda each: each.identity == identity)
        return replace(span, events=[*span.events, *events])
    return span


def whole_input(span: Span, joins: RecordJoins) -> Span:
    """Return a span of LiveKit with all of its input: it may record what changed since another span, which it names."""
    spans = [span]
    while (base := spans[-1].attributes.get(_BASE)) is not None:
        before = _span_of(span.trace, str(base), joins) if len(spans) < _MOST_CONTINUED else None
        if before is None:
            return replace(span, lacks=LOST)
        spans.append(before)
    if len(spans) == 1:
        return span
    messages: list[Any] = []
    system = None
    for each in reversed(spans):
        dropped = whole_number(each.attributes.get(_DROPPED), most=len(messages)) or 0
        own = each.attributes.get(_INPUT)
        own = parsed_text(own) if isinstance(own, str) else own
        messages = [*messages[: len(messages) - dropped], *(own if isinstance(own, list) else [])]
        system = each.attributes.get(_SYSTEM) or system
    told = {**span.attributes.given, _INPUT: messages}
    return replace(span, attributes=Attributes(told if system is None else {**told, _SYSTEM: system}))


def _span_of(trace: str, own: str, joins: RecordJoins) -> Span | None:
    """Return the span with this id in hexadecimal digits; Protobuf's JSON writes ids in Base64."""
    names = [own]
    with suppress(ValueError):
        names.append(b64encode(bytes.fromhex(own)).decode())
    for name in names:
        identity = f"{trace}:{name}"
        for found in _found(joins.find(MODEL, identity), lambda each, wanted=identity: each.identity == wanted):  # type: ignore[misc]
            return found
    return None


def _found(records: Iterable[Record], wanted: Callable[[Span], bool]) -> Iterator[Span]:
    return (span for record in records for span in spans_in(record.fields) if wanted(span))


def _joined(first: Span, second: Span) -> Attributes:
    return Attributes({**first.attributes.given, **second.attributes.given})


def _has_prompt(span: Span) -> bool:
    """Return whether a span or an event has its prompt itself, in its attributes or in its own events."""
    said = (span.attributes, *(event.attributes for event in span.events))
    return any(event.name in MESSAGE_ROLES for event in span.events) or any(
        each.get(*INPUTS, "input.value", LANGFUSE_INPUT, "events") is not None or any(map(each.has, INDEXED_INPUTS))
        for each in said
    )


def _answer(span: Span) -> str:
    """Return the id of its answer; empty where it has none."""
    return names_of([span.attributes.get("gen_ai.response.id", "ai.response.id")]) or ""


def _streamed(span: Span, type_: str) -> str:
    """Return what a streamed call is known by in Logfire, whose span ends before the answer: a log has that, with the same prompt.
    Empty for what is not of this type."""
    told = span.attributes
    return f"{told.get('gen_ai.request.model')} {told.get(*INPUTS)}" if told.get("logfire.span_type") == type_ else ""
