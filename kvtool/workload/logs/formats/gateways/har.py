"""HAR, the archive of a browser's or proxy's traffic: what was posted to a model's API, with headers, times and the answer."""

from __future__ import annotations

import base64
import binascii
import re

from kvtool.text.bounded_number import finite_number
from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import http_status, names_of, usage_in
from kvtool.workload.logs.records.chat_records import answer_of
from kvtool.workload.logs.records.failed_calls import FAILED, left_out_of
from kvtool.workload.logs.records.record import Record, kind, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several, collected
from kvtool.workload.logs.records.streamed_answers import answer_in

OTHER = LeftOut("other request")
NO_BODY = LeftOut("request without its body", hint="save the archive with its contents: the bodies are missing")
_ENDPOINT = re.compile(
    r"/(?:chat/completions|completions|responses|messages|converse(?:-stream)?|invoke(?:-with-response-stream)?"
    r"|api/chat|api/generate|generate|v[12]/chat)/?$|:(?:streamG|g)enerateContent$|:(?:raw|streamRaw)Predict$"
)
_MODEL = re.compile(r"/(?:models|model|deployments)/([^/:?]{1,200})")
_SESSIONS = ("x-session-id", "session-id", "session_id", "helicone-session-id", "x-conversation-id", "conversation_id")
_TENANTS = ("x-user-id", "helicone-user-id", "x-end-user-id")


def read(record: Record) -> Reading:
    """Return all calls of an archive, in its order; or that of an entry by itself."""
    if "log" not in record.fields:
        return _entry(record, record.fields)
    log = record.fields["log"]
    if not isinstance(log["entries"], list):
        raise record.error(f"`entries` must be a list, not {kind(log['entries'])}", "log", "entries")
    found = Several()
    for i, entry in enumerate(log["entries"]):
        if not isinstance(entry, dict):
            raise record.error(f"entries[{i}] must be an object, not {kind(entry)}", "log", "entries", i)
        found += collected(_entry(record, entry, "log", "entries", i))
    return found


def _entry(record: Record, entry: Fields, *steps: str | int) -> Reading:
    request, response = object_of(entry.get("request")), object_of(entry.get("response"))
    posted = object_of(request.get("postData"))
    path = str(request.get("url", "")).partition("?")[0].partition("#")[0]
    fields = parsed_text(_decoded(posted) or "")
    posts = str(request.get("method", "")).upper() == "POST"
    if posts and not posted.get("text") and _ENDPOINT.search(path):
        return NO_BODY
    if not posts or not isinstance(fields, dict) or not _asks(path, fields):
        return OTHER
    at = (*record.pointer, *steps)
    answer = object_of(answer_in(_decoded(object_of(response.get("content")))))
    status = response.get("status")
    if isinstance(status, int) and (status >= 400 or status == 0):
        return FAILED
    headers = _headers(response) | _headers(request)
    told = {
        "response": answer,
        "url": path,
        "timestamp": entry.get("startedDateTime"),
        "headers": headers,
    }
    inner = Record(fields, record.where, (*at, "request", "postData", "text"), (told,), in_text=True)
    if (left := left_out_of(inner)) is not None:
        return left
    usage: Usage | None = usage_in((answer, (*at, "response", "content", "text")))
    began = seconds(entry.get("startedDateTime"), "s")
    named = _MODEL.search(path)
    around = FieldsAround(
        session=inner.own_session or names_of([headers.get(name) for name in _SESSIONS]),
        time=began,
        identity=names_of([answer.get("id"), answer.get("responseId")]),
        value={**entry, "headers": headers},
        model=None if any(name in fields for name in ("model", "modelId")) or named is None else named[1],
        tenant=names_of([headers.get(name) for name in _TENANTS]),
        usage=usage,
        end=None if began is None else began + _duration(entry),
        status=http_status(status),
        output_text=answer_of(answer)[0],
    )
    return body(inner, around) or OTHER


def _asks(path: str, fields: Fields) -> bool:
    """Return whether it is a request of a model: by its endpoint, or by its body where that is like no other's."""
    if _ENDPOINT.search(path):
        return True
    messages = fields.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return "model" in fields and isinstance(first, dict) and "role" in first and "count_tokens" not in path


def _decoded(content: Fields) -> str | None:
    """Return the text of a body."""
    text = content.get("text")
    if not isinstance(text, str) or content.get("encoding") != "base64":
        return text if isinstance(text, str) else None
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None


def _headers(message: Fields) -> dict[str, str]:
    found = message.get("headers")
    return {
        each["name"].lower(): each["value"]
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("value"), str)
    }


def _duration(entry: Fields) -> float:
    return (finite_number(entry.get("time"), least=0) or 0.0) / 1000


def fits(fields: Fields) -> bool:
    """Return whether a record is an archive, or an entry of one."""
    log = fields.get("log")
    return (isinstance(log, dict) and "entries" in log) or ("startedDateTime" in fields and "request" in fields)


_EXAMPLE = r"""
{"log": {"version": "1.2", "entries": [{"startedDateTime": "2026-02-02T09:00:00Z", "time": 900,
 "request": {"method": "POST", "url": "https://api.openai.com/v1/chat/completions",
 "postData": {"mimeType": "application/json",
 "text": "{\"model\": \"gpt-5.5\", \"messages\": [{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]}"}},
 "response": {"status": 200,
 "content": {"text": "{\"id\": \"chatcmpl-1\", \"object\": \"chat.completion\", \"choices\": [{\"message\": {\"role\": \"assistant\", \"content\": \"Yes.\"}}], \"usage\": {\"prompt_tokens\": 24, \"completion_tokens\": 2, \"prompt_tokens_details\": {\"cached_tokens\": 16}}}"}}}]}}
"""  # noqa: E501 # JSON in a text cannot be broken
FORMAT = RecordFormat(
    "har", "log.entries; startedDateTime + request + response", fits, read, example=_EXAMPLE, ending=".har"
)
