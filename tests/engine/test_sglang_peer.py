"""SGLang's own scheduler, admission and radix cache against its rules here, on random workloads: where $SGLANG_PYTHON names the
Python of an environment that has SGLang 0.5.23. $SGLANG_CASES says how many of each kind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kvtool.engine.recorded.replay_sglang import differences
from tests.engine.sglang_cases import Case, random_case
from tests.engine.sglang_queues import QUEUES

if not os.environ.get("SGLANG_PYTHON"):
    pytest.skip("an SGLang is needed: $SGLANG_PYTHON", allow_module_level=True)

COUNT = int(os.environ.get("SGLANG_CASES", "60"))
FIRST = int(os.environ.get("SGLANG_FIRST_SEED", "0"))


def served_by_sglang(cases: list[Case]) -> list[Case]:
    done = subprocess.run(
        [os.environ["SGLANG_PYTHON"], str(Path(__file__).parent / "sglang_peer.py")],
        input="".join(json.dumps(case) + "\n" for case in cases),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["sequential", "queue"])
def test_random_workloads_agree(mode: str) -> None:
    cases = [random_case(seed, mode) for seed in range(FIRST, FIRST + COUNT)]
    evicted = retracted = chunked = 0
    for case, expected in zip(cases, served_by_sglang(cases), strict=True):
        seed = case["seed"]
        assert "error" not in expected, f"seed {seed}: {expected['error']}"
        assert next(differences({**case, "expected": expected}), None) is None, f"seed {seed}"
        evicted += sum(expected["evicted_tokens"])
        retracted += expected["retracted"]
        chunked += "chunked_prefill_size" in case["engine"]
    print(
        f"{mode}: {COUNT} agree, {chunked} of them in chunks; {evicted:,} tokens evicted, {retracted:,} requests taken back"
    )
    assert evicted
    assert chunked
    assert retracted or mode == "sequential"


def test_queues_worked_out_by_hand_are_what_sglang_does() -> None:
    for (name, case), served in zip(QUEUES.items(), served_by_sglang(list(QUEUES.values())), strict=True):
        assert {key: served[key] for key in case["expected"]} == case["expected"], name
