"""The script of a stub: what it answers after each text of the user, and which tokens it reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError, Place
from kvtool.profiler.agents.stub_script import Reply
from kvtool.text.files.json_file import json_of
from kvtool.text.files.text_files import read_text

USUAL_CALLS = 2
LONG_CALLS = 20
"""Calls of tools in a long turn: more blocks than Anthropic looks back from a mark."""
_FORM = 'a list like [{"tool": "Read", "arguments": {"path": "README.md"}}, {"text": "Done."}]'


@dataclass(frozen=True, slots=True)
class StubScript:
    """`replies` are answers of the user's own; where these end, the stub calls a tool until there are `calls`, then answers with a
    text. It reports at least `fill` prompt tokens."""

    replies: tuple[Reply, ...] = ()
    calls: int = USUAL_CALLS
    fill: int = 0


def load_script(path: str) -> tuple[Reply, ...]:
    """Return the answers of a file. KvtoolError for one that cannot be read or has another form."""
    value = json_of(read_text(Path(path), shown=path), shown=path)
    if not isinstance(value, list) or not value:
        raise KvtoolError(f"{flag('script')}: the file is no list of answers", hint=_FORM, place=Place(path, 1, 1))
    return tuple(_reply(each, number, path) for number, each in enumerate(value, 1))


def _reply(value: Any, number: int, path: str) -> Reply:
    if isinstance(value, dict):
        text, tool, arguments = value.get("text"), value.get("tool"), value.get("arguments", {})
        if set(value) == {"text"} and isinstance(text, str):
            return Reply(text)
        if set(value) <= {"tool", "arguments"} and isinstance(tool, str) and tool and isinstance(arguments, dict):
            return Reply(tool=tool, arguments=arguments)
    raise KvtoolError(
        f"{flag('script')}: answer {number} is neither a text nor a call of a tool", hint=_FORM, place=Place(path, 1, 1)
    )
