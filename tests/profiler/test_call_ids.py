"""Ids of tool calls, which the chat template writes, where one request has more of them than another one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool import profile


def _turn(session: int, outputs: list[str]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You read tables."},
        {"role": "user", "content": f"Read table {session}."},
    ]
    for step, output in enumerate(outputs):
        function = {"name": "look_up", "arguments": json.dumps({"row": str(step)})}
        call = {"id": f"c{session}_{step}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    return {"session_id": f"s{session}", "messages": messages}


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_ids_that_only_the_longer_request_has_are_read_in_its_text(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def output() -> str:
        cells = [round(chance.random(), 3) for _ in range(14)] if seed else []
        row = {"row": chance.randrange(9999), "cells": cells, "kind": chance.choice(["well", "tap", "river"])}
        return json.dumps({name: value for name, value in row.items() if value})

    rows = [_turn(2, [output() for _ in range(3)]), _turn(3, [output()])]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert profile(log).totals.requests == len(rows)


def test_a_summary_in_front_of_the_history_is_told_in_its_message(tmp_path: Path) -> None:
    """What the chat template writes before a message is no place that somebody could change."""
    chance = random.Random(4)
    words = [f"word{at}" for at in range(200)]
    rows = []
    for session in range(3):
        said: list[dict[str, Any]] = []
        known = ""
        for _ in range(8):
            said.append({"role": "user", "content": " ".join(chance.choices(words, k=20))})
            if len(said) > 5:
                known, said = f"{known} The user asked about {chance.choice(words)}.", said[2:]
            head = [{"role": "system", "content": " ".join(words[:60])}]
            if known:
                head.append({"role": "system", "content": f"Summary so far:{known}"})
            rows.append({"session_id": f"s{session}", "messages": [*head, *said]})
            said.append({"role": "assistant", "content": " ".join(chance.choices(words, k=20))})
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    finding = next(each for each in profile(log).findings if each.code == "KV142")
    assert finding.path == str(log)
    assert finding.logged is not None
    assert finding.logged.line == 1
