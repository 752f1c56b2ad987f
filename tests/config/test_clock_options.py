"""Objectives as people write them."""

from __future__ import annotations

from math import inf

import pytest

from kvtool.config.option import check_values
from kvtool.config.options.clock_options import Clocking
from kvtool.engine.fleet.fleet_figures import DEFAULT_SHARE, Slo
from kvtool.errors import KvtoolError


def test_objectives() -> None:
    for text, slo in [
        ("ttft=2s,tpot=50ms", Slo(2.0, 0.05)),
        ("TPOT = 30ms", Slo(inf, 0.03)),
        ("ttft=1m30s, share=99%", Slo(90.0, inf, 0.99)),
        ("ttft=2,share=0.5", Slo(2.0, inf, 0.5)),
    ]:
        clocking = Clocking(slo=text)
        check_values(clocking)
        assert clocking.objectives() == slo


def test_none() -> None:
    assert Clocking().objectives() is None
    assert Slo().share == DEFAULT_SHARE == 0.9


def test_no_objectives() -> None:
    for text, message in [
        ("", "'' is no objective"),
        ("e2e=2s", "'e2e' is no objective"),
        ("ttft", "ttft: a duration is missing"),
        ("ttft=two", "ttft: `two` is not a duration"),
        ("ttft=0s", "ttft is above 0, not 0s"),
        ("ttft=2s,ttft=3s", "says ttft twice"),
        ("ttft=2s,share=0", "share is above 0, not 0"),
        ("ttft=2s,share=101%", "share: a ratio is at most 100%"),
        ("share=90%", "neither ttft nor tpot"),
        ("ttft=-1s", "is not a duration"),
        ("\x1b[31m=2s", r"'\\x1b\[31m' is no objective"),
    ]:
        with pytest.raises(KvtoolError, match=message) as caught:
            check_values(Clocking(slo=text))
        assert caught.value.message.startswith("--slo")
        assert caught.value.hint


def test_no_speedup() -> None:
    for speedup in [0.0, -1.0, inf, float("nan")]:
        with pytest.raises(KvtoolError, match="--speedup is a number above 0"):
            check_values(Clocking(speedup=speedup))
