"""Helicone's exports of requests, by its API and of its page: bodies of request and answer, with properties and counts around."""

from __future__ import annotations

from kvtool.text.bounded_number import whole_number
from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import answer_object, names_of, usage_in
from kvtool.workload.logs.records.failed_calls import FAILED, left_out_of
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

_OF_REQUESTS = frozenset(("request_id", "response_status", "request_created_at"))
_FAILS = 400
_SESSIONS = ("helicone-session-id", "session-id", "session_id")
_TENANTS = ("helicone-user-id", "user-id", "user_id")


_OF_PAGE = {
    "promptTokens": "prompt_tokens",
    "completionTokens": "completion_tokens",
    "promptCacheReadTokens": "prompt_cache_read_tokens",
    "promptCacheWriteTokens": "prompt_cache_write_tokens",
    "createdAt": "request_created_at",
    "user": "request_user_id",
    "customProperties": "properties",
}
"""Fields of a request in an export of the page, and what the API calls them."""


def read(record: Record) -> Reading:
    """Return the request of `request_body`, with the session and the user of its properties."""
    if (left := left_out_of(record)) is not None:
        return left
    return _read(record, record.fields, "request_body")


def read_page(record: Record) -> Reading:
    """Return the request of a row that was exported from the page of requests."""
    told = object_of(record.fields["heliconeMetadata"])
    code = whole_number(object_of(told.get("status")).get("code"))
    if code is not None and code >= _FAILS:
        return FAILED
    return _read(record, {_OF_PAGE.get(name, name): value for name, value in told.items()}, "raw", "request")


def _read(record: Record, fields: Fields, *path: str) -> Reading:
    properties = fields.get("request_properties") or fields.get("properties")
    named = {key.lower(): value for key, value in properties.items()} if isinstance(properties, dict) else {}
    inner = record.inner(*path)
    if inner is None:
        raise record.error(f"`{'.'.join(path)}` must be an object", *path)
    usage = usage_in(answer_object(inner)) or usage_of(fields, record.pointer)
    around = FieldsAround(
        session=names_of([named.get(name) for name in _SESSIONS]),
        tenant=names_of([fields.get("request_user_id"), *(named.get(name) for name in _TENANTS)]),
        time=seconds(fields.get("request_created_at"), "s"),
        end=seconds(fields.get("response_created_at"), "s"),
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
_PAGE_EXAMPLE = """
{"id": "r1", "heliconeMetadata": {"createdAt": "2026-02-02T09:00:00Z", "promptTokens": 24, "completionTokens": 2,
 "promptCacheReadTokens": 16, "status": {"code": 200}}, "raw": {"request": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]},
 "response": {"id": "chatcmpl-1", "choices": [{"message": {"role": "assistant", "content": "Yes."}}]}}}
"""
FORMATS = (
    RecordFormat(
        "helicone",
        "request_body + request_id or response_status",
        lambda fields: "request_body" in fields and not _OF_REQUESTS.isdisjoint(fields),
        read,
        example=_EXAMPLE,
    ),
    RecordFormat(
        "helicone-page",
        "heliconeMetadata + raw",
        lambda fields: {"heliconeMetadata", "raw"} <= fields.keys(),
        read_page,
        example=_PAGE_EXAMPLE,
    ),
)
