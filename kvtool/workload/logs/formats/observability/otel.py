"""Traces and logs of OpenTelemetry: spans of models in the conventions GenAI, OpenLLMetry, OpenInference and Vercel's AI SDK."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.workload.logs.formats.observability.otel_calls import call_of_span, kind_of_span
from kvtool.workload.logs.formats.observability.otel_spans import Span, printed_span, spans_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_readings import FoundCall, LeftOut, Several

_EVENT, _DETAILS, _MODEL, _HOLDS = "otel event", "otel details", "otel model span", "otel span around a model span"
_MESSAGES = frozenset(f"gen_ai.{name}.message" for name in ("system", "user", "assistant", "tool"))
_CHOICE = "gen_ai.choice"
DETAILS = "gen_ai.client.inference.operation.details"
_WITHOUT = LeftOut(
    "call without a prompt",
    hint="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT (or TRACELOOP_TRACE_CONTENT) where these spans are made",
)
_ALONE = LeftOut("event without a span", hint="give the traces, too: message events are joined with their span")


def read(record: Record) -> Several:
    """All calls of a record of OTLP."""
    return Several(item for span in spans_of(record.fields) if (item := _read(record, span)) is not None)


def read_printed(record: Record) -> Several:
    """The call of a span that stands by itself."""
    item = _read(record, printed_span(record.fields))
    return Several([] if item is None else [item])


def keys_of(record: Record) -> list[Key]:
    """What is found of spans by their ids."""
    return [key for span in spans_of(record.fields) for key in _keys(span)]


def keys_of_printed(record: Record) -> list[Key]:
    """The same of a span by itself."""
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
            return LeftOut("span whose call is in an event")
        found = call_of_span(record, span, _events(joins.find(_EVENT, identity), identity))
    if found is None and joins is None:  # it may be joined with its events, and keeps its place until then
        from kvtool.workload.logs.records.call_context import Around, prompt

        return prompt(record, "", Around(time=span.start, identity=identity))
    return found or (LeftOut("failed") if span.failed else _WITHOUT)


def _events(records: list[Record], identity: str) -> list[Span]:
    return [event for record in records for event in spans_of(record.fields) if event.identity == identity]
