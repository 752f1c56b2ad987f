"""Batches: the requests of one file, joined with their answers in another by `custom_id` (OpenAI, Anthropic) or `key` (Gemini)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvtool.workload.call import NO_CALL, Usage
from kvtool.workload.logs.formats.apis import gemini
from kvtool.workload.logs.records.call_context import FieldsAround, body
from kvtool.workload.logs.records.call_fields import names_of, usage_in
from kvtool.workload.logs.records.chat_records import answer_of
from kvtool.workload.logs.records.failed_calls import FAILED, left_out_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, RecordError, seconds
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.streamed_answers import answer_in

_BODIES = ("body", "params", "request")
_ASKED, _ANSWERED = "batch request", "batch answer"
_NOT_DONE = frozenset(("errored", "expired", "canceled", "cancelled", "failed"))
_GIVE_BOTH = "pass the batch's input file too: kvtool joins them by `custom_id` or `key`"


def is_request(fields: Fields) -> bool:
    """Return whether it is a line of a batch that is to be answered."""
    if "response" in fields or "result" in fields:
        return False
    return _id_of(fields) is not None and any(isinstance(fields.get(name), dict | str) for name in _BODIES)


def is_answer(fields: Fields) -> bool:
    """Return whether it is a line of what a batch gave, which says nothing of what was asked."""
    if _id_of(fields) is None or any(fields.get(name) for name in (*_BODIES, "messages", "prompt")):
        return False
    return any(name in fields for name in ("response", "result", "error"))


def keys_of(record: Record) -> Sequence[Key]:
    """Return the key by which the other side finds it."""
    own = _id_of(record.fields)
    return [] if own is None else [(_ANSWERED if is_answer(record.fields) else _ASKED, own)]


def read_request(record: Record) -> Reading:
    """Return the request, with what its answer says where that is in the log."""
    if (left := left_out_of(record)) is not None:
        return left
    name = next(name for name in _BODIES if isinstance(record.fields.get(name), dict | str))
    inner = record.inner(name)
    if inner is None:
        raise record.error(f"`{name}` must be an object", name)
    found = _partner(record, _ASKED, _ANSWERED)
    try:
        around = FieldsAround() if found is None else _around(found)
    except RecordError as error:
        assert found is not None
        there = f"{found.where.path}:{found.where.line}"
        raise record.error(f"its answer at {there}: {error.message}", "custom_id") from error
    if around is None:
        return FAILED
    if found is not None:  # for what only the answer itself says, as the tokens of each of several
        inner = replace(inner, around=({"response": _answer(found)[0]}, *inner.around))
    if (reading := body(inner, around)) is None:
        return LeftOut("other request")
    return reading


def read_answer(record: Record) -> Reading:
    """Return nothing where its request is in the log; else what the answer reports, without a prompt."""
    joins = record.where.joins
    own = _id_of(record.fields)
    if joins is None or (own is not None and joins.has(_ASKED, own)):
        return Several()
    if _has_failed(record.fields):
        return FAILED
    around = _around(record)
    told = record.turn(call=NO_CALL if around is None else around.call)
    told.id = own or told.id
    return LeftOut("batch answer without the request", hint=_GIVE_BOTH, told=told)


def _id_of(fields: Fields) -> str | None:
    value = fields.get("custom_id", fields.get("key"))
    return value if isinstance(value, str) else str(value) if type(value) is int else None


def _partner(record: Record, mine: str, others: str) -> Record | None:
    """Return the answer of a request; where batches share ids, the one of the same number among them. None: there is none, or
    any."""
    joins, own = record.where.joins, _id_of(record.fields)
    if joins is None or own is None or not joins.has(others, own):
        return None
    found = joins.find(others, own)
    asked = joins.find(mine, own)
    if len(asked) == 1:
        return found[-1]  # asked again, the last one counts
    if len(found) != len(asked):
        return None
    here = (record.where.path, record.where.number)
    return next(
        (each for each, one in zip(found, asked, strict=True) if (one.where.path, one.where.number) == here), None
    )


def _has_failed(fields: Fields) -> bool:
    result, response = fields.get("result"), fields.get("response")
    if isinstance(result, dict) and (str(result.get("type")) in _NOT_DONE or result.get("error")):
        return True
    status = response.get("status_code") if isinstance(response, dict) else None
    return bool(fields.get("error")) or (isinstance(status, int) and status >= 400)


def _around(record: Record) -> FieldsAround | None:
    """Return what an answer reports; None where it failed."""
    fields = record.fields
    if _has_failed(fields):
        return None
    answer, at = _answer(record)
    usage: Usage | None = usage_in((answer, at))
    text, _ = answer_of(answer)
    return FieldsAround(
        identity=names_of([answer.get("id"), answer.get("responseId")]),
        output_text=text if text is not None else gemini.answer_text(answer),
        model=names_of([answer.get("model"), answer.get("modelVersion")]),
        usage=usage,
        end=seconds(answer.get("created", answer.get("created_at")), "s"),
    )


def _answer(record: Record) -> tuple[Fields, tuple[str | int, ...]]:
    """Return the answer of the API inside a line, and the way to it."""
    for path in (("response", "body"), ("result", "message"), ("response",)):
        inner: Any = record.fields
        for step in path:
            inner = answer_in(inner.get(step)) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            return inner, (*record.pointer, *path)
    return {}, record.pointer


_BATCH_EXAMPLE = """
{"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-5.5",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}]}}
"""
_BATCH_ANSWERS_EXAMPLE = """
{"custom_id": "r1", "response": {"status_code": 200, "body": {"id": "chatcmpl-1", "object": "chat.completion",
 "choices": [{"message": {"role": "assistant", "content": "Yes."}}], "usage": {"prompt_tokens": 24,
 "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}}}, "error": null}
"""
FORMATS = (
    RecordFormat("batch", "custom_id + body or params", is_request, read_request, keys=keys_of, example=_BATCH_EXAMPLE),
    RecordFormat(
        "batch-answers",
        "custom_id + response or result",
        is_answer,
        read_answer,
        keys=keys_of,
        example=_BATCH_ANSWERS_EXAMPLE,
    ),
)
