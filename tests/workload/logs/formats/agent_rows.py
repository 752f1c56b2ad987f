"""Logs of agents and of evaluations as rows, for the tests of their formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.overview import Row, row_of


def lines(path: Path, records: Sequence[object]) -> Path:
    """The records as JSON lines; a text stands there as it is."""
    written = [each if isinstance(each, str) else json.dumps(each) for each in records]
    path.write_text("".join(f"{each}\n" for each in written))
    return path


def rows(*paths: Path, **options: Any) -> tuple[list[Row], LogSource]:
    """What each request says, and the source with what it left out."""
    source = LogSource([str(path) for path in paths], LogOptions(**options))
    found = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.append(row_of(turn, source.epoch))
    return found, source


def said(row: Row) -> list[str]:
    """The texts of a prompt."""
    return [text for _, text in row["messages"]]


def refusal(*paths: Path, **options: Any) -> KvtoolError:
    """Why a log cannot be read."""
    try:
        rows(*paths, **options)
    except KvtoolError as error:
        return error
    raise AssertionError("it is read")
