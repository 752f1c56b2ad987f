# ruff: noqa: RUF001 - signs of other scripts are meant
"""Old outputs of tools that are replaced by a mark, turn after turn: told as that, at the messages, and not as ids of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.files import write

Command = Callable[..., tuple[int, str, str]]

MARKS = ["[removed: {} characters]", "[entfernt: {} Zeichen]", "（已省略 {} 个字符）", "…"]
SYSTEM = "You check pages.\n" + "\n".join(f"{n}. Look at part {n} of each page before you go on." for n in range(20))


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    return in_folder


def _page(n: int) -> str:
    rows = [
        f"<p>Part {m} of page {n}: the board meets in room {n * m * 7 % 90} and tells what it did.</p>"
        for m in range(18)
    ]
    return f"<html><title>Page {n}</title>{''.join(rows)}</html>"


def _turn(n: int, now: int, mark: str) -> list[dict[str, Any]]:
    page = _page(n)
    call = {"id": f"call_{n}", "type": "function", "function": {"name": "fetch", "arguments": f'{{"page": {n}}}'}}
    return [
        {"role": "user", "content": f"Go on with page {n}."},
        {"role": "assistant", "content": "I fetch it.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": page if now - n < 2 else mark.format(len(page))},
        {"role": "assistant", "content": f"Page {n}: headings are in order, two images have no text."},
    ]


@pytest.mark.parametrize("mark", MARKS)
def test_outputs_that_a_mark_replaces(kvtool: Command, mark: str) -> None:
    records = []
    for now in range(9):
        turns = [message for n in range(now + 1) for message in _turn(n, now, mark)]
        records.append({"messages": [{"role": "system", "content": SYSTEM}, *turns[:-1]]})
    write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "--rules", "vllm", "log.jsonl")
    found = [each for each in json.loads(out)["findings"] if each["code"] != "KV204"]
    assert [each["code"] for each in found] == ["KV143"]
    assert found[0]["logged"]["part"].endswith("(tool)")
    assert found[0]["fix"].startswith("cut old messages rarely, many at once")
