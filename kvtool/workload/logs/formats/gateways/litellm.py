"""LiteLLM: what its proxy hands to loggers (StandardLoggingPayload), and the rows of its table of spend logs."""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.failed_calls import left_out_of
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

_WITHOUT = LeftOut(
    "call without a prompt", hint="set store_prompts_in_spend_logs: true in general_settings of the proxy"
)
_ONLY_HERE = frozenset(("model_parameters", "spend", "proxy_server_request"))
_COUNTS = ("prompt_tokens", "completion_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def read(record: Record) -> FoundCall | LeftOut:
    """Return a call; what the proxy answered by itself is none."""
    fields = record.fields
    if (left := left_out_of(record)) is not None:
        return left
    if str(fields.get("cache_hit")).lower() == "true":
        return LeftOut("answer from the cache of the proxy")
    told, response = _object(fields.get("metadata")), fields.get("response")
    answer = _object(response)
    asked = _object(fields.get("model_parameters"))
    sent = _object(fields.get("proxy_server_request"))
    sent = _object(sent.get("body")) or sent
    usage = (
        usage_of(told.get("usage_object"), record.pointer)
        or usage_of(answer.get("usage"), record.pointer)
        or usage_of({name: fields[name] for name in _COUNTS if fields.get(name) is not None}, record.pointer)
    )
    around = FieldsAround(
        session=names_of([fields.get("session_id"), fields.get("litellm_session_id")]),
        tenant=names_of(
            [
                fields.get("end_user"),
                fields.get("user"),
                told.get("user_api_key_user_id"),
                told.get("user_api_key_team_id"),
                fields.get("team_id"),
            ]
        ),
        time=seconds(fields.get("startTime"), "s"),
        end=seconds(fields.get("endTime"), "s"),
        first_answer=seconds(fields.get("completionStartTime"), "s"),
        identity=names_of([answer.get("id"), fields.get("id"), fields.get("request_id")]),
        value=fields,
        model=names_of([fields.get("model"), sent.get("model")]),
        provider=names_of([fields.get("custom_llm_provider")]),
        usage=usage,
        cost=decimal_of(fields.get("response_cost", fields.get("spend"))),
    )
    messages = fields.get("messages")
    held = sent if _has_prompt(sent) else messages if messages not in ({}, "{}", [], "", None) else None
    if isinstance(held, str) and held == "redacted-by-litellm":
        held = None
    if isinstance(held, list) and (system := asked.get("instructions") or asked.get("system")):
        held = {"messages": held, "system": system}
    return call_from(record, held, around, answer=response, beside={**asked, **_tools(sent)}) or _WITHOUT


def _has_prompt(sent: dict[str, Any]) -> bool:
    return any(sent.get(name) for name in ("messages", "input", "prompt", "contents"))


def _tools(sent: dict[str, Any]) -> dict[str, Any]:
    return {"tools": sent["tools"]} if sent.get("tools") else {}


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = parsed_text(value)
    return object_of(value)


_EXAMPLE = """
{"id": "c1", "call_type": "acompletion", "startTime": 1770022800.0, "model_parameters": {}, "end_user": "north",
 "messages": [{"role": "system", "content": "You are Mina."}, {"role": "user", "content": "Is it open?"}],
 "response": {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant",
 "content": "Yes."}}], "usage": {"prompt_tokens": 24, "completion_tokens": 2,
 "prompt_tokens_details": {"cached_tokens": 16}}}, "status": "success"}
"""
FORMAT = RecordFormat(
    "litellm",
    "call_type + model_parameters or spend",
    lambda fields: "call_type" in fields and not _ONLY_HERE.isdisjoint(fields),
    read,
    example=_EXAMPLE,
)
