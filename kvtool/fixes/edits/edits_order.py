"""Lists and mappings of a YAML or JSON file put in another order: whole entries change places, with their comments."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvtool.fixes.edits.edits_template import NotEditableError
from kvtool.fixes.edits.edits_yaml import SourceEdit, line_end_of, properties_end
from kvtool.text.files.yaml_document import Path, YamlDocument
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode
from kvtool.text.files.yaml_nodes import Sequence as List

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}\[{:\"]++")
_COMMENT = re.compile(r"(?:^|[ \t])#", re.MULTILINE)
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry that changes places, `[start, stop)`: an item, or a key with its value; `inside` is the value."""

    key: str | None
    start: int
    stop: int
    inside: Tree


@dataclass(frozen=True, slots=True)
class Tree:
    """A value and where it stands; `entries` are those of a list or a mapping, None of anything else."""

    start: int
    stop: int
    entries: tuple[ListEntry, ...] | None = None


def reordered(source: str, tree: Tree, before: Any, after: Any) -> list[SourceEdit]:
    """Return the edits that bring the entries of `before`, which is at `tree`, into the order of `after`, at any depth.

    NotEditableError where more than the order differs.
    """
    if _dumped(before) == _dumped(after):
        return []
    order = same_entries(before, after)
    if order is None or tree.entries is None or len(tree.entries) != len(order):
        raise NotEditableError("it would change more than the order of tools or keys")
    found: list[SourceEdit] = []
    values_before, values_after = _values(before), _values(after)
    for place, origin in enumerate(order):
        slot, entry = tree.entries[place], tree.entries[origin]
        inner = reordered(source, entry.inside, values_before[origin], values_after[place])
        if place == origin:
            found += inner
        else:
            found.append(SourceEdit(slot.start, slot.stop, _with(source, entry.start, entry.stop, inner)))
    return found


def permuted(source: str, tree: Tree, order: Sequence[int]) -> list[SourceEdit]:
    """Return the edits that put entry `order[i]` in place `i`."""
    if tree.entries is None or len(tree.entries) != len(order):
        raise NotEditableError("the list is not written in the file itself")
    return [
        SourceEdit(slot.start, slot.stop, source[tree.entries[origin].start : tree.entries[origin].stop])
        for slot, origin in zip(tree.entries, order, strict=True)
        if tree.entries[origin] is not slot
    ]


def _with(source: str, start: int, stop: int, edits: Sequence[SourceEdit]) -> str:
    pieces: list[str] = []
    at = start
    for low, high, text in sorted(edits):
        pieces += [source[at:low], text]
        at = high
    return "".join([*pieces, source[at:stop]])


