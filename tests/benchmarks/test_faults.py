"""Faults of the benchmark (nightly with prompts of each run), and that all of them are of causes that exist."""

from __future__ import annotations

import random
from typing import get_args

import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

from benchmarks.faults import FAULTS, HEALTHY, blamed, named_first, verdict
from kvtool.results.documents.server_cause import CauseName
from tests.conftest import NIGHTLY


def test_there_are_as_many_faults_and_healthy_runs_as_promised() -> None:
    assert len(FAULTS) >= 24
    assert len(HEALTHY) >= 10
    assert {name for each in FAULTS for name in each.expected} <= set(get_args(CauseName))
    assert len({(each.name, each.has) for each in FAULTS}) == len(FAULTS)


def test_a_fault_is_named_first() -> None:
    for number in range(4):
        source = random.Random(None if NIGHTLY else number)
        each, seed = source.choice(FAULTS[number::4]), source.randrange(1 << 30)
        assert named_first(verdict(each, seed)) in each.expected, (each.name, each.has, seed)


def test_a_healthy_run_is_not_blamed() -> None:
    for number in range(2):
        source = random.Random(None if NIGHTLY else number)
        each, seed = source.choice(HEALTHY[number::2]), source.randrange(1 << 30)
        assert blamed(verdict(each, seed)) is None, (each.name, each.has, seed)
