"""Keep the order in which the tools of a session were first seen: new ones go to the end of the list (tier P3)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.diagnose.compare.tools import tool_name
from kvtool.workload.turn import Turn

_MOST_SESSIONS = 10_000
_MOST_TOOLS = 10_000


class FirstSeenTools:
    """Puts the tools of each turn in the order of their first appearance in the session; remembers their names."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str | None], dict[str, int]] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        if not isinstance(turn.tools, list) or not turn.tools:
            return turn
        key = (turn.group, turn.session)
        places = self._seen.setdefault(key, {})
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_SESSIONS:
            self._seen.popitem(last=False)
        names = [tool_name(tool) or canonical(tool).decode(errors="replace") for tool in turn.tools]
        for name in names:
            if len(places) < _MOST_TOOLS:
                places.setdefault(name, len(places))
        order = sorted(range(len(names)), key=lambda index: places.get(names[index], len(places)))
        return turn if order == sorted(order) else replace(turn, tools=[turn.tools[index] for index in order])