def same_entries(before: Any, after: Any) -> list[int] | None:
    """Return which entry of `before` comes to each place of `after`; None where they are not the same ones."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = {key: index for index, key in enumerate(before)}
        return [keys[key] for key in after] if keys.keys() == after.keys() else None
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
        return None
    places: dict[str, list[int]] = {}
    for index in range(len(before) - 1, -1, -1):
        places.setdefault(_canonical(before[index]), []).append(index)
    found = [places.get(_canonical(item)) for item in after]
    return [indices.pop() for indices in found if indices] if all(found) else None


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def _dumped(value: Any) -> str:
    return json.dumps(value)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def json_tree(source: str, at: int = 0, depth: int = 0) -> Tree:
    """Return the tree of the JSON value at or after `at`, in a text that is known to be JSON."""
    at = _skip(source, at)
    if depth > _DEEPEST:
        raise NotEditableError("the JSON is nested too deeply")
    if source[at] not in "{[":
        found = (_STRING if source[at] == '"' else _SCALAR).match(source, at)
        assert found is not None
        return Tree(at, found.end())
    entries: list[ListEntry] = []
    start, at = at, _skip(source, at + 1)
    while source[at] not in "]}":
        begin, key = at, None
        if source[start] == "{":
            name = _STRING.match(source, at)
            assert name is not None
            key = json.loads(name[0])
            at = _skip(source, name.end()) + 1
        inside = json_tree(source, at, depth + 1)
        entries.append(ListEntry(key, begin, inside.stop, inside))
        at = _skip(source, inside.stop)
        at = _skip(source, at + 1) if source[at] == "," else at
    return Tree(start, at + 1, tuple(entries))


def _skip(source: str, at: int) -> int:
    found = _SPACE.match(source, at)
    assert found is not None
    return found.end()


def yaml_tree(document: YamlDocument, node: YamlNode) -> Tree:
    """Return the tree of a YAML value. NotEditableError where its entries cannot change places: aliases, comments inside `[…]`."""
    source = document.source
    start = properties_end(source, node)
    if isinstance(node, Scalar):
        return Tree(start, node.end)
    assert isinstance(node, Mapping | List)
    items = list(node.values.values()) if isinstance(node, Mapping) else node.items
    keys = list(node.keys.values()) if isinstance(node, Mapping) else [None] * len(items)
    heads = [key or item for key, item in zip(keys, items, strict=True)]
    bounds = [
        node.start,
        *(place for pair in zip(heads, items, strict=True) for place in (pair[0].start, pair[1].end)),
        node.end,
    ]
    if bounds != sorted(bounds) or any(item.start < head.start for head, item in zip(heads, items, strict=True)):
        raise NotEditableError("a part of the list is an alias")
    if source[start] in "[{":
        ranges = [(head.start, item.end) for head, item in zip(heads, items, strict=True)]
        gaps = [
            source[stop : behind[0]] for (_, stop), behind in zip(ranges, [*ranges[1:], (node.end, 0)], strict=True)
        ]
        if any(_COMMENT.search(gap) for gap in gaps):
            raise NotEditableError("comments between the entries of the list would not move with them")
    else:
        ranges = _block_ranges(source, node, heads)
    return Tree(
        start,
        node.end,
        tuple(
            ListEntry(key.value if key else None, low, high, yaml_tree(document, item))
            for key, item, (low, high) in zip(keys, items, ranges, strict=True)
        ),
    )


def _block_ranges(source: str, node: Mapping | List, heads: Sequence[YamlNode]) -> list[tuple[int, int]]:
    """Return each entry from the comments above it to the end of its last line; all begin in the same column."""
    column = node.column - 1
    dash = isinstance(node, List)
    begins = [_dash(source, head.start) if dash else head.start for head in heads]
    line_starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", source))]
    for number, begin in enumerate(begins):
        line = line_starts[bisect_right(line_starts, begin) - 1]
        if begin - line != column or (number and source[line:begin].strip(" ")):
            raise NotEditableError("the list does not have one entry per line")
    tops = [begins[0]] + [_above(source, begin, column, line_starts) for begin in begins[1:]]
    stops = [_end(source, low, high, column) for low, high in zip(begins, [*tops[1:], node.end], strict=True)]
    first = _above(source, begins[0], column, line_starts) if dash else begins[0]
    return list(zip([first, *tops[1:]], stops, strict=True))


def _dash(source: str, at: int) -> int:
    """Return the dash before an item, with nothing but white space and comments between."""
    dash = source.rfind("-", 0, at)
    while dash >= 0:
        line = source.rfind("\n", 0, dash) + 1
        if not source[line:dash].strip(" -") and source[dash + 1 : dash + 2] in (" ", "\n", "\r", "\t"):
            return dash
        dash = source.rfind("-", 0, dash)
    raise NotEditableError("the list does not have one entry per line")


def _above(source: str, begin: int, column: int, line_starts: Sequence[int]) -> int:
    """Return the begin of the comments right above an entry, in its column; the entry's own begin where there are none."""
    index = bisect_right(line_starts, begin) - 1
    if source[line_starts[index] : begin].strip(" "):
        return begin
    while index and source.startswith("#", line_starts[index - 1] + column):
        if source[line_starts[index - 1] : line_starts[index - 1] + column].strip(" "):
            break
        index -= 1
        begin = line_starts[index] + column
    return begin


def _end(source: str, low: int, high: int, column: int) -> int:
    """Return the end of the last line of an entry; blank lines and comments that are not indented further are not of it."""
    text = source[low:high]
    while True:
        text = text.rstrip(" \r\n\t") if text.strip(" \r\n\t") else text
        line = max(text.rfind("\n"), text.rfind("\r")) + 1
        last = text[line:]
        if not line or not last.lstrip(" ").startswith("#") or len(last) - len(last.lstrip(" ")) > column:
            return low + len(text)
        text = text[:line]


def with_item(document: YamlDocument, path: Path, entry: str, after: int = -1) -> list[SourceEdit]:
    """Return the edits that put a new item, written in one line, into a list after another one."""
    source = document.source
    node = document.find(path)
    if not isinstance(node, List) or not node.items:
        raise NotEditableError("the list is not written in the file itself")
    tree = yaml_tree(document, node)
    assert tree.entries is not None
    stop = tree.entries[after].stop
    if source[tree.start] == "[":
        return [SourceEdit(stop, stop, f", {entry}")]
    return [SourceEdit(stop, stop, f"{line_end_of(source)}{' ' * (node.column - 1)}- {entry}")]


def without(document: YamlDocument, path: Path, index: int) -> list[SourceEdit]:
    """Return the edit that takes an item out of a list, with its line and the comments above it."""
    source = document.source
    node = document.find(path)
    tree = Tree(0, 0) if node is None else yaml_tree(document, node)
    if tree.entries is None or len(tree.entries) < 2:
        raise NotEditableError("the list would be empty")
    entry = tree.entries[index]
    if source[tree.start] == "[":
        if index:
            return [SourceEdit(tree.entries[index - 1].stop, entry.stop, "")]
        return [SourceEdit(entry.start, tree.entries[1].start, "")]
    if index:
        line = source.rfind("\n", 0, entry.start)
        end = source.find("\n", entry.stop)
        if end < 0:
            return [SourceEdit(line - (source[line - 1] == "\r"), entry.stop, "")]
        return [SourceEdit(line + 1, end + 1, "")]
    return [SourceEdit(entry.start, tree.entries[1].start, "")]
