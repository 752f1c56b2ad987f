"""The tokens of a call as its server counted them, from the answer of any API: the prompt is always all that was sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields as fields_of
from typing import Any

from kvtool.text.bounded_number import exact_number, whole_number
from kvtool.workload.call import Usage
from kvtool.workload.logs.records.record import RecordError, kind

_MOST = 1 << 40  # tokens: a bound for hostile logs
_Pointer = tuple[str | int, ...]

# The names under which the APIs report these, the most telling first; a dot leads into an object.
_PROMPT = ("prompt_tokens", "promptTokenCount", "prompt_token_count", "input_tokens", "inputTokens", "inputTokenCount")
_OF_GEMINI = ("promptTokenCount", "prompt_token_count")
"""Gemini's API leaves out a count of 0, as JSON of protocol buffers does."""
_CANDIDATES = ("candidatesTokenCount", "candidates_token_count")
"""Counts of an answer that Gemini gives without its thoughts."""
_OUTPUT = (
    *("completion_tokens", "output_tokens", *_CANDIDATES, "outputTokens", "outputTokenCount"),
    "generation_token_count",
)
_DETAILS = (
    *("prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details"),
    *("promptTokensDetails", "inputTokenDetails"),
)
_READ = (
    *("cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount", "cachedContentTokenCount"),
    *("cached_content_token_count", "total_cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
    *("input_cached_tokens", "prompt_cached_tokens", "num_cached_tokens", "prompt_cache_read_tokens"),
    *("cachedPromptTokens", "promptCacheHitTokens"),
)
_READ_IN_DETAILS = ("cached_tokens", "cache_read", "cache_read_tokens", "cachedTokens", "cache_read_input_tokens")
_WRITTEN = (
    *("cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount", "cache_write_tokens"),
    *("prompt_cache_creation_tokens", "prompt_cache_write_tokens", "input_cache_creation", "cacheCreationInputTokens"),
    "input_cache_write_tokens",
)
_WRITTEN_IN_DETAILS = (
    *("cache_write_tokens", "cache_creation_tokens", "cache_creation", "cacheWriteTokens"),
    *("cache_creation_input_tokens", "created_cache_tokens"),
)
_WRITTEN_12H = ("input_cache_write_12h_tokens", "cache_write_12h_tokens")
"""OpenAI counts these beside its usual writes, and both in the prompt."""
_TOTAL = ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count")
_REASONING = ("reasoning_tokens", "reasoningTokens")
_BESIDE = frozenset(
    (
        *("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation", "cacheCreationInputTokens"),
        *("cacheReadInputTokens", "cacheWriteInputTokens", "cacheReadInputTokenCount", "cacheWriteInputTokenCount"),
    )
)
"""Where these are beside `input_tokens` or `inputTokens`, that is what was neither read nor written (Anthropic, Bedrock)."""
_REMAINDERS = ("input_tokens", "inputTokens", "inputTokenCount")
_USAGES = ("usage", "usageMetadata", "usage_metadata", "usage_object", "meta_info")
"""Objects of an answer that hold counts; `meta_info` is that of SGLang's own API."""
COSTS = ("response_cost", "cost_usd", "costUSD", "spend", "total_cost", "cost", "costDetails", "cost_details")
"""What loggers and gateways call the price of a request."""
FLAT = ("cached_tokens", "prompt_tokens", "input_tokens")
"""Counts that loggers write beside an answer."""
_TEXTS = ("content", "parts", "tools", "functions", "tool_calls")
_OLLAMA = ("prompt_eval_count", "prompt_eval_cached_count", "eval_count")
"""Counts of Ollama's own API, which are in the answer itself."""


def usage_in_answer(answer: dict[str, Any], pointer: _Pointer) -> Usage | None:
    """Return the tokens of an answer, from all places that report them; the next place fills what one leaves out.

    RecordError for counts that are no whole numbers.
    """
    said = [usage_of(answer[name], (*pointer, name)) for name in _USAGES if isinstance(answer.get(name), dict)]
    usage = merged_usage([*said, _timings(answer, pointer), _ollama(answer, pointer)])
    return None if usage is None else checked(usage)


def merged_usage(said: Sequence[Usage | None]) -> Usage | None:
    """Return the tokens that several places report of one call: the next place fills what one leaves out. None where none does."""
    told = [each for each in said if each is not None and each != Usage()]
    if len(told) < 2:
        return told[0] if told else None
    names = [each.name for each in fields_of(Usage)]
    return Usage(*(next((v for each in told if (v := getattr(each, name)) is not None), None) for name in names))


def beside_cache(usage: dict[str, Any]) -> bool:
    """Return whether a vendor counts what was read and written beside the prompt, by the names in its `usage`."""
    return not _BESIDE.isdisjoint(usage)


def without_counts(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without all that it says of its tokens."""
    said = {*_USAGES, "timings", *_OLLAMA}
    return {name: value for name, value in answer.items() if name not in said}


def _timings(answer: dict[str, Any], pointer: _Pointer) -> Usage | None:
    """Return the counts of llama.cpp: `cache_n` tokens of a prompt were there, and `prompt_n` were computed."""
    timings = answer.get("timings")
    if not isinstance(timings, dict):
        return None
    at = (*pointer, "timings")
    _, cached = _first(timings, at, ("cache_n",))
    _, computed = _first(timings, at, ("prompt_n",))
    if cached is None:
        return None  # an older one counts only what it computed
    _, output = _first(timings, at, ("predicted_n",))
    return Usage(None if computed is None else cached + computed, cached, output=output)


def _ollama(answer: dict[str, Any], pointer: _Pointer) -> Usage | None:
    prompt, cached, output = (_first(answer, pointer, (name,))[1] for name in _OLLAMA)
    return None if prompt is cached is output is None else Usage(prompt, cached, output=output)


def details_name_of(usage: dict[str, Any]) -> str:
    """Return the name of the object in a `usage` that has parts of the prompt; empty where it has none."""
    return next((name for name in _DETAILS if isinstance(usage.get(name), dict)), "")


def usage_of(value: object, pointer: _Pointer) -> Usage | None:
    """Return the tokens of a `usage` object at `pointer` of a record; None for anything else. RecordError for counts that
    are no whole numbers."""
    if not isinstance(value, dict) or not value:
        return None
    details_name = details_name_of(value)
    details: dict[str, Any] = value[details_name] if details_name else {}
    inner = (*pointer, details_name)
    prompt_name, prompt = _first(value, pointer, _PROMPT)
    output_name, output = _first(value, pointer, _OUTPUT)
    total = next((number for name in _TOTAL if (number := whole_number(value.get(name)))), None)
    sums = [(total, (prompt or 0) + (output or 0))]
    _, cached = _first(value, pointer, _READ)
    if cached is None:
        _, cached = _first(details, inner, _READ_IN_DETAILS)
    if cached is None and prompt_name in _OF_GEMINI:
        cached = 0
    _, written = _first(value, pointer, _WRITTEN)
    if written is None:
        _, written = _first(details, inner, _WRITTEN_IN_DETAILS)
    creation = value.get("cache_creation", details.get("cache_creation"))
    short = long = None
    if isinstance(creation, dict):
        at = (*pointer, "cache_creation") if "cache_creation" in value else (*inner, "cache_creation")
        _, short = _first(creation, at, ("ephemeral_5m_input_tokens",))
        _, long = _first(creation, at, ("ephemeral_1h_input_tokens",))
    else:
        _, short = _first(details, inner, ("ephemeral_5m_input_tokens",))
        _, long = _first(details, inner, ("ephemeral_1h_input_tokens",))
    if short is not None or long is not None:
        parts = (short or 0) + (long or 0)
        sums.append((written if isinstance(creation, dict) else written or None, parts))
        written = max(written or 0, parts)
    _, half_day = _first(value, pointer, _WRITTEN_12H)
    if half_day is None:
        _, half_day = _first(details, inner, _WRITTEN_12H)
    if half_day is not None:
        written = (written or 0) + half_day
    if prompt is not None and prompt_name in _REMAINDERS and not details and not _BESIDE.isdisjoint(value):
        prompt += (cached or 0) + (written or 0)
    _, reasoning = _first(_output_details(value), pointer, (*_REASONING, "reasoning"))
    if reasoning is None:
        _, reasoning = _first(value, pointer, _REASONING)
    _, thoughts = _first(value, pointer, ("thoughtsTokenCount", "thoughts_token_count"))
    if thoughts is not None and output_name in _CANDIDATES:
        reasoning = thoughts
        output = (output or 0) + reasoning
    if prompt is cached is written is output is None:
        return None
    return checked(Usage(prompt, cached, written, short, long, output, reasoning, half_day), sums)


def _output_details(value: dict[str, Any]) -> dict[str, Any]:
    names = ("completion_tokens_details", "output_tokens_details", "output_token_details")
    return next((value[name] for name in names if isinstance(value.get(name), dict)), {})


def checked(usage: Usage, sums: Iterable[tuple[int | None, int]] = ()) -> Usage:
    """Return the usage; where its counts contradict each other, one of which nothing is known but how.

    `sums` are reported sums, each with what its parts are together. None: it was not summed, as by LangChain, which writes 0 then.
    """
    if usage.wrong is not None:
        return Usage(wrong=usage.wrong)
    kept, counts = (usage.cached or 0) + (usage.written or 0), [getattr(usage, each.name) for each in fields_of(Usage)]
    if (least := min((each for each in counts if each is not None), default=0)) < 0:
        return Usage(wrong=f"a count of {least:,} tokens")
    for total, parts in sums:
        if total is not None and total < parts:
            return Usage(wrong=f"a total of {total:,} for parts of {parts:,}")
    if usage.prompt is not None and kept > usage.prompt:
        return Usage(wrong=f"{kept:,} tokens read and written of a prompt of {usage.prompt:,}")
    return usage


def count_of(value: object, name: str, pointer: _Pointer) -> int:
    """Return a number of tokens, as it is written, for `checked`: one below 0 is a contradiction. RecordError for what is none."""
    return _count(value, name, (*pointer, name))


def _first(fields: dict[str, Any], pointer: _Pointer, names: tuple[str, ...]) -> tuple[str, int | None]:
    """Return the first of these counts that is said, and its name."""
    for name in names:
        value = fields.get(name)
        if value is not None and not isinstance(value, dict):
            return name, _count(value, name, (*pointer, name))
    return "", None


def _count(value: object, name: str, pointer: _Pointer) -> int:
    number = whole_number(value, least=-_MOST, most=_MOST)
    if number is None:
        raise RecordError(f"`{name}` must be a whole number of tokens, not {kind(value)}", pointer)
    return number


def without_reads(usage: dict[str, Any], *, same_prompt: bool = True) -> dict[str, Any]:
    """Return a `usage` object without what a cache read and stored, with the whole prompt and the answer as they were.

    Of a prompt that is not the same one its tokens are left out, too.
    """
    counted = usage_of(usage, ())
    of_cache = (*_READ, *_WRITTEN, *_WRITTEN_12H, *_BESIDE, *COSTS)
    left = {name: value for name, value in usage.items() if name not in of_cache}
    for name in _DETAILS:
        if isinstance(left.get(name), dict):
            dropped = (*_READ_IN_DETAILS, *_WRITTEN_IN_DETAILS, *_WRITTEN_12H, *_BESIDE)
            left[name] = {key: value for key, value in left[name].items() if key not in dropped}
    prompt_name, prompt = _first(usage, (), _PROMPT)
    if not same_prompt:
        return {name: value for name, value in left.items() if name not in (*_PROMPT, *_DETAILS, "total_tokens")}
    if counted is not None and prompt is not None and counted.prompt != prompt:
        left[prompt_name] = counted.prompt
    return left


def record_without_reads(value: Any, *, same_prompt: bool = True) -> Any:
    """Return a record of a log without reads and costs: of requests that were never sent none is known. Texts stay as they are."""
    if isinstance(value, list):
        return [record_without_reads(each, same_prompt=same_prompt) for each in value]
    if not isinstance(value, dict):
        return value
    left = {}
    for name, each in value.items():
        if name in _USAGES and isinstance(each, dict):
            left[name] = without_reads(each, same_prompt=same_prompt)
        elif name in _TEXTS:
            left[name] = each
        elif name not in (*COSTS, *(FLAT[:1] if same_prompt else FLAT)) or not _has_amounts(each):
            left[name] = record_without_reads(each, same_prompt=same_prompt)
    return left


def _has_amounts(value: Any) -> bool:
    """Return whether a value is a number or an object of numbers; a field of a schema is none."""
    found = [one for one in (value.values() if isinstance(value, dict) else [value]) if one is not None]
    return bool(found) and all(exact_number(one, in_text=True) is not None for one in found)
