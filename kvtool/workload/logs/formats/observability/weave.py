"""Weave: calls of operations, of which those of the libraries of model APIs are calls of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.joined_records import Key
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

_HOLDS = "weave call around a model call"
_LIBRARY = re.compile(
    r"(?:^|/|\.)(?:openai|anthropic|litellm|groq|mistralai|cohere|cerebras|together|google|vertexai|genai|bedrock|azure|"
    r"huggingface_hub|nvidia|instructor|langchain\.llm)[._-]",
    re.IGNORECASE,
)
_PROMPTS = ("messages", "contents", "input", "prompt")
_WITHOUT = LeftOut("call without a prompt")


def keys_of(record: Record) -> list[Key]:
    """Return the call that this one was made in."""
    return list(_keys(record.fields))


def _keys(fields: dict[str, Any]) -> Iterator[Key]:
    if _is_call(fields) and isinstance(fields.get("parent_id"), str):
        yield _HOLDS, fields["parent_id"]


def _is_call(fields: dict[str, Any]) -> bool:
    inputs = fields.get("inputs")
    if not isinstance(inputs, dict) or not any(inputs.get(name) for name in _PROMPTS):
        return False
    named = _LIBRARY.search(str(fields.get("op_name") or "").rpartition("/op/")[2]) is not None
    return named or (isinstance(inputs.get("model"), str) and "messages" in inputs)


def read(record: Record) -> FoundCall | LeftOut:
    """Return a call of an operation."""
    fields, joins = record.fields, record.where.joins
    own = fields.get("id")
    if not _is_call(fields):
        named = str(fields.get("op_name") or "")
        return LeftOut("embedding" if "embeddings" in named else "other span")
    if joins is not None and isinstance(own, str) and joins.has(_HOLDS, own):
        return LeftOut("second record of the same call")
    output = fields.get("output")
    if fields.get("exception") and not output:
        return LeftOut("failed")
    inputs = {name: value for name, value in fields["inputs"].items() if name != "self"}
    attributes = object_of(fields.get("attributes"))
    around = FieldsAround(
        session=names_of(
            [fields.get("thread_id"), attributes.get("session_id"), attributes.get("thread_id"), fields.get("trace_id")]
        ),
        tenant=names_of([attributes.get("user_id"), attributes.get("user")]),
        time=seconds(fields.get("started_at"), "s"),
        end=seconds(fields.get("ended_at"), "s"),
        identity=own if isinstance(own, str) else None,
        value=fields,
        usage=_usage(record, fields),
    )
    return call_from(record, inputs, around, answer=output) or _WITHOUT


def _usage(record: Record, fields: dict[str, Any]) -> Usage | None:
    output = fields.get("output")
    if isinstance(output, dict) and (found := usage_of(output.get("usage"), (*record.pointer, "output", "usage"))):
        return found
    summary = fields.get("summary")
    by_model = summary.get("usage") if isinstance(summary, dict) else None
    if isinstance(by_model, dict) and len(by_model) == 1:
        ((model, counts),) = by_model.items()
        return usage_of(counts, (*record.pointer, "summary", "usage", model))
    return None


_EXAMPLE = """
{"id": "c1", "op_name": "weave:///o/p/op/openai.create:v1", "started_at": "2026-02-02T09:00:00Z",
 "inputs": {"model": "gpt-5.5", "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user",
 "content": "Is it open?"}]}}
"""
FORMAT = RecordFormat(
    "weave",
    "op_name + started_at",
    lambda fields: "op_name" in fields and "started_at" in fields,
    read,
    keys=keys_of,
    example=_EXAMPLE,
)
