"""A setting that is part of the cache's key: the tokens are told as lost by it, and no mark is said to be missing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.conftest import Command, some
from tests.profiler.optimize.hosted_logs import HostedLog


@pytest.mark.parametrize("seed", some(range(5), 2))
def test_other_settings_are_no_missing_breakpoint(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    log = HostedLog("anthropic", seed, ("system", "last"), {}, sessions=r.randint(1, 3), turns=5, gap=r.randint(20, 60))
    records = log.bodies()
    for number, record in enumerate(records):
        budget = 2000 if number // log.sessions % 2 else 8000
        record["thinking"] = {"type": "enabled", "budget_tokens": budget}
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, out, err = in_folder("profile", "log.jsonl", "--json")
    assert code == 0, err
    report = json.loads(out)
    fates = report["total"]["fates"] if "total" in report else report["fates"]
    assert fates["setting_changed"] > 10 * fates.get("unmarked", 0)
    assert "KV203" not in {finding["code"] for finding in report["findings"] if finding["severity"] != "info"}
