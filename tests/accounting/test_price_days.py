"""`kvtool prices --on DAY`: a row without a first day does not prove that the model existed then."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from kvtool.accounting.prices.price_table import price_table
from kvtool.cli.app import run


def test_a_row_without_a_first_day_is_no_proof_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(8)
    day = date(2026, 11, 1) - timedelta(days=rng.randrange(900))
    for row in rng.sample([row for row in price_table().rows if row.applies_on(day)], 12):
        name = min(row.models, key=len)
        if "*" in name:
            continue
        assert run(["prices", name, "--on", str(day), "--width", "120"]) == 0
        found = [each for each in price_table().find(name) if each.applies_on(day)]
        unknown = any(each.since is None for each in found)
        assert (f"did not exist on {day}" in capsys.readouterr().out) is unknown
