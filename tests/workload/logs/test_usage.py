"""What servers and clouds say of their tokens, each in its own words, comes out of one reader."""

from __future__ import annotations

from typing import Any

import pytest

from kvtool.workload.call import Usage
from kvtool.workload.logs.records.record import RecordError
from kvtool.workload.logs.records.usage import usage_in_answer, usage_of

_LLAMA_TIMINGS = {"cache_n": 81, "prompt_n": 1, "prompt_ms": 0.3, "predicted_n": 4}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(
            {"usage": {"prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}}},
            Usage(90, 64, output=3),
            id="chat and completions; TensorRT-LLM",
        ),
        pytest.param(
            {
                "usage": {
                    "prompt_tokens": 90,
                    "prompt_tokens_details": {"cached_tokens": 64, "created_cache_tokens": 16},
                }
            },
            Usage(90, 64, 16),
            id="vLLM with what it stored",
        ),
        pytest.param(
            {"usage": {"input_tokens": 90, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 64}}},
            Usage(90, 64, output=3),
            id="responses",
        ),
        pytest.param(
            {"usage": {"input_tokens": 26, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 4}},
            Usage(90, 60, 4),
            id="messages: input_tokens is the rest",
        ),
        pytest.param(
            {"text": "x", "meta_info": {"prompt_tokens": 90, "completion_tokens": 3, "cached_tokens": 64}},
            Usage(90, 64, output=3),
            id="SGLang's own",
        ),
        pytest.param(
            {"usage_metadata": {"prompt_token_count": 90, "candidates_token_count": 3, "thoughts_token_count": 7}},
            Usage(90, 0, output=10, reasoning=7),
            id="Gemini's Python client: thoughts are beside the answer, and a count of 0 is left out",
        ),
        pytest.param(
            {
                "usage": {"prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": None},
                "meta_info": {"cached_tokens": 64},
            },
            Usage(90, 64, output=3),
            id="SGLang with no details",
        ),
        pytest.param({"timings": _LLAMA_TIMINGS}, Usage(82, 81, output=4), id="llama.cpp's own"),
        pytest.param(
            {"usage": {"prompt_tokens": 82, "completion_tokens": 4}, "timings": _LLAMA_TIMINGS},
            Usage(82, 81, output=4),
            id="llama.cpp without details",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 82, "completion_tokens": 4}, "timings": {"prompt_n": 1, "predicted_n": 4}},
            Usage(82, output=4),
            id="an older llama.cpp says nothing of its cache",
        ),
        pytest.param(
            {"prompt_eval_count": 90, "prompt_eval_cached_count": 64, "eval_count": 3, "eval_duration": 5},
            Usage(90, 64, output=3),
            id="Ollama",
        ),
        pytest.param({"prompt_eval_count": 90, "eval_count": 3}, Usage(90, output=3), id="Ollama, older"),
        pytest.param(
            {"usageMetadata": {"promptTokenCount": 90, "cachedContentTokenCount": 64}}, Usage(90, 64), id="Gemini"
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 90, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 26}},
            Usage(90, 64),
            id="DeepSeek",
        ),
        pytest.param(
            {"usage": {"inputTokens": 26, "cacheReadInputTokens": 60, "cacheWriteInputTokens": 4}},
            Usage(90, 60, 4),
            id="Bedrock Converse",
        ),
        pytest.param({"choices": []}, None, id="nothing"),
        pytest.param({"usage": None, "timings": [], "meta_info": "x"}, None, id="no objects"),
    ],
)
def test_each_server_in_its_own_words(answer: dict[str, Any], said: Usage | None) -> None:
    assert usage_in_answer(answer, ("response",)) == said


def test_counts_that_contradict_each_other_are_unknown() -> None:
    for answer, wrong in [
        ({"prompt_eval_count": 5, "prompt_eval_cached_count": 6}, "6 tokens read and written of a prompt of 5"),
        (
            {"usage": {"prompt_tokens": 5}, "timings": {"cache_n": 6, "prompt_n": 0}},
            "6 tokens read and written of a prompt of 5",
        ),
        ({"timings": {"cache_n": -1, "prompt_n": 3}}, "a count of -1 tokens"),
    ]:
        assert usage_in_answer(answer, ("response",)) == Usage(wrong=wrong)


def test_counts_that_are_no_numbers() -> None:
    with pytest.raises(RecordError):
        usage_in_answer({"timings": {"cache_n": "many", "prompt_n": 3}}, ("response",))


def test_langchain_counts_writes_by_time_to_live_and_none_beside_them() -> None:
    details = {"cache_read": 16, "cache_creation": 0, "ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3}
    usage = usage_of({"input_tokens": 24, "output_tokens": 2, "input_token_details": details}, ())
    assert usage is not None
    assert (usage.prompt, usage.cached, usage.written, usage.written_5m, usage.written_1h) == (24, 16, 4, 1, 3)


@pytest.mark.parametrize("inside", [True, False])
def test_writes_for_12_hours_are_writes_beside_the_usual_ones(inside: bool) -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 10, "cache_write_12h_tokens": 20}
    flat = {"input_cached_tokens": 60, "input_cache_write_tokens": 10, "input_cache_write_12h_tokens": 20}
    usage = usage_of({"input_tokens": 100, **({"input_tokens_details": details} if inside else flat)}, ())
    assert usage is not None
    assert (usage.prompt, usage.cached, usage.written, usage.written_12h) == (100, 60, 30, 20)
