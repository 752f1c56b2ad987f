"""Random workloads, scheduled by vLLM's own scheduler and ours: where $VLLM_SCHEDULER is a command that runs a Python with vLLM."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.replay import Replay
from kvtool.engine.vllm_release import LATEST_RELEASE
from tests.engine.groups.random_workloads import Case, random_case

pytestmark = pytest.mark.vllm
COUNT = int(os.environ.get("VLLM_SCHEDULER_RUNS", "200"))
"""Of random workloads."""
RELEASE = os.environ.get("VLLM_SCHEDULER_RELEASE", LATEST_RELEASE)
"""Of the vLLM that runs them."""
SEED = int(os.environ.get("VLLM_SCHEDULER_SEED", "18"))


class CheckedReplay(Replay):
    """Checks the books after each step."""

    def _engine_step(self) -> None:
        super()._engine_step()
        self.scheduler.check()


def difference(case: Case, *, asynchronous: bool) -> str | None:
    """The first difference from what vLLM did."""
    return next(CheckedReplay(case, asynchronous=asynchronous).run().differences(), None)


def recorded_by_vllm(cases: list[Case]) -> list[dict[str, Any]]:
    """What vLLM did with each case, or its error."""
    done = subprocess.run(
        [*shlex.split(os.environ["VLLM_SCHEDULER"]), str(Path(__file__).with_name("vllm_scheduler.py"))],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(not os.environ.get("VLLM_SCHEDULER"), reason="a vLLM with a scheduler is needed: $VLLM_SCHEDULER")
def test_random_workloads_go_as_with_vllm() -> None:
    chance = random.Random(SEED)
    cases = [random_case(chance) for _ in range(COUNT)]
    agree = refused = 0
    for number, (case, answer) in enumerate(zip(cases, recorded_by_vllm(cases), strict=True)):
        if "error" in answer:
            refused += 1
            continue
        case["params"]["release"] = RELEASE
        for asynchronous in (False, True)[: len(answer)]:
            try:
                wrong = difference({**case, **answer}, asynchronous=asynchronous)
            except EngineError as error:  # one alone may be cut to less, and fit, only when others come
                wrong = error.message if not case["params"]["long_prefill_token_threshold"] else None
            assert wrong is None, (number, asynchronous, wrong)
        agree += 1
    print(f"{agree} workloads agree, {refused} on which vLLM fails")
    assert agree > COUNT / 2
