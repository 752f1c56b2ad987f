"""The call of a record beside its prompt: model, tenant, settings, and what the server reported.

The names are those of many loggers; the first one that is there counts, in the request itself, then around it, then in the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np

from kvtool.text.bounded_number import exact_number, whole_number
from kvtool.workload.call import NO_CALL, CacheScope, Call, CallSettings, ReportedMiss, Usage
from kvtool.workload.logs.records.caller_ids import private_user
from kvtool.workload.logs.records.endpoint_models import model_in_address
from kvtool.workload.logs.records.record import RESPONSES, Record, object_of, seconds
from kvtool.workload.logs.records.retries import is_retry
from kvtool.workload.logs.records.streamed_answers import answer_in
from kvtool.workload.logs.records.usage import COSTS, FLAT, usage_in_answer, usage_of
from kvtool.workload.turn import Ids

_MODELS = ("model", "model_name", "modelId", "model_id", "modelVersion", "request_model")
_PROVIDERS = ("provider", "custom_llm_provider", "provider_name", "api_provider")
TENANTS = (
    *("tenant", "tenant_id", "user", "user_id", "userId", "end_user", "safety_identifier"),
    *("request_user_id", "customer_id", "end_user_id"),
)
_ORGANISATIONS = ("organization", "organisation", "organization_id", "openai_organization", "account_id", "accountId")
_WORKSPACES = ("workspace", "workspace_id", "project", "project_id")
_REGIONS = ("region", "aws_region", "inference_geo")
_KEYS = ("prompt_cache_key", "cache_salt")
_ENDS = (
    *("end_time", "endTime", "ended_at", "completed_at", "finished_at", "response_created_at", "end_timestamp"),
    "processed_time",
)
_FIRST_ANSWERS = ("completion_start_time", "completionStartTime", "first_token_time", "time_of_first_token")
_USAGES = ("usage", "usageMetadata", "usage_metadata", "usage_object")
_STATUSES = ("status", "status_code", "statusCode", "response_status", "http_status")
_MOST_STATUS = 1_000  # HTTP has three digits
_METADATA = ("metadata", "meta", "labels", "attributes", "extra")
_GEMINI_CONFIGS = ("generationConfig", "generation_config", "config")
_GEMINI_SCHEMAS = ("responseSchema", "responseJsonSchema", "response_schema", "response_json_schema")
_SETTINGS = frozenset(
    (
        *("tool_choice", "toolChoice", "thinking", "reasoning", "reasoning_effort", "effort", "output_config", "text"),
        *("response_format", "output_format", "prompt_cache_retention", "prompt_cache_options", "cache_control"),
        *("service_tier", "speed", "cachedContent", "cached_content", *_GEMINI_CONFIGS),
    )
)
_LONGEST_SCHEMA = 200  # characters that are compared as they are; longer ones by their digest
_MOST_ID = 1 << 31  # token ids are int32
NO_SCOPE = CacheScope()
NO_SETTINGS = CallSettings()
_HEADERS = ("headers", "request_headers", "response_headers")
_ID_HEADERS = ("request-id", "x-request-id", "x-amzn-requestid")
_ORGANISATION_HEADERS = ("openai-organization", "anthropic-organization-id")
ADDRESSES = ("url", "endpoint", "path", "request_path", "api_path")
_OF_CALL = frozenset(
    (
        *(
            *_HEADERS,
            *ADDRESSES,
            *_MODELS,
            *_PROVIDERS,
            *TENANTS,
            *_ORGANISATIONS,
            *_WORKSPACES,
            *_REGIONS,
            *_KEYS,
            *_ENDS,
            *COSTS,
            *_USAGES,
        ),
        *(*FLAT, *_STATUSES, *_METADATA, *RESPONSES, *_SETTINGS, *_FIRST_ANSWERS),
    )
)
_ANSWER_NAME = re.compile(
    r"(?:(?:model|llm|ai|api|assistant|bot|server|raw|full|final|generated|predicted)[_-]?)?"
    r"(?:answer|completion|generation|output|prediction|reply|response|result)s?(?:[_-]?(?:text|body|json|content|message))?"
    r"|generated[_-]?text|res|resp",
    re.IGNORECASE,
)
"""Names that loggers give to answers, beside those in RESPONSES."""
_OF_ANSWERS = ('"choices"', '"candidates"')
_LOOKED_AT = 4_096
"""Characters of a text in which an answer of an API shows what it is."""


def call_of(
    record: Record,
    *,
    uncounted: Mapping[str, int] | None = None,
    images: int = 0,
    citations: bool = False,
    incomplete: str | None = None,
    counts: bool = True,
) -> Call:
    """Return the call of a record that holds one; without `counts` nothing of its tokens. RecordError for counts that cannot be."""
    said = _fields_of_call(record)
    blocks = isinstance(record.fields.get("system"), list)
    if not (said or uncounted or images or incomplete or blocks):
        return NO_CALL
    response, at = answer_object(record)
    usage = _usage(record, response, at) if counts else None
    status, headers = _first(said, _STATUSES), _headers(record)
    return Call(
        model=_word(_first(said, _MODELS))
        or _word(response.get("model"))
        or _word(response.get("modelVersion"))
        or model_in_address(_first(said, ADDRESSES)),
        provider=_word(_first(said, _PROVIDERS)) or _word(response.get("provider")),
        tenant=private_user(_word(_first(said, TENANTS)) or _tenant_in(record)),
        request_id=names_of([_first(headers, _ID_HEADERS), response.get("id"), response.get("responseId")]),
        usage=usage,
        scope=_scope(said, headers, response),
        settings=_settings(record, response, images=images, citations=citations),
        end=_time(said, _ENDS),
        first_answer=_time(said, _FIRST_ANSWERS),
        status=http_status(status),
        missed=_missed(response) or _missed(record.fields),
        reasoned=bool(usage is not None and usage.reasoning) or _has_reasoning(response),
        loops=_ran_tools(response or record.fields),
        finish=_finish(response),
        cost=_cost(said, response),
        uncounted=tuple(sorted(uncounted.items())) if uncounted else (),
        incomplete=incomplete,
        streamed=record.fields.get("stream") is True,
        system_blocks=blocks,
        retried=is_retry(_first(said, _HEADERS)),
    )


def usage_of_record(record: Record) -> Usage | None:
    """Return the reported tokens of a record that holds a call, and nothing else of it."""
    return _usage(record, *answer_object(record)) if _fields_of_call(record) else None


def _has_reasoning(response: Mapping[str, Any]) -> bool:
    """Return whether an answer has reasoning beside its text, as a field of its message or as a block."""
    choices, blocks = response.get("choices"), response.get("content")
    choice = object_of(choices[0]) if isinstance(choices, list) and choices else {}
    message = object_of(choice.get("message"))
    kinds = [object_of(block).get("type") for block in blocks] if isinstance(blocks, list) else []
    return bool(message.get("reasoning_content") or message.get("reasoning") or "thinking" in kinds)


def _ran_tools(answer: Mapping[str, Any]) -> bool:
    """Return whether the provider ran tools for an answer of Anthropic's API, as its blocks or its `usage` say."""
    blocks, counts = answer.get("content"), object_of(object_of(answer.get("usage")).get("server_tool_use"))
    kinds = [object_of(block).get("type") for block in blocks] if isinstance(blocks, list) else []
    return "server_tool_use" in kinds or any(counts.values())


