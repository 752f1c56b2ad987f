"""Cache marks decide what one request reads of another, before and after a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

RULES = "\n".join(
    f"- Rule {n}: answer part {n} of a question in at most {n + 3} lines of plain text." for n in range(100)
)
MARK = {"cache_control": {"type": "ephemeral"}}


def body(number: int, *, marked: bool) -> dict[str, Any]:
    system = f"You help.\nThe time is 2026-11-20T09:{number:02}:00Z.\n{RULES}"
    block = {"type": "text", "text": system, **(MARK if marked else {})}
    ask = f"Question {number}: " + "it is long. " * 200
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "system": [block],
        "messages": [{"role": "user", "content": ask}],
    }


@pytest.mark.parametrize("marked", [True, False])
def test_a_move_lets_the_marked_text_be_read_and_no_more(in_folder: Command, marked: bool) -> None:
    for number in (1, 2):
        Path(f"{number}.json").write_text(json.dumps(body(number, marked=marked)))
    code, out, err = in_folder("diff-prompts", "1.json", "2.json", "--json")
    assert code in (0, 1), err
    found = json.loads(out)
    [change] = found["changes"]
    assert 0 < found["common_tokens"] < 100
    assert found["reusable"]["tokens"] == 0  # it is below the minimum, and ends no block
    if marked:
        assert len(RULES) < change["reusable"]["tokens"] < len(RULES) + 100
        assert change["gained_blocks"] == change["reusable"]["tokens"]


def test_records_of_an_own_server_have_its_blocks_and_its_report(in_folder: Command) -> None:
    lines = []
    for number, cached in enumerate((0, 480, 448, 512)):
        asked = [{"role": "system", "content": RULES}, {"role": "user", "content": f"Question {number}"}]
        usage = {
            "prompt_tokens": 800,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        lines.append({"request": {"model": "meta-llama/Llama-3.1-8B", "messages": asked}, "response": {"usage": usage}})
    Path("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, out, err = in_folder("diff-prompts", "log.jsonl:1", "log.jsonl:3", "--json")
    found = json.loads(out or err)
    assert (found["block_size"], found["reported"]) == (32, {"tokens": 448, "prompt_tokens": 800})
    _, out, _ = in_folder("diff-prompts", "log.jsonl:1", "log.jsonl:3", "--block-size", "16")
    assert "block 16" in out
    assert "448 of 800 prompt tokens read when log.jsonl:3 was sent" in out
