"""Two lists of tools compared as sets: order, key order, and which are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

from kvtool.diagnose.codes.layout.kv201 import TOOL_REDEFINED
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.json_forms import canonical, ordered

Key = TypeVar("Key", bound=Hashable)
MAX_EXCERPT = 4096
_PART = RequestPart("tools")


def compare_tools(before: Sequence[Any] | None, after: Sequence[Any] | None) -> list[Change]:
    """Return how two lists of tools differ; the range of each change is all of the later list as compact JSON."""
    if before is after or ordered(before or []) == ordered(after or []):
        return []
    olds, news = list(before or []), list(after or [])
    keys_old, keys_new = [canonical(tool) for tool in olds], [canonical(tool) for tool in news]
    stop = len(ordered(news).decode(errors="replace")) if news else 0
    found: list[Change] = []
    count_old, count_new = Counter(keys_old), Counter(keys_new)
    if count_old != count_new:
        gone = [olds[at] for at in parted(keys_old, count_new)[1]]
        added = [news[at] for at in parted(keys_new, count_old)[1]]
        kind = TOOL_REDEFINED if _same_names(gone, added) else TOOLS_CHANGED
        found.append(Change(kind, _PART, 0, stop, _excerpt(gone), _excerpt(added)))
    both = count_old & count_new
    kept_old, kept_new = (parted(keys, both)[0] for keys in (keys_old, keys_new))
    if [keys_old[at] for at in kept_old] != [keys_new[at] for at in kept_new]:
        names_old, names_new = (
            _names(tools[at] for at in kept) for tools, kept in ((olds, kept_old), (news, kept_new))
        )
        found.append(Change(TOOLS_REORDERED, _PART, 0, stop, names_old, names_new, cosmetic=True))
    spelled = sorted(ordered(olds[at]) for at in kept_old), sorted(ordered(news[at]) for at in kept_new)
    if spelled[0] != spelled[1]:
        rest_old, rest_new = (Counter(spelled[0]) - Counter(spelled[1])), (Counter(spelled[1]) - Counter(spelled[0]))
        found.append(Change(JSON_KEYS, _PART, 0, stop, _joined(rest_old), _joined(rest_new), cosmetic=True))
    return found


def tool_name(tool: Any) -> str:
    """Return the name of a tool in any of the APIs' forms; empty where it has none."""
    if not isinstance(tool, dict):
        return ""
    inner = tool.get("function")
    name = (inner if isinstance(inner, dict) else tool).get("name")
    return str.__str__(name) if isinstance(name, str) else ""


def _same_names(gone: Sequence[Any], added: Sequence[Any]) -> bool:
    """Return whether tools were not added or taken away: each has its name on either side, and what is said of it is another
    text.
    """
    names = [tool_name(tool) for tool in gone]
    return all(names) and sorted(names) == sorted(map(tool_name, added))


def is_tool(value: Any) -> bool:
    """Return whether a JSON object describes a tool: it has a name and a description or a schema, where a call has arguments."""
    if not tool_name(value):
        return False
    inner = value.get("function")
    fields = inner if isinstance(inner, dict) else value
    schemas = [fields.get(name) for name in ("parameters", "input_schema")]
    is_schema = any(isinstance(schema, dict) and ("properties" in schema or "type" in schema) for schema in schemas)
    return is_schema or isinstance(fields.get("description"), str)


def _names(tools: Iterable[Any]) -> str:
    return ", ".join(tool_name(tool) or "?" for tool in tools)[:MAX_EXCERPT]


def _excerpt(tools: list[Any]) -> str:
    return "\n".join(ordered(tool).decode(errors="replace") for tool in tools)[:MAX_EXCERPT]


def _joined(pieces: Counter[bytes]) -> str:
    return b"\n".join(pieces.elements()).decode(errors="replace")[:MAX_EXCERPT]


def parted(keys: Sequence[Key], both: Counter[Key]) -> tuple[list[int], list[int]]:
    """Return the places of keys that are in `both`, each as often as there, and those of the others."""
    left = Counter(both)
    kept: list[int] = []
    others: list[int] = []
    for at, key in enumerate(keys):
        if left[key] > 0:
            left[key] -= 1
            kept.append(at)
        else:
            others.append(at)
    return kept, others
