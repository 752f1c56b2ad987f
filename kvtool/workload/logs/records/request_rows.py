"""Requests of a log as rows: what each says, for people and programs that compare what was read with what was written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvtool.text.message import Message, role_of
from kvtool.workload.logs.records.record import text_of
from kvtool.workload.turn import Turn

Row = dict[str, Any]


class Pseudonyms:
    """Names of users and sessions as numbers, in the order in which they come: `tenant-1` is one user in all rows."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._count: Counter[str] = Counter()

    def of(self, kind: str, name: str | None) -> str | None:
        """What stands for a name; None for none."""
        if name is None:
            return None
        if (kind, name) not in self._numbers:
            self._count[kind] += 1
            self._numbers[kind, name] = self._count[kind]
        return f"{kind}-{self._numbers[kind, name]}"


def row_of(turn: Turn, epoch: float, pseudonyms: Pseudonyms | None = None) -> Row:
    """What a request says; what it does not say is left out. `epoch` is what its arrival counts from, in seconds since 1970.

    With `pseudonyms` there is no text of prompts in it, and no name of a user or a session.
    """
    full = pseudonyms is None

    def named(kind: str, name: str | None) -> str | None:
        return name if pseudonyms is None else pseudonyms.of(kind, name)

    row: Row = {} if _is_place(turn) else {"id": turn.id}
    if full and turn.messages is not None:
        row["messages"] = [[role_of(message), _said(message)] for message in turn.messages]
    elif full and turn.text is not None:
        row["text"] = str.__str__(turn.text)
    names = tool_names(turn.tools or ())
    call, usage = turn.call, turn.call.usage
    told = {
        "tools": names or None,
        "session": named("session", turn.session),
        "turn": None if turn.session is None else turn.index,
        "tenant": named("tenant", call.tenant),
        "time": None if turn.arrival is None else turn.arrival + epoch,
        "model": call.model,
        "prompt_tokens": usage and usage.prompt,
        "cached_tokens": usage and usage.cached,
        "cache_write_tokens": usage and usage.written,
        "output_tokens": turn.output_tokens if usage is None or usage.output is None else usage.output,
        "incomplete": call.incomplete,
    }
    return row | {name: value for name, value in told.items() if value is not None}


def _is_place(turn: Turn) -> bool:
    """Whether its id is only where it stands: the line, and which request of it."""
    path, line, _ = turn.written or ("", None, None)
    return not turn.id or re.fullmatch(rf"{line}(\.\d+)?(:\d+)?", turn.id.removeprefix(f"{path}:")) is not None


def tool_names(tools: Sequence[Any]) -> list[str]:
    """The names of tools, in whatever form they are written."""
    names = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        named = function if isinstance(function, dict) else tool
        if isinstance(named, dict) and isinstance(named.get("name"), str):
            names.append(str.__str__(named["name"]))
    return names


def _said(message: Message) -> str:
    """The text of a message, or what it calls."""
    return text_of({"content": message.get("content")}) or text_of(message)
