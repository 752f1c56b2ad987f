"""Real logs next door, counted by others: our engine and the block-lru rules must arrive at the same numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.choices import Rules
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer

SHARED = Path(__file__).resolve().parents[3] / "shared"
EXPECTED = SHARED / "oracle" / "traces-expected.json"
SHAREGPT = SHARED / "data" / "llmservingsim_sharegpt" / "sharegpt-llama-3.1-8b-300-sps10.jsonl"
MOONCAKE = SHARED / "data" / "mooncake" / "conversation_trace.jsonl"
LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))

pytestmark = pytest.mark.skipif(
    not (EXPECTED.exists() and SHAREGPT.exists() and MOONCAKE.exists()),
    reason="no recorded traces beside this checkout",
)
Run = Callable[..., RunResult]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def run(byte_renderer: Renderer) -> Run:
    def run(path: Path, rules: Rules = "vllm", block_size: int = 16, num_blocks: int | None = None) -> RunResult:
        plan = Plan(EngineConfig(block_size=block_size, num_blocks=num_blocks), LATENCY, rules=rules)
        maker = JobMaker(byte_renderer, seed=0)
        accountant = explained_run(RunSetup(plan, maker, Progress(None)), explain=False)
        return accountant.run(LogSource([str(path)], LogOptions()))

    return run


def test_sharegpt_token_ids_one_at_a_time(run: Run, expected: dict[str, Any]) -> None:
    assert expected["llmservingsim_sharegpt300"]["block16"]["hit_tokens_infinite"] == 19_520
    (group,) = run(SHAREGPT).ledger.totals()
    assert (group.requests, group.prompt_tokens, group.hit_tokens) == (300, 257_239, 19_520)
    assert group.reachable_tokens == group.hit_tokens


@pytest.mark.parametrize(("block_size", "recomputed"), [(1, 2), (64, 0)])
def test_sharegpt_in_other_blocks(run: Run, expected: dict[str, Any], block_size: int, recomputed: int) -> None:
    """In blocks of one token, two prompts were seen as a whole before: the engine computes the last token of each."""
    want = expected["llmservingsim_sharegpt300"][f"block{block_size}_hit_tokens"]
    assert run(SHAREGPT, "block-lru", block_size=block_size).ledger.fates()["hit"] == want
    fates = run(SHAREGPT, block_size=block_size).ledger.fates()
    assert fates["hit"] == want - recomputed
    assert fates.get("last_token", 0) == recomputed


def test_sharegpt_under_block_lru_at_every_capacity(run: Run, expected: dict[str, Any]) -> None:
    """The reference keeps prompts only, as full blocks, all of which may hit: the rules that we call block-lru."""
    want = {
        int(capacity): tokens
        for capacity, tokens in expected["llmservingsim_sharegpt300"]["block16"]["lru_hit_tokens"].items()
    }
    assert want[2588] == 7072
    hits = {capacity: run(SHAREGPT, "block-lru", num_blocks=capacity + 1).ledger.fates()["hit"] for capacity in want}
    assert hits == want
    unlimited = run(SHAREGPT, "block-lru")
    assert unlimited.ledger.fates()["hit"] == 19_520
    assert unlimited.counts.filled_blocks == expected["llmservingsim_sharegpt300"]["block16"]["unique_blocks"]


def test_mooncake_under_block_lru(run: Run, expected: dict[str, Any]) -> None:
    """Whole blocks of which the last is partial: the token hit rate counts it with the tokens that it has."""
    reference = expected["mooncake_conversation"]["infinite"]
    small = run(MOONCAKE, "block-lru", block_size=512, num_blocks=10_001)
    (group,) = small.ledger.totals()
    assert group.requests == expected["mooncake_conversation"]["requests"] == 12_031
    assert round(group.hit_rate, 6) == expected["mooncake_conversation"]["policies"]["LRU"]["10000"]["token_hit_rate"]
    assert small.counts.filled_blocks == 10_000
    assert round(group.reachable_rate, 6) == reference["token_hit_rate"]
