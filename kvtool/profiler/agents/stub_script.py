"""Decide what a stub answers: a tool that reads, one that looks around, then a text. Each protocol is read into the same form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvtool.diagnose.word_lists import word_set

Protocol = Literal["messages", "chat", "responses", "gemini"]
Role = Literal["user", "assistant", "tool"]
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_MOST_DEPTH = 6
FILE = "README.md"
"""The file that tools read; the folder of each run has it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its tools with the schemas of their arguments, and who spoke, in order."""

    tools: Mapping[str, Mapping[str, Any]]
    roles: Sequence[Role]


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered: a text, or a call of a tool."""

    text: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None


def read_request(protocol: Protocol, body: Mapping[str, Any]) -> Asked:
    """Return what a body asks."""
    tools = dict(_tools(body.get("tools")))
    match protocol:
        case "messages" | "chat":
            roles = [_role_of_message(each) for each in _objects(body.get("messages"))]
        case "responses":
            items = body.get("input")
            roles = ["user"] if isinstance(items, str) else [_role_of_item(each) for each in _objects(items)]
        case "gemini":
            roles = [_role_of_content(each) for each in _objects(body.get("contents"))]
    return Asked(tools, roles)


def answer(asked: Asked, folder: str, final: str | None = None, *, calls: int = 2, own: Sequence[Reply] = ()) -> Reply:
    """Return the next line of the script: it depends only on what came after the last text of the user.

    `final` is the shell command that ends a session, for an agent that does not end with a text. `own` are answers that come first,
    those of tools only to a request that has the tool; `calls` is how many calls of tools come without them.
    """
    results = 0
    for role in reversed(asked.roles):
        if role == "user":
            break
        results += role == "tool"
    if results < len(own) and (own[results].tool is None or own[results].tool in asked.tools):
        return own[results]
    if results < calls and not own:
        first = _STEPS[results % len(_STEPS)]
        wanted = (first, *(each for each in _STEPS if each != first))
        name = next(
            (name for kind in wanted for name in asked.tools if _is_called(name, word_set(__file__, kind))), None
        )
        if name is not None:
            return Reply(tool=name, arguments=_object(asked.tools[name], folder, 0))
    if final is not None:
        for name, schema in asked.tools.items():
            arguments = _object(schema, folder, 0)
            if commands := arguments.keys() & word_set(__file__, "command"):
                return Reply(tool=name, arguments={**arguments, **dict.fromkeys(commands, final)})
    tool = next((name for name in asked.tools if name.lower() in word_set(__file__, "final")), None)
    if tool is not None:
        return Reply(tool=tool, arguments=_object(asked.tools[tool], folder, 0))
    return Reply(f"Done. This is answer {asked.roles.count('user')}.")  # some agents open a file that an answer names


_STEPS = ("read", "look")


def _is_called(name: str, words: frozenset[str]) -> bool:
    """Return whether a tool is called by one of these words: its whole name, or the first part of it."""
    parts = [part.lower() for part in _PART.findall(name)]
    return name.lower() in words or "_".join(parts) in words or (bool(parts) and parts[0] in words)


def _tools(tools: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in _objects(tools):
        if isinstance(declared := tool.get("functionDeclarations", tool.get("function_declarations")), list):
            yield from _tools(declared)
            continue
        inner = tool["function"] if isinstance(tool.get("function"), dict) else tool
        schema: Any = next(
            (inner[name] for name in ("parameters", "input_schema", "parametersJsonSchema") if inner.get(name)), {}
        )
        if isinstance(inner.get("name"), str) and tool.get("type") != "namespace":
            yield inner["name"], schema if isinstance(schema, dict) else {}


def _object(schema: Mapping[str, Any], folder: str, depth: int) -> dict[str, Any]:
    """Return arguments that satisfy a schema: what it requires, and paths and commands where it has them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or depth > _MOST_DEPTH:
        return {}
    required = schema.get("required")
    wanted = set(required) if isinstance(required, list) else set(properties)
    named = word_set(__file__, "path") | word_set(__file__, "command")
    return {
        name: _value(name, each, folder, depth)
        for name, each in properties.items()
        if isinstance(each, dict) and (name in wanted or name.lower() in named)
    }


def _value(name: str, schema: Mapping[str, Any], folder: str, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "string")
    if isinstance(kind, str):
        kind = kind.lower()  # Gemini writes STRING
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return enum[0]
    if name.lower() in word_set(__file__, "command"):
        return ["ls"] if kind == "array" else "ls"
    if name.lower() in word_set(__file__, "path"):
        return f"{folder}/{FILE}"
    match kind:
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "array":
            items = schema.get("items")
            least = schema.get("minItems", 0)
            return [_value(name, items, folder, depth + 1)] if least and isinstance(items, dict) else []
        case "object":
            return _object(schema, folder, depth + 1)
    return "list files"


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _role_of_message(message: Mapping[str, Any]) -> Role:
    if message.get("role") in ("tool", "function"):
        return "tool"
    if message.get("role") != "user":
        return "assistant"
    return "tool" if any(part.get("type") == "tool_result" for part in _objects(message.get("content"))) else "user"


def _role_of_item(item: Mapping[str, Any]) -> Role:
    if str(item.get("type", "message")).endswith("_output"):
        return "tool"
    return "user" if item.get("role") == "user" else "assistant"


def _role_of_content(content: Mapping[str, Any]) -> Role:
    parts = _objects(content.get("parts"))
    if any("functionResponse" in part or "function_response" in part for part in parts):
        return "tool"
    return "assistant" if content.get("role") == "model" else "user"
