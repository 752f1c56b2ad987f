"""Records of requests that are no traffic of a model that writes: those that failed, and those of other kinds of models."""

from __future__ import annotations

import re
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.workload.logs.records.record import RESPONSES, Record
from kvtool.workload.logs.records.record_readings import LeftOut
from kvtool.workload.logs.records.streamed_answers import answer_in

FAILED = LeftOut("failed")
CACHED = LeftOut("locally cached answer")
UNSEEN = LeftOut(
    "promptless call", hint="what was said before these answers is not in the file: give the whole session as one file"
)
_STATUSES = ("status_code", "statusCode", "response_status", "http_status", "status")
_FAILED_WORDS = frozenset(("error", "errored", "failed", "failure", "cancelled", "canceled", "expired", "timeout"))
_ANSWERS = ("choices", "output", "content", "candidates")
_FAILS = ("error", "exception", "error_str", "error_message", "exception_message")
_PLACES = ("url", "endpoint", "path", "request_path", "api_path", "call_type", "operation", "request_type")
_OTHER = re.compile(r"(embedding|moderation|rerank|image_generation|images/|transcription|speech)s?")
_KINDS = {"image_generation": "image", "images/": "image"}
_MODEL = re.compile(r"(?:^|[-/])(?:text-)?(embedding|embed|moderation|rerank(?:er)?|whisper|tts|dall-e)(?:-|$)")
_MODEL_KINDS = {
    "embed": "embedding",
    "reranker": "rerank",
    "whisper": "transcription",
    "tts": "speech",
    "dall-e": "image",
}
_EITHER = frozenset((*_STATUSES, *_FAILS, *_PLACES, *RESPONSES, "model", "object"))


def left_out_of(record: Record) -> LeftOut | None:
    """Why a request is no traffic; None: it is."""
    if _EITHER.isdisjoint(record.fields) and all(_EITHER.isdisjoint(each) for each in record.around):
        return None
    if has_failed(record):
        return FAILED
    kind = _other_kind(record)
    return None if kind is None else LeftOut(kind)


def has_failed(record: Record) -> bool:
    """Whether the server refused the request, or never answered it."""
    answer = record.found(*RESPONSES)[0]
    answer = answer if isinstance(answer, dict) else {}
    if any(_refused(record.first(name)) for name in _STATUSES) or any(_refused(answer.get(name)) for name in _STATUSES):
        return True
    body = inner if isinstance(inner := answer_in(answer.get("body")), dict) else answer
    if any(body.get(name) for name in _ANSWERS):
        return False
    if any(record.first(name) for name in _FAILS) or body.get("error") or body.get("type") == "error":
        return True
    words = (record.first("status"), body.get("status"))
    return any(isinstance(word, str) and word.lower() in _FAILED_WORDS for word in words)


def _refused(status: Any) -> bool:
    """Whether it is a status of HTTP that says so."""
    return whole_number(status, least=400, most=599, in_text=True) is not None


def _other_kind(record: Record) -> str | None:
    for name in _PLACES:
        value = record.first(name)
        if isinstance(value, str) and (found := _OTHER.search(value.lower())):
            return _KINDS.get(found[1], found[1])
    if "messages" in record.fields:
        return None
    model = record.fields.get("model")
    if isinstance(model, str) and (found := _MODEL.search(model.lower())):
        return _MODEL_KINDS.get(found[1], found[1])
    return None
