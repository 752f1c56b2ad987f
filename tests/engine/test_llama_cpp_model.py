"""What llama.cpp's rules take from a model, and the models that they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.model.configs.layer_shapes import attention
from kvtool.engine.rules.llama_cpp_model import llama_cpp_facts
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions


def test_a_model_of_full_attention_is_the_default() -> None:
    facts = llama_cpp_facts(find_served("llama-3.1-8b"), "bf16")
    assert facts == {"kv_layers": 32, "kv_bytes_per_token": 131_072, "ctx_size": 131_072}
    assert replace(LlamaCppOptions(), **facts) == LlamaCppOptions()


def test_a_window_and_latent_attention() -> None:
    for name, facts in [
        (
            "gpt-oss-20b",
            {
                "kv_layers": 12,
                "kv_bytes_per_token": 12 * 8 * (64 + 64) * 2,
                "sliding_window": 128,
                "window_layers": 12,
                "window_bytes_per_token": 12 * 8 * (64 + 64) * 2,
                "ctx_size": 131_072,
            },
        ),
        (
            "gemma-4-31b",
            {
                "kv_layers": 10,
                "kv_bytes_per_token": 10 * 4 * (512 + 512) * 2,
                "sliding_window": 1024,
                "window_layers": 50,
                "window_bytes_per_token": 50 * 16 * (256 + 256) * 2,
                "ctx_size": 262_144,
            },
        ),
        (
            "qwen3-next-80b-a3b",
            {
                "kv_layers": 12,
                "kv_bytes_per_token": 12 * 2 * (256 + 256) * 2,
                "state_layers": 36,
                "state_bytes": 36 * 4 * ((2 * 16 * 128 + 32 * 128) * 3 + 32 * 128 * 128),
                "ctx_size": 262_144,
            },
        ),
        ("deepseek-v3", {"kv_layers": 61, "kv_bytes_per_token": 61 * 576 * 2, "ctx_size": 163_840}),
    ]:
        assert llama_cpp_facts(find_served(name), "bf16") == facts
        LlamaCppOptions(**facts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llama-4-scout", "llama-4-scout has layers with chunked attention"),
    ],
)
def test_a_model_that_the_rules_leave_out_is_refused(name: str, message: str) -> None:
    with pytest.raises(EngineError, match=message) as caught:
        llama_cpp_facts(find_served(name), "bf16")
    assert caught.value.hint == "choose another model, or another engine's rules"


def test_windows_of_two_lengths_are_refused_and_one_of_all_layers_is_none() -> None:
    plain = find_served("llama-3.1-8b")
    two = replace(plain, layers=(attention(8, 128, window=64), attention(8, 128, window=1024)))
    with pytest.raises(EngineError, match=r"windows of 64, 1,024 tokens; llama\.cpp supports one"):
        llama_cpp_facts(two, "bf16")
    everywhere = replace(plain, layers=(attention(8, 128, window=64),) * 32)
    assert llama_cpp_facts(everywhere, "bf16") == llama_cpp_facts(plain, "bf16")
