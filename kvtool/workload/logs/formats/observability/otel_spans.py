"""Spans and log records of OpenTelemetry, whatever exported them: OTLP as JSON, or spans as SDKs and Phoenix print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvtool.text.bounded_number import json_number, whole_number
from kvtool.workload.logs.formats.observability.framework_attributes import with_standard_names
from kvtool.workload.logs.records.record import object_of, seconds

_MOST_POSITION = 1_000_000  # of `name.0.role`: a bound for hostile spans
OTLP_FIELDS = frozenset(("resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"))
_FAILED = (2, "2", "ERROR", "STATUS_CODE_ERROR", "Error", "error")


class Attributes:
    """Attributes by their names, whether these are written with dots or as objects in objects."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = with_standard_names(given)
        self._nested: dict[str, Any] | None = None

    def get(self, *names: str) -> Any:
        """Return the first of these that is there; None if none is."""
        for name in names:
            if (value := self.given.get(name)) is not None:
                return value
        for name in names:
            value = self.given
            for step in name.split("."):
                value = value.get(step) if isinstance(value, Mapping) else None
                if value is None:
                    break
            if value is not None:
                return value
        return None

    def has(self, prefix: str) -> bool:
        """Return whether any begins like this, or is called so."""
        return self.get(prefix) is not None or any(name.startswith(f"{prefix}.") for name in self.given)

    def listed(self, name: str) -> list[Any]:
        """Return a list whose elements are attributes of their own: `name.0.role`, `name.1.role`; or the list of that name."""
        value = self.get(name)
        if isinstance(value, list):
            return value
        if not isinstance(value, dict):
            if self._nested is None:
                self._nested = nested(self.given)
            value = self._nested
            for step in name.split("."):
                value = value.get(step) if isinstance(value, dict) else None
        if not isinstance(value, dict):
            return []
        positions = _positions(value)
        return [positions[number] for number in sorted(positions)]


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return names with dots as objects in objects; lists as objects with numbers for names."""
    root: dict[str, Any] = {}
    for name, value in given.items():
        at = root
        steps = name.split(".")
        for step in steps[:-1]:
            inner = at.setdefault(step, {})
            if not isinstance(inner, dict):
                inner = at[step] = {"": inner}
            at = inner
        last = steps[-1]
        if isinstance(at.get(last), dict):
            at[last][""] = value
        else:
            at[last] = value
    return root


def _positions(value: Mapping[str, Any]) -> dict[int, Any]:
    """Return the values whose names are numbers, by these."""
    numbers = ((whole_number(key, most=_MOST_POSITION, in_text=key.isdecimal()), each) for key, each in value.items())
    return {number: each for number, each in numbers if number is not None}


def lists_in(value: Any) -> Any:
    """Return lists in place of objects whose names are numbers."""
    if not isinstance(value, dict):
        return value
    positions = _positions(value)
    if value and len(positions) == len(value):
        return [lists_in(positions[number]) for number in sorted(positions)]
    return {key: lists_in(inner) for key, inner in value.items()}


@dataclass(slots=True)
class Span:
    """A span, or an event that was logged by itself (then `body` is what it says)."""

    name: str
    trace: str
    own: str
    parent: str
    start: float | None
    end: float | None
    attributes: Attributes
    events: list[Span] = field(default_factory=list)
    failed: bool = False
    kind: str = ""
    """What Phoenix calls it."""
    body: Any = None
    resource: Mapping[str, Any] = field(default_factory=dict)
    lacks: str | None = None
    """Why its prompt is not whole."""

    @property
    def identity(self) -> str | None:
        """Return its id among all spans; None where it has no id."""
        return f"{self.trace}:{self.own}" if self.own else None

    @property
    def holder(self) -> str:
        """Return the identity of the span around it; empty where there is none."""
        return f"{self.trace}:{self.parent}" if self.parent else ""

    @property
    def value(self) -> dict[str, Any]:
        """Return the fields that requests can be grouped by."""
        service = self.resource.get("service.name")
        told = {} if service is None else {"service.name": service}
        return {**told, "name": self.name, "attributes": self.attributes.given, "resource": self.resource}


def spans_in(fields: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans and the logged events of a record: of OTLP, or one span as an SDK prints it."""
    if OTLP_FIELDS.isdisjoint(fields):
        yield _printed_span(fields)
    else:
        yield from _otlp_spans(fields)


