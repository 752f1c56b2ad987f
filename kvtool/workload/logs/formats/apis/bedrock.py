"""Bedrock's log of model invocations: the body of the request and of the answer, with identity, region and counts around them.

What CloudWatch exports wraps each record as a text in `message`. Bodies that are too long for it lie in S3 and not in the log.
"""

from __future__ import annotations

import re
from typing import Any

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import TENANTS, names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat
from kvtool.workload.logs.records.streamed_answers import answer_in
from kvtool.workload.logs.records.usage import usage_of

IN_S3 = LeftOut("request with its body in S3")
NO_BODY = LeftOut("request without its body")
_MESSAGES = ("message", "@message")
_OPERATIONS = ("InvokeModel", "Converse")
_SESSIONS = ("session_id", "sessionId", "session", "conversation_id", "conversationId", "thread_id")
_EMBEDS = re.compile(r"embed", re.IGNORECASE)
_OTHERS = re.compile(r"rerank|image|canvas|stable-|reel|sonic", re.IGNORECASE)
_NAMED = re.compile(r"arn:[^/]*:(?:foundation-model|inference-profile)/(.+)")
_TEXTS = ("prompt", "inputText", "message")
_LONG = 1 << 20
"""Characters of a text in which the name of the log appears."""


def is_record(fields: Fields) -> bool:
    """Return whether it is a record of this log, or a text that says one."""
    if fields.get("schemaType") == "ModelInvocationLog":
        return True
    if isinstance(fields.get("input"), dict) and "modelId" in fields:
        return str(fields.get("operation", "")).startswith(_OPERATIONS) or "inputBodyJson" in fields["input"]
    return any(isinstance(fields.get(name), str) and "ModelInvocationLog" in fields[name][:_LONG] for name in _MESSAGES)


def read(record: Record) -> Reading:
    """Return the request of a record."""
    for name in _MESSAGES:
        if (inner := record.inner(name)) is not None and is_record(inner.fields):
            record = inner
            break
    fields = record.fields
    if fields.get("errorCode") or fields.get("error"):
        return FAILED
    given = fields.get("input")
    if not isinstance(given, dict):
        return NO_BODY
    model = _model(fields.get("modelId"))
    if model is not None and (other := _EMBEDS.search(model) or _OTHERS.search(model)):
        return LeftOut("embedding" if _EMBEDS.search(model) else other[0].lower().rstrip("-"))
    asked = record.inner("input", "inputBodyJson")
    if asked is None or not asked.fields:
        return IN_S3 if given.get("inputBodyS3Path") else NO_BODY
    answer, at = _answer(record)
    usage = _usage(record, answer, at)
    told: Fields = {
        name: fields[name]
        for name in ("timestamp", "accountId", "region", "inferenceRegion", "requestMetadata")
        if name in fields
    }
    asked = Record(_as_prompt(asked.fields), asked.where, asked.pointer, ({"response": answer, **told},), asked.in_text)
    metadata = object_of(fields.get("requestMetadata"))
    identity = object_of(fields.get("identity"))
    around = FieldsAround(
        session=names_of([metadata.get(name) for name in _SESSIONS]),
        tenant=names_of([*(metadata.get(name) for name in TENANTS), identity.get("arn")]),
        time=seconds(fields.get("timestamp"), "s"),
        identity=names_of([fields.get("requestId")]),
        output_text=_text(answer),
        model=model,
        usage=usage,
    )
    return body(asked, around) or LeftOut("other request")


def _answer(record: Record) -> tuple[Fields, tuple[str | int, ...]]:
    """Return the body of the answer, put together where it was streamed, and the way to it."""
    output = record.fields.get("output")
    value = answer_in(output.get("outputBodyJson")) if isinstance(output, dict) else None
    at = record.pointer if record.in_text else (*record.pointer, "output", "outputBodyJson")
    return object_of(value), at


def _usage(record: Record, answer: Fields, at: tuple[str | int, ...]) -> Usage | None:
    """Return the counts of the answer; else those that the log has beside the bodies."""
    own = answer.get("usage")
    if (found := usage_of(own, (*at, "usage"))) is not None and (found.prompt, found.wrong) != (None, None):
        return found
    given, output = record.fields["input"], record.fields.get("output")
    counts = {name: value for name, value in given.items() if name.endswith("TokenCount")}
    if isinstance(output, dict) and "outputTokenCount" in output:
        counts["outputTokenCount"] = output["outputTokenCount"]
    return usage_of(counts, record.pointer if record.in_text else (*record.pointer, "input")) or usage_of(answer, at)


def _as_prompt(fields: Fields) -> Fields:
    """Return the body with the one text that some models take under the name that all texts have here."""
    if "messages" in fields or "contents" in fields:
        return fields
    for name in _TEXTS:
        if isinstance(fields.get(name), str):
            return {**fields, "prompt": fields[name]}
    return fields


def _text(answer: Fields) -> str | None:
    """Return the text of models that answer with one text."""
    results = answer.get("results")
    if isinstance(results, list) and results and isinstance(results[0], dict):
        answer = results[0]
    found = (answer.get(name) for name in ("outputText", "generation", "completion", "text"))
    return next((each for each in found if isinstance(each, str)), None)


def _model(value: Any) -> str | None:
    """Return the name of the model; of an inference profile that somebody named, all of it."""
    if not isinstance(value, str) or not value:
        return None
    named = _NAMED.fullmatch(value)
    return named[1] if named else value


_EXAMPLE = """
{"schemaType": "ModelInvocationLog", "timestamp": "2026-02-02T09:00:00Z", "operation": "Converse",
 "modelId": "amazon.nova", "input": {"inputBodyJson": {"messages": [{"role": "user",
 "content": [{"text": "Is it open?"}]}]}}, "output": {"outputBodyJson": {"usage": {"inputTokens": 8,
 "cacheReadInputTokens": 16, "outputTokens": 2}}}}
"""
FORMAT = RecordFormat(
    "bedrock", "schemaType: ModelInvocationLog, or modelId + input.inputBodyJson", is_record, read, example=_EXAMPLE
)
