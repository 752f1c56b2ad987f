"""Cache marks that `kvtool optimize` writes into a log: they cost what the written log costs, and its provider takes them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.fixes.edits.body_limits import refusals
from tests.conftest import Command
from tests.profiler.optimize.hosted_logs import HostedLog

MARK = {"type": "ephemeral"}


def optimized(in_folder: Command, records: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `optimize`, and the records that it wrote."""
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, out, err = in_folder("optimize", "log.jsonl", "-o", "better.jsonl", "--json")
    assert code == 0, err
    return json.loads(out), [json.loads(line) for line in Path("better.jsonl").read_text().splitlines()]


def cost(in_folder: Command, path: str) -> Decimal:
    found = json.loads(in_folder("profile", path, "--no-advice", "--json")[1])
    return Decimal(found["money"]["predicted"])


@pytest.mark.parametrize("provider", ["anthropic", "openai-5.6"])
def test_a_log_gets_its_cheapest_marks(in_folder: Command, provider: str) -> None:
    log = HostedLog(provider, 3, (), {}, sessions=8, gap=60)
    found, records = optimized(in_folder, log.bodies())
    assert [mark["place"] for advice in found["marks"] for mark in advice["marks"]] == ["system[-1]"]
    edited = found["edited_log"]
    assert Decimal(edited["cost"]["after"]) == cost(in_folder, "better.jsonl") < cost(in_folder, "log.jsonl")
    for record in records:
        assert refusals(record.get("request", record)) == []


def test_five_marks_become_what_the_provider_takes(in_folder: Command) -> None:
    records = HostedLog("anthropic", 4, (), {}, sessions=6, gap=60).bodies()
    for record in records:
        body = record.get("request", record)
        system = body["system"]
        text = system if isinstance(system, str) else system[0]["text"]
        body["system"] = [{"type": "text", "text": f"{text} {part}", "cache_control": MARK} for part in range(5)]
        assert refusals(body) == ["5 marks (cache_control), 4 are allowed"]
    found, written = optimized(in_folder, records)
    assert found["marks"]
    for record in written:
        assert refusals(record.get("request", record)) == []