def _otlp_spans(fields: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans and the logged events of a record, in its order."""
    for name, scopes, spans in (
        ("resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans"),
        ("batches", ("scopeSpans", "instrumentationLibrarySpans"), "spans"),
        ("resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords"),
        ("resource_spans", ("scope_spans",), "spans"),
        ("resource_logs", ("scope_logs",), "log_records"),
    ):
        for resource in _objects(fields.get(name)):
            inner = resource.get("resource")
            named = attributes_of(inner.get("attributes") if isinstance(inner, dict) else None)
            for scoped in scopes:
                for scope in _objects(resource.get(scoped)):
                    for item in _objects(scope.get(spans)):
                        yield _span(item, named)
    if isinstance(fields.get("trace"), dict) and "resourceSpans" not in fields:
        yield from _otlp_spans(fields["trace"])


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _span(item: Mapping[str, Any], resource: Mapping[str, Any]) -> Span:
    def first(*names: str) -> Any:
        return next((item[name] for name in names if item.get(name) is not None), None)

    attributes = attributes_of(item.get("attributes"))
    status = item.get("status")
    event = first("eventName", "event_name") or attributes.get("event.name")
    start = first("startTimeUnixNano", "start_time_unix_nano", "timeUnixNano", "time_unix_nano", "observedTimeUnixNano")
    return Span(
        str(event or item.get("name") or ""),
        str(first("traceId", "trace_id") or ""),
        str(first("spanId", "span_id") or ""),
        str(first("parentSpanId", "parent_span_id") or ""),
        seconds(start, "ns", fixed=True),
        seconds(first("endTimeUnixNano", "end_time_unix_nano"), "ns", fixed=True),
        Attributes(attributes),
        [_span(each, resource) for each in _objects(item.get("events"))],
        failed=isinstance(status, dict) and status.get("code") in _FAILED,
        body=_any_value(item.get("body")),
        resource=resource,
    )


def _printed_span(fields: Mapping[str, Any]) -> Span:
    """Return a span as the SDKs print it and as Phoenix exports it: ids in `context` (of JavaScript in `spanContext`), attributes
    as an object."""
    flat = {key.removeprefix("attributes."): value for key, value in fields.items() if key.startswith("attributes.")}
    attributes = fields.get("attributes")
    context = object_of(fields.get("context") or fields.get("spanContext"))
    above = object_of(fields.get("parentSpanContext")).get("spanId") or fields.get("parentSpanId")
    status = fields.get("status") or {}
    code = status.get("status_code", status.get("code")) if isinstance(status, dict) else None
    resource = fields.get("resource")
    inner = resource.get("attributes") if isinstance(resource, dict) else None
    return Span(
        str(fields.get("name") or ""),
        _id_of("trace", context, fields),
        _id_of("span", context, fields),
        str(fields.get("parent_id") or fields.get("parent_span_id") or above or ""),
        seconds(_moment(fields.get("start_time", fields.get("startTime"))), "s"),
        seconds(_moment(fields.get("end_time", fields.get("endTime"))), "s"),
        Attributes({**flat, **attributes_of(attributes)}),
        [
            Span(str(each.get("name") or ""), "", "", "", None, None, Attributes(attributes_of(each.get("attributes"))))
            for each in _objects(fields.get("events"))
        ],
        failed=(code or fields.get("status_code")) in _FAILED,
        kind=str(fields.get("span_kind") or ""),
        resource=object_of(inner),
    )


def _id_of(what: str, context: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """Return the id of a span or of its trace, as Python, JavaScript and rows of tables name it."""
    name = f"{what}_id"
    found = context.get(name) or context.get(f"{what}Id") or fields.get(f"context.{name}") or fields.get(name)
    return str(found or "")


def _moment(value: Any) -> Any:
    """Return a time that JavaScript writes as seconds and nanoseconds as seconds; any other as it is."""
    if isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value):
        return value[0] + value[1] / 1e9
    return value


def attributes_of(value: Any) -> dict[str, Any]:
    """Return attributes as an object: OTLP has a list of keys and values."""
    if isinstance(value, dict):
        return value
    return {item["key"]: _any_value(item.get("value")) for item in _objects(value) if isinstance(item.get("key"), str)}


def _any_value(value: Any) -> Any:
    """Return a value of OTLP as JSON: `{"intValue": "12"}` is 12."""
    if not isinstance(value, dict):
        return value
    kind = next((name for name in value if name.endswith(("Value", "_value"))), "")
    inner = value.get(kind)
    match kind:
        case (
            "stringValue" | "boolValue" | "doubleValue" | "bytesValue" | "string_value" | "bool_value" | "double_value"
        ):
            return inner
        case "intValue" | "int_value":
            number = json_number(inner, in_text=True)
            return inner if number is None else number
        case "arrayValue" | "array_value":
            values = inner.get("values") if isinstance(inner, dict) else None
            return [_any_value(each) for each in (values if isinstance(values, list) else ())]
        case "kvlistValue" | "kvlist_value":
            return attributes_of(inner.get("values") if isinstance(inner, dict) else None)
    return value
