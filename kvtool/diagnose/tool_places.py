"""The places of tools in a rendered prompt, as paths in the body of the request: `tools[1] Bash.description`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from json import JSONDecoder
from typing import Any

from kvtool.diagnose.compare.tools import tool_name

TOOLS = "tools"
_NAME = re.compile(r"[A-Za-z_$][\w.:/$-]{0,63}", re.ASCII)
"""A name as APIs allow it; anything else in its place may be text of a prompt."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]+')
_DECODER = JSONDecoder(strict=False)
_MOST_TRIED = 64
"""Braces between two tools at which a tool may begin."""


def in_tools(part: str) -> bool:
    """Return whether a part of a request is its tools, or a place in them."""
    return part == TOOLS or part.startswith(f"{TOOLS}[")


def named_tool(number: int, tool: Any) -> str:
    """Return `tools[1] Bash`; without the name where it may be text."""
    name = tool_name(tool)
    return f"{TOOLS}[{number}] {name}" if _NAME.fullmatch(name) else f"{TOOLS}[{number}]"


def tool_place(tools: Sequence[Any] | None, text: str, at: int) -> str | None:
    """Return the tool and the field that character `at` of a prompt belongs to; None where no tool is there.

    The prompt has each tool as JSON, in their order.
    """
    searched = 0
    for number, tool in enumerate(tools or ()):
        found = _written(text, searched, tool_name(tool))
        if found is None or found[0] > at:
            return None
        begin, searched = found
        if at < searched:
            return named_tool(number, tool) + _field_at(text, begin, at)
    return None


def _written(text: str, start: int, name: str) -> tuple[int, int] | None:
    """Return where a tool of this name is written, from `start` on."""
    for _ in range(_MOST_TRIED):
        start = text.find("{", start)
        if start < 0:
            return None
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        if tool_name(value) == name:
            return start, end
        start += 1
    return None


def _field_at(text: str, begin: int, at: int) -> str:
    """Return the way to a character from the object at `begin`, as `.parameters.properties.path`."""
    way: list[str | int] = []
    last = ""
    for match in _TOKEN.finditer(text, begin):
        piece = match[0]
        if match.start() > at:
            break
        if piece in "{[":
            way.append("" if piece == "{" else 0)
        elif piece in "}]":
            way.pop()
        elif piece == "," and isinstance(way[-1], int):
            way[-1] += 1
        elif piece == ",":
            way[-1] = ""
        elif piece == ":" and not isinstance(way[-1], int):
            way[-1] = last[1:-1]
        last = piece
    return "".join(_shown(way))


def _shown(way: Sequence[str | int]) -> Iterator[str]:
    for depth, step in enumerate(way):
        if step == "" or (step == "function" and (depth == 0 or isinstance(way[depth - 1], int))):
            continue
        if isinstance(step, int):
            yield f"[{step}]"
        else:
            yield f".{step}" if _NAME.fullmatch(step) else ".…"
