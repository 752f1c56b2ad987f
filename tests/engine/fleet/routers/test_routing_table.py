"""The routing table of the design: conversation trace, 4 replicas of 5,859 blocks, prefill alone, exact view, ties to the first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.routers.named_router import asked_router
from tests.conftest import NIGHTLY
from tests.engine.fleet.routers.made_replica import toy_run

TRACE = Path(__file__).resolve().parents[5] / "shared" / "data" / "mooncake" / "conversation_trace.jsonl"

ROWS = {
    # hit rate of tokens in %, computed max / mean, TTFT p50 and p99 in seconds
    "round-robin": (13.14, 1.016, 6.45, 32.2),
    "least-loaded": (13.16, 1.032, 3.79, 19.1),
    "longest-prefix": (13.87, 4.000, 4725, 8839),
    "sglang": (30.55, 1.100, 1.87, 14.3),
    "llm-d:ties=first": (29.47, 1.050, 1.87, 14.3),
    "vllm-stack-loadaware": (27.10, 1.053, 2.01, 13.9),
    "dynamo:ties=first:blocks=off": (23.64, 1.007, 2.09, 12.0),
    "least-ttft": (26.00, 1.012, 1.63, 10.0),
}


OF_CACHES = ("sglang", "llm-d:ties=first", "dynamo:ties=first:blocks=off")
"""Those of servers that look at prefixes: the other rows take as long and need the nightly run."""


@pytest.fixture(scope="module")
def requests() -> list[FleetRequest]:
    """By the rule of trace studies: all blocks may hit, a partial last one, too."""
    if not TRACE.is_file():
        pytest.skip("needs the conversation trace of Mooncake in ../shared")
    found = []
    for number, line in enumerate(TRACE.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        blocks = row["hash_ids"]
        found.append(
            FleetRequest(
                number, row["timestamp"] / 1000, blocks, len(blocks), row["input_length"], row["output_length"]
            )
        )
    return found


@pytest.mark.parametrize("name", ROWS if NIGHTLY else OF_CACHES)
def test_a_row_of_the_table(name: str, requests: list[FleetRequest]) -> None:
    settings = asked_router(name).settings
    assert settings is not None
    run = toy_run(settings.router(0), requests, num_blocks=5859, block_size=512)
    hit_rate, imbalance, p50, p99 = ROWS[name]
    assert round(100 * run.hit_rate, 2) == hit_rate
    assert round(run.imbalance, 3) == imbalance
    assert run.ttft_p50 == pytest.approx(p50, abs=0.005 if p50 < 100 else 0.5)
    assert run.ttft_p99 == pytest.approx(p99, abs=0.07 if p99 < 100 else 0.5)


def test_the_hash_of_the_second_block(requests: list[FleetRequest]) -> None:
    """Which replica a hash names is its own affair: 31.05 %, 1.061, 2.88 s and 21.8 s are those of another one."""
    settings = asked_router("first-block-hash:block=1").settings
    assert settings is not None
    run = toy_run(settings.router(0), requests, num_blocks=5859, block_size=512)
    assert 100 * run.hit_rate == pytest.approx(31.05, abs=0.5)
    assert run.imbalance == pytest.approx(1.061, abs=0.05)
    assert run.ttft_p50 == pytest.approx(2.88, abs=0.3)
    assert run.ttft_p99 == pytest.approx(21.8, rel=0.35)
