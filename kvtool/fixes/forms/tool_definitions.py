"""Tools defined as they were first: what a trial tries where a value varies in a definition (tier P3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtool.diagnose.compare.tools import tool_name
from kvtool.workload.turn import Turn

TOOLS_PART = "tools"
"""The part of a slot that stands in the definition of a tool."""
_MOST_TOOLS = 10_000


class FirstDefinitions:
    """Gives each tool the definition that the first request of its group had of it; remembers these."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Any] = {}

    def __call__(self, turn: Turn) -> Turn:
        if not isinstance(turn.tools, list) or not turn.tools:
            return turn
        steady = [self._of(turn.group, tool) for tool in turn.tools]
        same = all(mine is first or mine == first for mine, first in zip(turn.tools, steady, strict=True))
        return turn if same else replace(turn, tools=steady)

    def _of(self, group: str, tool: Any) -> Any:
        name = tool_name(tool)
        if not name or ((group, name) not in self._first and len(self._first) >= _MOST_TOOLS):
            return tool
        return self._first.setdefault((group, name), tool)
