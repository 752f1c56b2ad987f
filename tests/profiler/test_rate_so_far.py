"""What a long run tells before it is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.text.terminal.progress import Progress


def test_the_hit_rate_so_far_is_told(tmp_path: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    advance, tells = Progress.advance, Progress.tells
    found: list[Callable[[], str]] = []

    def advance_and_ask(self: Progress, count: int = 1) -> None:
        advance(self, count)
        told.extend(each() for each in found)

    def tells_and_keep(self: Progress, each: Callable[[], str]) -> None:
        tells(self, each)
        found.append(each)

    monkeypatch.setattr(Progress, "advance", advance_and_ask)
    monkeypatch.setattr(Progress, "tells", tells_and_keep)
    log = tmp_path / "log.jsonl"
    log.write_text((json.dumps({"prompt": "a" * 16 + "b"}) + "\n") * 4)
    assert run(["profile", str(log), "--dry-run", "--no-advice", "-t", bytes_json]) == 0
    assert told == ["0.0% hit", "47.1% hit", "62.7% hit", "70.6% hit"]
