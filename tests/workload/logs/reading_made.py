"""What is read of small logs that tests make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.logs.overview import Row, row_of


class Read:
    """A source that was read to its end."""

    def __init__(self, *paths: Path) -> None:
        self.source = LogSource([str(path) for path in paths])
        self.rows: list[Row] = []
        for conversation in self.source.conversations():
            while (turn := conversation.next_turn(None)) is not None:
                self.rows.append(row_of(turn, self.source.epoch) | {"said": turn.output_text, "call": turn.call})

    @property
    def left_out(self) -> dict[str, int]:
        """What is no request, by kind."""
        return dict(self.source.left_out.counts.items())

    def of(self, name: str) -> list[Any]:
        """One field of each row."""
        return [row.get(name) for row in self.rows]


def lines(path: Path, *values: Any) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))
    return path


def refusal(*paths: Path) -> KvtoolError:
    """The error with which a log is refused."""
    with pytest.raises(KvtoolError) as raised:
        Read(*paths)
    return raised.value
