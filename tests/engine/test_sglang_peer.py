"""SGLang's own scheduler, admission and radix cache against its rules here, on random workloads: where $SGLANG_PYTHON names the
Python of an environment that has SGLang 0.5.23. $SGLANG_CASES says how many of each kind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.replay_sglang import differences
from tests.engine.sglang_cases import Case, random_case

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
    compared = evicted = 0
    for case, expected in zip(cases, served_by_sglang(cases), strict=True):
        seed = case["seed"]
        assert "error" not in expected, f"seed {seed}: {expected['error']}"
        if expected.pop("retracted"):
            with pytest.raises(EngineError, match="not modelled"):
                next(differences({**case, "expected": expected}), None)
            continue
        assert next(differences({**case, "expected": expected}), None) is None, f"seed {seed}"
        compared += 1
        evicted += sum(expected["evicted_tokens"])
    print(f"{mode}: {compared} of {COUNT} compared, {evicted:,} tokens evicted")
    assert compared > COUNT // 2
    assert evicted
