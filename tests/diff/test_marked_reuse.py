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
    if marked:  # the text before the clock ends no block, so it is not read
        assert found["reusable"]["tokens"] == 0
        assert len(RULES) < change["reusable"]["tokens"] < len(RULES) + 100
        assert change["gained_blocks"] == change["reusable"]["tokens"]
    else:
        assert found["reusable"]["tokens"] == found["common_tokens"]
