"""Rules that vLLM 0.32 and 0.33 do not share, by workloads that vLLM 0.32's own scheduler ran."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from kvtool.engine import vllm_release
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.replay import Replay
from kvtool.engine.vllm_release import LATEST_RELEASE, RELEASES, find_release, release_of
from kvtool.results.choices import RulesAsked

CASES: dict[str, dict[str, Any]] = json.loads(
    gzip.decompress(Path(__file__).with_name("vllm_0_32_cases.json.gz").read_bytes())
)
"""By the rule that a workload needs: the workload, with all that the scheduler did, and in which of its loops."""


def agrees(rule: str, release: str) -> bool:
    case = CASES[rule]["case"]
    case["params"]["release"] = release
    return next(Replay(case, asynchronous=CASES[rule]["asynchronous"]).run().differences(), None) is None


@pytest.mark.parametrize("rule", CASES)
def test_a_workload_of_0_32_needs_each_of_its_rules(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agrees(rule, "0.32")
    assert not agrees(rule, "0.33")
    monkeypatch.setitem(vllm_release.RELEASES, "0.32", replace(RELEASES["0.32"], **{rule: True}))
    assert not agrees(rule, "0.32")


def test_all_rules_have_a_workload() -> None:
    differing = {
        name for name in VARIANTS if getattr(RELEASES["0.32"], name) != getattr(RELEASES[LATEST_RELEASE], name)
    }
    assert differing == set(CASES)


VARIANTS = tuple(name for name in RELEASES[LATEST_RELEASE].__slots__ if name != "name")


def test_the_command_line_knows_all_releases() -> None:
    assert {f"vllm@{name}" for name in RELEASES} == {name for name in get_args(RulesAsked) if "@" in name}


def test_releases_by_version() -> None:
    assert release_of("0.32.0") == "0.32"
    assert release_of("0.33.1rc1") == "0.33"
    assert release_of("0.31.2") is None
    assert release_of("") is None
    assert find_release(EngineConfig().release).name == LATEST_RELEASE
    with pytest.raises(EngineError, match=re.escape("the rules of vLLM 0.9 are unknown")):
        EngineConfig(release="0.9")