def _missed(response: Mapping[str, Any]) -> ReportedMiss | None:
    """Return the miss that Anthropic's `diagnostics` report, or OpenAI's `prompt_cache_diagnostics`."""
    reported = object_of(object_of(response.get("diagnostics")).get("cache_miss_reason"))
    reason, tokens = _word(reported.get("type")), reported.get("cache_missed_input_tokens")
    openai = object_of(response.get("prompt_cache_diagnostics"))
    if reason is None and openai.get("type") == "cache_miss":
        reason, tokens = _word(openai.get("reason")), openai.get("cache_missed_tokens")
    return None if reason is None else ReportedMiss(reason, tokens if type(tokens) is int and tokens >= 0 else None)


def _fields_of_call(record: Record) -> dict[str, Any]:
    """Return the fields of a record on its call, the innermost first."""
    said: dict[str, Any] = {}
    for fields in (*reversed(record.around), record.fields):
        for name in _OF_CALL.intersection(fields):
            if (value := fields[name]) is not None:
                said[name] = value
    return said


def _first(said: dict[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if name in said:
            return said[name]
    return None


def _time(said: dict[str, Any], names: Sequence[str]) -> float | None:
    return next((time for name in names if name in said and (time := seconds(said[name], "s")) is not None), None)


def sampled_of(record: Record) -> Ids | None:
    """Return the token ids of the answer, where its server reports them (vLLM's `return_token_ids`)."""
    return sampled_in(_first_choice(answer_object(record)[0]))


def sampled_in(choice: Mapping[str, Any]) -> Ids | None:
    """Return the token ids of one answer."""
    ids = choice.get("token_ids")
    whole = isinstance(ids, list) and all(type(each) is int and 0 <= each < _MOST_ID for each in ids)
    return np.asarray(ids, dtype=np.int32) if ids and whole else None


def choices_of(record: Record) -> dict[int, dict[str, Any]]:
    """Return the answers beside a request by their `index`."""
    choices = answer_object(record)[0].get("choices")
    found: dict[int, dict[str, Any]] = {}
    for at, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict):
            index = choice.get("index")
            found.setdefault(index if type(index) is int else at, choice)
    return found


def _finish(response: dict[str, Any]) -> str | None:
    choice = _first_choice(response)
    said = choice.get("finish_reason", choice.get("finishReason")) or response.get("stop_reason")
    if said is None and response.get("status") == "incomplete":  # Responses API
        said = response["status"]
    return _word(said)


def _first_choice(response: dict[str, Any]) -> dict[str, Any]:
    for name in ("choices", "candidates"):
        choices = response.get(name)
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return choices[0]
    return {}


def answer_object(record: Record) -> tuple[dict[str, Any], tuple[str | int, ...]]:
    """Return the object of an API's answer beside the request, and the way to it; an empty one where there is none."""
    value, at = record.found(*RESPONSES)
    for name in ("body", "response", "raw"):
        if isinstance(value, dict) and isinstance(inner := answer_in(value.get(name)), dict):
            value, at = inner, at if record.in_text else (*at, name)
    return (value, at) if isinstance(value, dict) else ({}, at)


def unread_answer(record: Record) -> str | None:
    """Return the key of a record, or of an object around it, that looks like an answer and is not read; None: there is none."""
    if record.found(*RESPONSES)[0] is not None:
        return None
    for fields in (record.fields, *record.around):
        for name, value in fields.items():
            if not value or not isinstance(value, str | dict | list):
                continue
            if is_answer_name(name) or _is_answer(value):
                return name
    return None


def is_answer_name(name: str) -> bool:
    """Return whether a key is called as loggers call answers."""
    return _ANSWER_NAME.fullmatch(name) is not None


def _is_answer(value: str | dict[str, Any] | list[Any]) -> bool:
    """Return whether a value is an answer of an API, also as JSON in a text."""
    if isinstance(value, dict):
        return "choices" in value or "candidates" in value
    return (
        isinstance(value, str)
        and value[:64].lstrip()[:1] == "{"
        and any(name in value[:_LOOKED_AT] for name in _OF_ANSWERS)
    )


def _named_cache(value: Any) -> str | None:
    """Return the name of an explicit cache, by itself or in the object of it."""
    return _word(value.get("name")) if isinstance(value, dict) else _word(value)


def _tenant_in(record: Record) -> str | None:
    """Return the tenant of a call, where only its metadata name it."""
    for fields in (record.fields, *record.around):
        for name in _METADATA:
            inner = fields.get(name)
            if isinstance(inner, dict):
                for each in TENANTS:
                    if (found := _word(inner.get(each))) is not None:
                        return found
    return None


def usage_in(answer: tuple[dict[str, Any], tuple[str | int, ...]]) -> Usage | None:
    """Return the tokens in the object of an answer, with their path."""
    return usage_in_answer(*answer)


def _usage(record: Record, response: dict[str, Any], at: tuple[str | int, ...]) -> Usage | None:
    if (found := usage_in((response, at))) is not None:
        return found
    value, pointer = record.found(*_USAGES)
    if isinstance(value, dict):
        return usage_of(value, pointer)
    for depth, fields in enumerate((record.fields, *record.around)):
        if any(isinstance(fields.get(name), int | float | str) for name in FLAT):
            return usage_of(fields, record.pointer[: max(len(record.pointer) - depth, 0)])
    return None


def _scope(said: dict[str, Any], headers: dict[str, Any], response: dict[str, Any]) -> CacheScope:
    organisation = _word(_first(said, _ORGANISATIONS)) or _word(_first(headers, _ORGANISATION_HEADERS))
    workspace = _word(_first(said, _WORKSPACES)) or _word(headers.get("openai-project"))
    region, key = _word(_first(said, _REGIONS)), _word(_first(said, _KEYS)) or _word(headers.get("x-grok-conv-id"))
    replica = _word(headers.get("x-data-parallel-rank")) or _word(object_of(response.get("meta_info")).get("dp_rank"))
    if organisation is workspace is region is key is replica is None:
        return NO_SCOPE
    return CacheScope(organisation, workspace, region, key, replica)


def _headers(record: Record) -> dict[str, Any]:
    """Return the headers of a request and of its answer, by their names in small letters."""
    found = (object_of(record.first(name)) for name in _HEADERS)
    return {name.lower(): value for headers in found for name, value in headers.items()}


def http_status(value: object) -> int | None:
    """Return a status of HTTP; None for a value that is none."""
    return whole_number(value, most=_MOST_STATUS - 1)


def _settings(record: Record, response: dict[str, Any], *, images: int, citations: bool) -> CallSettings:
    fields = record.fields
    tier = _word(response.get("service_tier")) or _word(fields.get("service_tier"))
    batch = "custom_id" in fields or any("custom_id" in each for each in record.around)
    if _SETTINGS.isdisjoint(fields) and tier is None and not (batch or images or citations):
        return NO_SETTINGS
    reasoning, output = object_of(fields.get("reasoning")), object_of(fields.get("output_config"))
    cache, control = object_of(fields.get("prompt_cache_options")), object_of(fields.get("cache_control"))
    schema = fields.get("response_format") or fields.get("output_format") or _gemini_schema(fields)
    schema = schema or object_of(fields.get("text")).get("format") or output.get("format")
    control_ttl = (_word(control.get("ttl")) or "5m") if control else None
    return CallSettings(
        tool_choice=_compared(fields.get("tool_choice", fields.get("toolChoice"))),
        thinking=_compared(fields.get("thinking")),
        effort=_compared(
            fields.get("reasoning_effort") or reasoning.get("effort") or output.get("effort") or fields.get("effort")
        ),
        output_schema=_compared(schema),
        images=images,
        citations=citations,
        retention=_word(fields.get("prompt_cache_retention")),
        cache_mode=_word(cache.get("mode")),
        cache_ttl=_word(cache.get("ttl")) or control_ttl,
        service_tier=tier,
        speed=_word(fields.get("speed")),
        batch=batch,
        cached_content=_named_cache(fields.get("cachedContent")) or _named_cache(fields.get("cached_content")),
    )


def _gemini_schema(fields: Mapping[str, Any]) -> Any:
    config = next((found for name in _GEMINI_CONFIGS if (found := object_of(fields.get(name)))), {})
    return next((config[name] for name in _GEMINI_SCHEMAS if config.get(name)), None)


def _cost(said: dict[str, Any], response: dict[str, Any]) -> Decimal | None:
    usage = object_of(response.get("usage"))
    for value in (_first(said, COSTS), usage.get("cost"), object_of(said.get("costDetails")).get("total")):
        if (cost := decimal_of(value)) is not None:
            return cost
    return None


def decimal_of(value: object) -> Decimal | None:
    """Return an amount of dollars, as it is written."""
    return exact_number(value, in_text=True)


def _compared(value: object) -> str | None:
    """Return JSON with sorted keys, or a digest of it."""
    if value is None or value == {}:
        return None
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= _LONGEST_SCHEMA:
        return text
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


def _word(value: object) -> str | None:
    """Return a name: a text or a whole number."""
    if isinstance(value, str):
        return str.__str__(value) if value.strip() else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def names_of(values: Sequence[object]) -> str | None:
    """Return the first of some values that is a name."""
    return next((word for value in values if (word := _word(value)) is not None), None)
