"""Written tokens that a server reports as one sum belong to the time for which all marks of the request ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

SUM = {"input_tokens": 100, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5_000, "output_tokens": 10}


def paid(in_folder: Command, times: list[str | None], parts: tuple[int, int] | None) -> str:
    """What a request costs whose tool and text blocks have these times; `parts`: tokens written for 5 minutes and for 1 hour."""
    marks = [{"cache_control": {"type": "ephemeral"} | ({} if time is None else {"ttl": time})} for time in times]
    usage: dict[str, Any] = dict(SUM)
    if parts is not None:
        usage["cache_creation"] = dict(
            zip(("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"), parts, strict=True)
        )
    blocks = [{"type": "text", "text": f"rule {at} " * 900, **mark} for at, mark in enumerate(marks[1:])]
    tool = {"name": "find", "description": "finds", "input_schema": {"type": "object"}, **marks[0]}
    request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": [tool], "system": blocks}
    request["messages"] = [{"role": "user", "content": "and now?"}]
    answer = {"type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage, "content": []}
    Path("log.jsonl").write_text(json.dumps({"request": request, "response": answer}) + "\n")
    code, out, err = in_folder("profile", "log.jsonl", "--no-advice", "--json")
    assert code == 0, err
    return str(json.loads(out)["money"]["paid"])


def test_marks_say_for_how_long_a_sum_is_kept(in_folder: Command) -> None:
    hour, minutes = (paid(in_folder, ["1h", "1h"], parts) for parts in ((0, 5_000), (5_000, 0)))
    assert hour != minutes
    assert paid(in_folder, ["1h", "1h"], None) == hour
    for times in (["1h", None], ["1h", "5m"], ["5m", "5m"], [None, None]):
        assert paid(in_folder, times, None) == minutes


@pytest.mark.parametrize("parts", [(5_000, 0), (2_000, 3_000)])
def test_what_the_server_reports_is_right(in_folder: Command, parts: tuple[int, int]) -> None:
    assert paid(in_folder, ["1h", "1h"], parts) == paid(in_folder, [None, None], parts)
