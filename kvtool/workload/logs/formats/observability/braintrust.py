"""Braintrust: spans of logs and experiments, of which those of type `llm` are calls."""

from __future__ import annotations

from kvtool.text.bounded_number import whole_number
from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

_SESSIONS = ("session_id", "conversation_id", "thread_id", "sessionId")
_TENANTS = ("user_id", "tenant_id", "user", "customer_id")
_KINDS = frozenset(("task", "function", "tool", "score", "eval", "scorer", "automation"))
_COUNTS = {
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "prompt_cached_tokens": "cached_tokens",
    "prompt_cache_creation_tokens": "cache_write_tokens",
}


def read(record: Record) -> FoundCall | LeftOut:
    """Return a span."""
    fields = record.fields
    attributes = fields["span_attributes"]
    kind = str(attributes.get("type"))
    if kind != "llm":
        return LeftOut(f"{kind} span" if kind in _KINDS else "other span")
    output, told = fields.get("output"), fields.get("metadata")
    if fields.get("error") and not output:
        return LeftOut("failed")
    told = object_of(told)
    metrics = object_of(fields.get("metrics"))
    around = FieldsAround(
        session=names_of([*(told.get(name) for name in _SESSIONS), fields.get("root_span_id")]),
        tenant=names_of([told.get(name) for name in _TENANTS]),
        time=seconds(metrics.get("start"), "s") or seconds(fields.get("created"), "s"),
        end=seconds(metrics.get("end"), "s"),
        identity=names_of([fields.get("span_id"), fields.get("id")]),
        value=fields,
        model=names_of([told.get("model")]),
        provider=names_of([told.get("provider")]),
        usage=_usage(record, metrics),
    )
    beside = {name: value for name, value in told.items() if name not in _SESSIONS and name not in _TENANTS}
    found = call_from(record, fields.get("input"), around, answer=output, beside=beside)
    return found or LeftOut("call without a prompt")


def _usage(record: Record, metrics: dict[str, object]) -> Usage | None:
    said = {name: metrics[own] for own, name in _COUNTS.items() if metrics.get(own) is not None}
    sent, cached, written = (said.get(name) for name in ("prompt_tokens", "cached_tokens", "cache_write_tokens"))
    all_sent, beside = whole_number(sent), (whole_number(cached) or 0) + (whole_number(written) or 0)
    if all_sent is not None and beside > all_sent:  # what was sent beside the cache
        said["prompt_tokens"] = all_sent + beside
    return usage_of(said, (*record.pointer, "metrics"))


_EXAMPLE = """
{"span_id": "s1", "root_span_id": "s0", "span_attributes": {"type": "llm"}, "input": [{"role": "system",
 "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}], "output": {"role": "assistant",
 "content": "Yes."}, "metrics": {"start": 1770022800, "prompt_tokens": 24, "prompt_cached_tokens": 16,
 "completion_tokens": 2}}
"""
FORMAT = RecordFormat(
    "braintrust",
    "span_attributes + root_span_id or metrics",
    lambda fields: isinstance(fields.get("span_attributes"), dict),
    read,
    example=_EXAMPLE,
)
