"""Calls that are no traffic: failed ones, those of other endpoints; why a provider refused one, without the text of its error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.workload.logs.records.call_fields import ADDRESSES
from kvtool.workload.logs.records.record import RESPONSES, Record, object_of
from kvtool.workload.logs.records.record_format import LeftOut
from kvtool.workload.logs.records.streamed_answers import answer_in

FAILED = LeftOut("failed")
CACHED = LeftOut("locally cached answer")
PROMPTLESS = LeftOut(
    "promptless call", hint="the file lacks the messages before these answers: pass the whole session as one file"
)
_FAIL_STATUSES = ("status_code", "statusCode", "response_status", "http_status", "status")
_FAILED_WORDS = frozenset(("error", "errored", "failed", "failure", "cancelled", "canceled", "expired", "timeout"))
_ANSWERS = ("choices", "output", "content", "candidates")
_FAILS = ("error", "exception", "error_str", "error_message", "exception_message")
_PLACES = (*ADDRESSES, "call_type", "operation", "request_type")
_OTHER_ENDPOINT = re.compile(r"(embedding|moderation|rerank|image_generation|images/|transcription|speech)s?")
_KINDS = {"image_generation": "image", "images/": "image"}
_OTHER_MODEL = re.compile(r"(?:^|[-/])(?:text-)?(embedding|embed|moderation|rerank(?:er)?|whisper|tts|dall-e)(?:-|$)")
_MODEL_KINDS = {
    "embed": "embedding",
    "reranker": "rerank",
    "whisper": "transcription",
    "tts": "speech",
    "dall-e": "image",
}
_EITHER = frozenset((*_FAIL_STATUSES, *_FAILS, *_PLACES, *RESPONSES, "model", "object"))
_TOO_MANY_MARKS = re.compile(r"maximum of (\d{1,3}) blocks with cache_control may be provided\. Found (\d{1,3})")
_LOOKED_AT = 4_096
"""Characters of an error that are read."""


def why_failed(record: Record, names: Sequence[str]) -> str | None:
    """Return what a provider refused, as far as its error says so in known words: its text may quote the prompt.

    `names` are the fields that hold errors.
    """
    answer = object_of(record.found(*RESPONSES)[0])
    body = inner if isinstance(inner := answer_in(answer.get("body")), dict) else answer
    for error in (body.get("error"), *(record.first(name) for name in names)):
        text = error if isinstance(error, str) else json.dumps(error, default=repr) if error else ""
        if (marks := _TOO_MANY_MARKS.search(text[:_LOOKED_AT])) is not None:
            return f"the provider refused a request: {int(marks[2])} cache breakpoints (cache_control), {int(marks[1])} are allowed"
        status = object_of(error).get("code", object_of(error).get("status"))
        if (code := whole_number(status, least=400, most=599, in_text=True)) is not None:
            return f"the server answered with HTTP status {code}"
    return None


def left_out_of(record: Record) -> LeftOut | None:
    """Return why a request is no traffic; None: it is."""
    if _EITHER.isdisjoint(record.fields) and all(_EITHER.isdisjoint(each) for each in record.around):
        return None
    if has_failed(record):
        return LeftOut("failed", hint=why_failed(record, _FAILS))
    kind = _other_kind(record)
    return None if kind is None else LeftOut(kind)


def has_failed(record: Record) -> bool:
    """Return whether the server refused the request, or never answered it."""
    answer = object_of(record.found(*RESPONSES)[0])
    if any(_refused(record.first(name)) for name in _FAIL_STATUSES) or any(
        _refused(answer.get(name)) for name in _FAIL_STATUSES
    ):
        return True
    body = inner if isinstance(inner := answer_in(answer.get("body")), dict) else answer
    if any(body.get(name) for name in _ANSWERS):
        return False
    if any(record.first(name) for name in _FAILS) or body.get("error") or body.get("type") == "error":
        return True
    words = (record.first("status"), body.get("status"))
    return any(isinstance(word, str) and word.lower() in _FAILED_WORDS for word in words)


def _refused(status: Any) -> bool:
    """Return whether it is a status of HTTP that says so."""
    return whole_number(status, least=400, most=599, in_text=True) is not None


def _other_kind(record: Record) -> str | None:
    for name in _PLACES:
        value = record.first(name)
        if isinstance(value, str) and (found := _OTHER_ENDPOINT.search(value.lower())):
            return _KINDS.get(found[1], found[1])
    if "messages" in record.fields:
        return None
    model = record.fields.get("model")
    if isinstance(model, str) and (found := _OTHER_MODEL.search(model.lower())):
        return _MODEL_KINDS.get(found[1], found[1])
    return None
