from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not (DATA / "tau_bench").is_dir(), reason="the recorded conversations are not here")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("injections")
    sys.path.remove(str(ROOT / "benchmarks"))


def test_single_changes_in_recorded_conversations(benchmark: ModuleType) -> None:
    sessions = list(benchmark.recorded(DATA))[::8]
    scores = benchmark.inject(sessions, benchmark.tool_sets(DATA), seed=7, each=6)
    assert len(scores) == 12
    for name, score in scores.items():
        assert score.cases == 6, name
        assert score.named >= 5, (name, score.wrong)
    assert sum(score.named for score in scores.values()) >= 70


def test_no_alarm_where_conversations_only_go_on(benchmark: ModuleType) -> None:
    result = benchmark.Result({})
    benchmark.as_recorded(list(benchmark.recorded(DATA))[::8], result)
    assert result.appended > 400
    assert result.alarms == 0, result.false[:3]
