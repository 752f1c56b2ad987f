"""`what-if` of agents' transcripts: what was reported, and both times to live by a replay of the gaps."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path

from tests.conftest import Command
from tests.profiler.sessions.made_transcripts import made_session, write_lines


def test_a_row_for_each_time_to_live_costs_what_the_profile_replays(in_folder: Command, tmp_path: Path) -> None:
    lines = made_session(random.Random(7), "s", "app", 12)
    for line in lines:
        if line["type"] == "assistant":
            line["message"]["model"] = "claude-opus-4-8"
    path = str(write_lines(tmp_path / "s.jsonl", lines))
    code, out, error = in_folder("what-if", path, "--json")
    assert code == 0, error
    table = json.loads(out)
    profiled = json.loads(in_folder("profile", path, "--json", "--no-advice")[1])
    today, *rows = table["rows"]
    ttl = profiled["misses"]["ttl"]
    assert Decimal(today["cost"]) == Decimal(ttl["paid"])
    found = {row["change"]: row for row in rows}
    assert Decimal(found["all breakpoints 5m"]["cost"]) == Decimal(ttl["five_minutes"]) == Decimal(ttl["paid"])
    assert Decimal(found["all breakpoints 1h"]["cost"]) == Decimal(ttl["one_hour"])
    usage = [line["message"]["usage"] for line in lines if line["type"] == "assistant"]
    gaps = [b["cache_creation_input_tokens"] for b in usage[1:] if not b["cache_read_input_tokens"]]
    assert today["hit_blocks"] == sum(each["cache_read_input_tokens"] for each in usage)
    assert today["hit_blocks"] < found["all breakpoints 1h"]["hit_blocks"] <= today["hit_blocks"] + sum(gaps)
    assert "Reported" in table["answer"][0]
