"""Tool calls in a logged request: the arguments that a fix wrote otherwise, in the form that the record has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.turn import Turn

_ARGUMENTS = ("arguments", "input", "args")
"""What APIs call the arguments of a tool call."""


class NotInRecordError(Exception):
    """A change of a turn cannot be made in the record that it was read from."""


def calls_of(turn: Turn) -> list[tuple[str, str]]:
    """Return the tool calls of a turn: the name and the arguments as JSON, their keys as they are written."""
    found = []
    for message in turn.messages or ():
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            inner = call.get("function") if isinstance(call, dict) else None
            holder = inner if isinstance(inner, dict) else call if isinstance(call, dict) else {}
            found.append((str(holder.get("name")), _dumped(holder.get("arguments"))))
    return found


def without_calls(message: Message) -> dict[str, Any]:
    """Return a message without its tool calls."""
    return {name: value for name, value in message.items() if name != "tool_calls"}


def change_calls(record: Any, before: Turn, after: Turn) -> None:
    """Write the arguments of tool calls that differ into a record's JSON value; raise NotInRecordError where one is not there."""
    old, new = calls_of(before), calls_of(after)
    if old == new:
        return
    if [name for name, _ in old] != [name for name, _ in new]:
        raise NotInRecordError("its tool calls are not one to one")
    holders = _holders(record)
    for (name, was), (_, now) in zip(old, new, strict=True):
        found = next((at for at in holders if at[0].get("name") == name and _dumped(at[0][at[1]]) == was), None)
        if found is None:
            raise NotInRecordError("a tool call is not in the record itself")
        holder, key = found
        holder[key] = now if isinstance(holder[key], str) else json.loads(now)


def _holders(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects of a JSON value that say how a tool was called, in order, with the key of the arguments."""
    if isinstance(value, dict):
        key = next((name for name in _ARGUMENTS if name in value), None)
        if key is not None and isinstance(value.get("name"), str):
            yield value, key
            return
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in items:
        yield from _holders(each)


def _dumped(arguments: Any) -> str:
    """Return arguments, which some APIs have as a text that contains JSON, as JSON with the keys in their order."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(str.__str__(arguments))
        except (ValueError, RecursionError):
            arguments = str.__str__(arguments)
    return json.dumps(arguments, default=repr)
