"""Results of promptfoo: of each test and provider the prompt as it was sent, and the response."""

from __future__ import annotations

from typing import Any

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, found_at
from kvtool.workload.logs.records.call_fields import names_of, usage_in
from kvtool.workload.logs.records.failed_calls import CACHED, FAILED
from kvtool.workload.logs.records.record import Record, object_of, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Fields, FoundCall, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import checked, count_of

_TRIES = 2  # requests from which on the counts are a sum
_NO_MODEL = frozenset(("echo", "file", "exec", "python", "javascript", "http", "https", "websocket"))
"""What is before the colon of a provider that is no API of a model."""


def read_file(record: Record) -> Reading:
    """Return all rows of a file of results."""
    results = record.fields["results"]
    config = record.fields.get("config")
    rows = Several()
    for at in range(len(results["results"])):
        row = record.inner("results", "results", at)
        if row is None:
            raise record.error(f"results[{at}] must be an object", "results", "results", at)
        rows.append(_call(row, object_of(config)))
    return rows


def read_row(record: Record) -> Reading:
    """Return a row of results that are lines."""
    return _call(record, {})


def _call(record: Record, config: dict[str, Any]) -> FoundCall | LeftOut:
    fields = record.fields
    response = fields.get("response")
    if not isinstance(response, dict) or (fields.get("error") and not response.get("output")):
        return FAILED
    if response.get("cached") is True:
        return CACHED
    if response.get("error") and not response.get("output"):
        return FAILED
    provider = fields.get("provider")
    named = names_of([provider.get("id")]) if isinstance(provider, dict) else names_of([provider])
    vendor, _, model = (named or "").partition(":")
    raw = response.get("raw")
    raw = parsed_text(raw) if isinstance(raw, str) else raw
    body = object_of(raw)
    at = (*record.pointer, "response", "raw")
    prompt = fields.get("prompt")
    if prompt is None or (isinstance(prompt, dict) and prompt.get("raw") is None):
        raise record.error("`prompt.raw` is missing", *(("prompt",) if prompt is not None else ()))
    output = response.get("output")
    around = FieldsAround(
        identity=names_of([body.get("id")]),
        time=seconds(body.get("created"), "s") or seconds(fields.get("timestamp"), "s"),
        model=names_of([body.get("model"), model.rpartition(":")[2] or None]),
        provider=vendor if model and vendor not in _NO_MODEL else None,
        usage=usage_in((body, at)) or _usage(record, response),
    )
    answer = output if isinstance(output, str) else None
    tools = _tools(config, named, provider)
    if isinstance(prompt, dict):
        return found_at(record, prompt["raw"], "prompt", "raw", around=around, tools=tools, answer=answer)
    return found_at(record, prompt, "prompt", around=around, tools=tools, answer=answer)


def _usage(record: Record, response: dict[str, Any]) -> Usage | None:
    """Return the counts of promptfoo itself; its `cached` are those of its own cache."""
    told = response.get("tokenUsage")
    if not isinstance(told, dict) or told.get("prompt") is None:
        return None
    requests = told.get("numRequests")
    if isinstance(requests, int) and requests >= _TRIES:
        return None  # the sum of several
    at = (*record.pointer, "response", "tokenUsage")
    prompt = count_of(told["prompt"], "prompt", at)
    output = None if told.get("completion") is None else count_of(told["completion"], "completion", at)
    return checked(Usage(prompt=prompt, output=output)) if prompt else None


def _tools(config: dict[str, Any], named: str | None, provider: Any) -> Any:
    """Return the tools of a provider, as the configuration of the run says them."""
    own = provider.get("config") if isinstance(provider, dict) else None
    if isinstance(own, dict) and own.get("tools"):
        return own["tools"]
    label = provider.get("label") if isinstance(provider, dict) else None
    listed = config.get("providers")
    for each in listed if isinstance(listed, list) else []:
        if not isinstance(each, dict):
            continue
        if named is not None and (each.get("id") == named or (label and each.get("label") == label)):
            inner = each.get("config")
            return inner.get("tools") if isinstance(inner, dict) else None
        if named in each and isinstance(each[named], dict) and isinstance(each[named].get("config"), dict):
            return each[named]["config"].get("tools")
    return None


def is_results(fields: Fields) -> bool:
    """Return whether a record is a file of results."""
    results = fields.get("results")
    return isinstance(results, dict) and isinstance(results.get("results"), list)


def is_row(fields: Fields) -> bool:
    """Return whether a record is a row of results."""
    prompt = fields.get("prompt")
    return isinstance(prompt, dict) and "raw" in prompt and ("vars" in fields or "response" in fields)


_PROMPTFOO_EXAMPLE = r"""
{"results": {"version": 3,
 "results": [{"prompt": {"raw": "[{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]",
 "label": "p"}, "vars": {}, "provider": {"id": "openai:gpt-5.5"}, "response": {"output": "Yes.",
 "tokenUsage": {"prompt": 24, "completion": 2}}}]}, "config": {}}
"""  # noqa: E501 # JSON in a text cannot be broken
_PROMPTFOO_ROWS_EXAMPLE = r"""
{"prompt": {"raw": "[{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]",
 "label": "p"}, "vars": {}, "provider": {"id": "openai:gpt-5.5"}, "response": {"output": "Yes.",
 "tokenUsage": {"prompt": 24, "completion": 2}}}
"""  # JSON in a text cannot be broken
FORMATS = (
    RecordFormat(
        "promptfoo", "results.results + prompt.raw", is_results, read_file, example=_PROMPTFOO_EXAMPLE, ending=".json"
    ),
    RecordFormat("promptfoo-rows", "prompt.raw + response", is_row, read_row, example=_PROMPTFOO_ROWS_EXAMPLE),
)
