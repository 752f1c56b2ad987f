"""Tokens and cost that a span reports: in the attributes of its conventions, and as the model's own API counted them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kvtool.text.bounded_number import LARGEST, whole_number
from kvtool.workload.call import Usage
from kvtool.workload.logs.formats.observability.otel_spans import Attributes
from kvtool.workload.logs.records.call_fields import decimal_of
from kvtool.workload.logs.records.record import object_of, parsed_text
from kvtool.workload.logs.records.usage import beside_cache, checked, count_of, merged_usage, usage_in_answer

_SENT = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens"),
    *("ai.usage.inputTokens", "ai.usage.promptTokens"),
)
_WROTE = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    *("llm.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
)
_TOTAL = (*("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens", "ai.usage.totalTokens"),)
_READ = (
    *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    *("llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens", "ai.usage.cachedInputTokens"),
    *("gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.input_tokens.cached"),
    *("gen_ai.usage.details.cache_read_input_tokens", "ai.usage.inputTokenDetails.cacheReadTokens"),
)
_WRITTEN = (
    *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    *("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_write_input_tokens"),
    *("llm.token_count.prompt_details.cache_write", "llm.usage.cache_creation_input_tokens"),
    *("gen_ai.usage.details.cache_write_tokens", "gen_ai.usage.details.cache_creation_input_tokens"),
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)
_REASONING = (
    *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens", "gen_ai.usage.details.reasoning_tokens"),
    *("llm.token_count.completion_details.reasoning", "llm.usage.reasoning_tokens", "ai.usage.reasoningTokens"),
    "ai.usage.outputTokenDetails.reasoningTokens",
)
_ALL_SENT = "ai.usage.inputTokenDetails.noCacheTokens"
"""Where the AI SDK writes this, its count of the prompt is of all of it; before version 6 it is what the vendor counts."""
_5M, _1H = "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"
_RAW = "gen_ai.usage.raw"
"""The usage of the answer, as Logfire keeps it."""
_VENDORS = "ai.response.providerMetadata"
_COSTS = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total", "gen_ai.cost.total_cost")


def span_usage(attributes: Attributes) -> Usage | None:
    """Return the tokens of a call: the prompt is all that was sent. Some emitters count there what is left beside the cache: the
    vendor, the total, or a prompt of fewer tokens than its parts shows it."""
    sent, cached = _count(attributes, _SENT), _count(attributes, _READ)
    written, output = _count(attributes, _WRITTEN), _count(attributes, _WROTE)
    counted = Usage(
        sent,
        cached,
        written,
        _count_ending(attributes, _5M),
        _count_ending(attributes, _1H),
        output,
        _count(attributes, _REASONING),
    )
    own, beside = _of_vendor(attributes)
    usage = merged_usage([*own, counted])
    if usage is None:
        return None
    if usage.prompt is not None and all(each.prompt is None for each in own):
        kept, total = (usage.cached or 0) + (usage.all_written or 0), _count(attributes, _TOTAL)
        if kept > usage.prompt or beside or (kept and total == usage.prompt + kept + (usage.output or 0)):
            usage = replace(usage, prompt=usage.prompt + kept)
    return checked(usage)


def span_cost(attributes: Attributes) -> Decimal | None:
    """Return what the call cost, in US dollars."""
    return decimal_of(attributes.get(*_COSTS))


def _of_vendor(attributes: Attributes) -> tuple[list[Usage], bool]:
    """Return the tokens as the model's own API counted them, and whether these are beside those of the prompt."""
    said = [{**each, "usage": each.get("usage") or each} for each in _objects(attributes)]
    found = [usage for each in said if (usage := usage_in_answer(each, ())) is not None]
    return found, any(beside_cache(object_of(each["usage"])) for each in said) and attributes.get(_ALL_SENT) is None


def _objects(attributes: Attributes) -> Iterator[dict[str, Any]]:
    for name, inner in ((_RAW, False), (_VENDORS, True)):
        value = attributes.get(name)
        said = parsed_text(value) if isinstance(value, str) else value
        if isinstance(said, dict):
            yield from (each for each in (said.values() if inner else [said]) if isinstance(each, dict))


def _count(attributes: Attributes, names: Sequence[str]) -> int | None:
    return _number(attributes.get(*names), names[0])


def _count_ending(attributes: Attributes, ending: str) -> int | None:
    return next((_number(value, name) for name, value in attributes.given.items() if name.endswith(ending)), None)


def _number(value: Any, name: str) -> int | None:
    if value is None or isinstance(value, dict):
        return None
    return count_of(whole_number(value, least=-LARGEST, in_text=True) if isinstance(value, str) else value, name, ())
