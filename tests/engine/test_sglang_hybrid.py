"""SGLang's rules of models with windows or states: worked out by hand, and against SGLang's own code where $SGLANG_PYTHON names the
Python of an environment that has SGLang 0.5.23. $SGLANG_CASES says how many of each kind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang import SGLANG
from kvtool.engine.rules.sglang_hybrid import HybridCache
from kvtool.engine.rules.sglang_options import SglangOptions
from tests.engine.sglang_hybrid_cases import KINDS, random_hybrid_case


def served(engine: dict[str, Any], *requests: tuple[list[int], list[int]]) -> list[int]:
    names = {"window": "sliding_window", "chunk": "chunked_prefill_size"}
    cache = HybridCache(SglangOptions(**{names.get(name, name): value for name, value in engine.items()}))
    return [cache.serve(RuleRequest(np.array(a, np.int32), np.array(b, np.int32))).cached for a, b in requests]


HEAD = list(range(300))


def test_the_third_prompt_of_a_shared_head_is_the_first_to_hit_with_windows() -> None:
    forks = [(HEAD + [1000 + number] * 100, [7, 8]) for number in range(4)]
    assert served({"window": 64}, *forks) == [0, 0, 300, 300]


def test_a_head_within_a_window_of_the_end_hits_at_once() -> None:
    assert served({"window": 64}, (HEAD, [7, 8]), (HEAD + [9] * 5, [7])) == [0, 300]


def test_states_end_where_prompts_or_answers_ended() -> None:
    engine = {"mamba_radix_cache_strategy": "no_buffer"}
    answer = [7] * 10
    assert served(engine, (HEAD, answer), (HEAD, answer), (HEAD + answer + [9], [7])) == [0, 0, 309]


def test_states_on_a_grid_end_at_its_last_point() -> None:
    engine = {"mamba_radix_cache_strategy": "extra_buffer"}
    forks = [(HEAD[:200] + [1000 + number] * 100, [7]) for number in range(3)]
    assert served(engine, (HEAD, [7] * 10), (HEAD, [7]), *forks) == [0, 256, 0, 192, 192]


def test_a_limit_or_a_queue_is_refused() -> None:
    with pytest.raises(EngineError, match="pools without a limit"):
        SglangOptions(sliding_window=64, max_total_tokens=1000)
    assert SGLANG.queue is not None
    with pytest.raises(EngineError, match="one at a time"):
        SGLANG.queue(SglangOptions(sliding_window=64))


@pytest.mark.skipif(not os.environ.get("SGLANG_PYTHON"), reason="an SGLang is needed: $SGLANG_PYTHON")
@pytest.mark.parametrize("kind", KINDS)
def test_random_workloads_agree_with_sglang(kind: str) -> None:
    count, first = int(os.environ.get("SGLANG_CASES", "60")), int(os.environ.get("SGLANG_FIRST_SEED", "0"))
    cases = [random_hybrid_case(seed, kind) for seed in range(first, first + count)]
    done = subprocess.run(
        [os.environ["SGLANG_PYTHON"], str(Path(__file__).parent / "sglang_hybrid_peer.py")],
        input="".join(json.dumps(case) + "\n" for case in cases),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        hits = served(case["engine"], *((each["prompt"], each["output"]) for each in case["requests"]))
        assert json.loads(line) == {"cached_tokens": hits}, f"seed {case['seed']}"
