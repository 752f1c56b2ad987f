"""The samples of log formats outside of the repository, each against what its folder expects of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.overview import overview_of

SHARED = Path(__file__).parents[4] / "shared" / "data" / "log-formats"
NAMES = sorted(path.parent.name for path in SHARED.glob("*/expected.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason="the samples stand outside of the repository")
_SHOWN = 40
_GENERIC = ("no prompt found in this record", "not JSON")
"""How a refusal begins that does not say what the file is."""
_EXACT = (
    *("id", "tools", "tenant", "session", "turn"),
    *("prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens"),
)


def differences(paths: list[str], expected: dict[str, Any]) -> list[str]:
    """What of a log is read otherwise than expected."""
    source = LogSource(paths)
    try:
        document = overview_of(source, rows=True, full=True).data()
    except KvtoolError as error:
        named = not error.message.startswith(_GENERIC)
        return [] if expected.get("refused") and named else [f"refused: {error.place}: {error.message} ({error.hint})"]
    if expected.get("refused"):
        return [f"read as {source.formats}"]
    rows, wanted = document["rows"], expected["rows"]
    if len(rows) != expected["requests"] or document["requests"] != len(rows):
        return [f"{len(rows)} requests of {expected['requests']}: {source.formats}"]
    wrong = []
    if document["sessions"] != expected.get("sessions", document["sessions"]):
        wrong.append(f"{document['sessions']} sessions of {expected['sessions']}")
    if document["left_out"] != expected.get("left_out", {}):
        wrong.append(f"left out {document['left_out']} for {expected.get('left_out', {})}")
    for at, (row, want) in enumerate(zip(rows, wanted, strict=True)):
        if "messages" in want:
            made = [[role, text[:_SHOWN]] for role, text in row.get("messages", [])]
            if made != want["messages"]:
                wrong.append(f"{at}: messages {made} for {want['messages']}")
        if "text" in want and row.get("text", "")[:_SHOWN] != want["text"]:
            wrong.append(f"{at}: text {row.get('text', '')[:_SHOWN]!r} for {want['text']!r}")
        wrong += [
            f"{at}: {name} {row.get(name)!r} for {want[name]!r}"
            for name in _EXACT
            if name in want and row.get(name) != want[name]
        ]
        if "time" in want and abs(row.get("time", 0) - want["time"]) > expected.get("time_tolerance_s", 0):
            wrong.append(f"{at}: time {row.get('time')} for {want['time']}")
    return wrong


def test_a_sample_is_read_as_expected() -> None:
    for name in NAMES:
        if name == "parquet-messages":
            pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
        folder = SHARED / name
        expected = json.loads((folder / "expected.json").read_text())
        files = [str(folder / each) for each in expected["files"]]
        logs = [[each] for each in files] if expected["files_are"] == "alternatives" else [files]
        wrong = [each for log in logs for each in differences(log, expected)]
        assert not wrong, "\n".join(wrong)
