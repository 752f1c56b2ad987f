"""Helicone's export of requests: the bodies of request and answer, with properties and counts of its own around them."""

from __future__ import annotations

from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import answer_object, names_of, usage_in
from kvtool.workload.logs.records.failed_calls import left_out_of
from kvtool.workload.logs.records.record import Record, seconds
from kvtool.workload.logs.records.record_format import LeftOut, Reading, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

_OF_REQUESTS = frozenset(("request_id", "response_status", "request_created_at"))
_SESSIONS = ("helicone-session-id", "session-id", "session_id")
_TENANTS = ("helicone-user-id", "user-id", "user_id")


def read(record: Record) -> Reading:
    """Return the request of `request_body`, with the session and the user of its properties."""
    if (left := left_out_of(record)) is not None:
        return left
    properties = record.fields.get("request_properties") or record.fields.get("properties")
    named = {key.lower(): value for key, value in properties.items()} if isinstance(properties, dict) else {}
    inner = record.inner("request_body")
    if inner is None:
        raise record.error("`request_body` must be an object", "request_body")
    usage = usage_in(answer_object(inner)) or usage_of(record.fields, record.pointer)
    around = FieldsAround(
        session=names_of([named.get(name) for name in _SESSIONS]),
        tenant=names_of([record.fields.get("request_user_id"), *(named.get(name) for name in _TENANTS)]),
        time=seconds(record.fields.get("request_created_at"), "s"),
        end=seconds(record.fields.get("response_created_at"), "s"),
        usage=usage,
    )
    return body(inner, around) or LeftOut("other request")


_EXAMPLE = """
{"request_id": "r1", "request_created_at": "2026-02-02T09:00:00Z", "request_body": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]},
 "response_body": {"id": "chatcmpl-1", "object": "chat.completion",
 "choices": [{"message": {"role": "assistant", "content": "Yes."}}], "usage": {"prompt_tokens": 24,
 "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}}}
"""
FORMAT = RecordFormat(
    "helicone",
    "request_body + request_id or response_status",
    lambda fields: "request_body" in fields and not _OF_REQUESTS.isdisjoint(fields),
    read,
    example=_EXAMPLE,
)
