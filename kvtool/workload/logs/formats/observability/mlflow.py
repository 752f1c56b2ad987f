"""MLflow: traces with their spans; the attributes of a span are JSON in texts."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_CALLS = frozenset(("CHAT_MODEL", "LLM"))
_KINDS = frozenset(
    ("chain", "agent", "tool", "retriever", "parser", "embedding", "reranker", "memory", "workflow", "task")
)


def read(record: Record) -> Several:
    """Return the calls of a trace; a span of a model around another one is not the call."""
    info = _object(record.fields.get("info"))
    told = {**_object(info.get("tags")), **_object(info.get("request_metadata")), **_object(info.get("trace_metadata"))}
    data = _object(record.fields.get("data"))
    spans = [each for each in data.get("spans") or record.fields.get("spans") or () if isinstance(each, dict)]
    outer = {str(_first(span, "parent_span_id", "parent_id")) for span in spans if _kind(span) in _CALLS}
    found = Several()
    for span in spans:
        kind = _kind(span)
        if kind not in _CALLS:
            word = kind.lower()
            named = "embedding" if word == "embedding" else f"{word} span" if word in _KINDS else "other span"
            found.append(LeftOut(named))
        elif str(_own(span)) in outer:
            found.append(LeftOut("second record of the same call"))
        else:
            found.append(_call(record, span, told))
    return found


def _call(record: Record, span: dict[str, Any], told: dict[str, Any]) -> FoundCall | LeftOut:
    attributes = _object(span.get("attributes"))
    answer = _value(attributes.get("mlflow.spanOutputs"))
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    if str(code).upper().endswith("ERROR") and not answer:
        return LeftOut("failed")
    inputs = _value(attributes.get("mlflow.spanInputs"))
    asked = _object(attributes.get("mlflow.invocation_params"))
    trace = _first(span, "trace_id", "request_id") or _first(_object(span.get("context")), "trace_id")
    output = object_of(answer)
    usage = usage_of(output.get("usage"), record.pointer) or usage_of(
        _value(attributes.get("mlflow.chat.tokenUsage")), record.pointer
    )
    around = FieldsAround(
        session=names_of([told.get("mlflow.trace.session"), trace]),
        tenant=names_of([told.get("mlflow.trace.user")]),
        time=seconds(_first(span, "start_time_unix_nano", "start_time_ns", "start_time"), "ns"),
        end=seconds(_first(span, "end_time_unix_nano", "end_time_ns", "end_time"), "ns"),
        identity=f"{trace}:{_own(span)}" if _own(span) else None,
        value={"name": span.get("name"), "attributes": attributes, "metadata": told},
        model=names_of(
            [asked.get("model"), _object(inputs).get("model"), attributes.get("mlflow.llm.model"), output.get("model")]
        ),
        usage=usage,
    )
    tools = _value(attributes.get("mlflow.chat.tools"))
    beside = {**asked, **({"tools": tools} if tools else {})}
    made = call_from(record, inputs, around, answer=answer, beside=beside)
    made = made or call_from(
        record, _value(attributes.get("mlflow.chat.messages")), around, answer=answer, beside=beside
    )
    return made or LeftOut("call without a prompt")


def _kind(span: dict[str, Any]) -> str:
    value = _value(_object(span.get("attributes")).get("mlflow.spanType")) or span.get("span_type")
    return str(value or "").upper()


def _own(span: dict[str, Any]) -> Any:
    return span.get("span_id") or _object(span.get("context")).get("span_id")


def _first(fields: dict[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _value(text: Any) -> Any:
    """Return the value of an attribute: JSON in a text, also JSON of a text."""
    if isinstance(text, str):
        if len(text) > 1 and text[0] == text[-1] == '"' and (held := parsed_text(f"[{text}]")) is not None:
            return held[0] if isinstance(held, list) else text
        return parsed_text(text) or text
    return text


def _object(value: Any) -> dict[str, Any]:
    value = _value(value)
    return object_of(value)


def fits(fields: Fields) -> bool:
    """Return whether a record is a trace of MLflow."""
    return _has_spans(fields.get("data")) or ("info" in fields and _has_spans(fields))


def _has_spans(value: object) -> bool:
    spans = value.get("spans") if isinstance(value, dict) else None
    first = spans[0] if isinstance(spans, list) and spans else None
    attributes = first.get("attributes") if isinstance(first, dict) else None
    return isinstance(attributes, dict) and any(name.startswith("mlflow.") for name in attributes)


_EXAMPLE = r"""
{"info": {"trace_id": "t1"}, "data": {"spans": [{"span_id": "s1", "start_time_unix_nano": 1770022800000000000,
 "attributes": {"mlflow.spanType": "\"CHAT_MODEL\"",
 "mlflow.spanInputs": "{\"model\": \"gpt-5.5\", \"messages\": [{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]}",
 "mlflow.spanOutputs": "{\"id\": \"chatcmpl-1\", \"object\": \"chat.completion\", \"choices\": [{\"message\": {\"role\": \"assistant\", \"content\": \"Yes.\"}}], \"usage\": {\"prompt_tokens\": 24, \"completion_tokens\": 2, \"prompt_tokens_details\": {\"cached_tokens\": 16}}}"}}]}}
"""  # noqa: E501 # JSON in a text cannot be broken
FORMAT = RecordFormat("mlflow", "info + data.spans", fits, read, example=_EXAMPLE)
