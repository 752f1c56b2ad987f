"""YAML as a tree whose every node knows where it stands.

The tree is composed from PyYAML's events, with the scalars of the YAML 1.2 core schema (`12:30:45`, `no`, `on` and `1_000` are
text), duplicate keys, tags and several documents refused, and bounds on depth and on what aliases expand to. A scalar keeps its
text as it was written: what `1.10` means is decided by whoever wants a number or a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path as FilePath
from typing import Literal

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.files.yaml_errors import control_character, place_at
from kvtool.text.traced import Traced

Path = tuple[str | int, ...]
Kind = Literal["str", "int", "float", "bool", "null"]

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 48
_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, eq=False)
class YamlNode:
    """`start` and `end` are offsets in the document's source, `size` counts nodes and `characters` text, aliases expanded."""

    start: int
    end: int
    line: int
    column: int
    size: int
    characters: int
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(YamlNode):
    value: str
    kind: Kind
    style: str
    """`|`, `>`, `'`, `"`, or empty for a plain one."""
    text: Traced
    """The value as text, each character with its place in the file."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(YamlNode):
    items: list[YamlNode]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(YamlNode):
    keys: dict[str, Scalar]
    values: dict[str, YamlNode]


@dataclass(slots=True)
class YamlDocument:
    """A YAML file: its source, its tree, and the mistakes that did not stop the reading (duplicate keys)."""

    path: str
    source: str
    root: Mapping
    problems: list[KvtoolError] = field(default_factory=list)

    def find(self, path: Path) -> YamlNode | None:
        """The node at `path`; None where there is none."""
        node: YamlNode | None = self.root
        for step in path:
            if isinstance(node, Mapping):
                node = node.values.get(str(step))
            elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            else:
                return None
        return node

    def line(self, number: int) -> str:
        """A line of the source, counted from 1, without its end."""
        return place_at(_line_start(self.source, number), self.path, self.source).excerpt or ""

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of the value at `path` (of its key, with `key`), or of the nearest thing around it."""
        for length in range(len(path), -1, -1):
            if key and length:
                parent = self.find(path[: length - 1])
                if isinstance(parent, Mapping) and str(path[length - 1]) in parent.keys:
                    return place_of(parent.keys[str(path[length - 1])], self.path, self.source)
            node = self.find(path[:length])
            if node is not None:
                if isinstance(node, Mapping | Sequence) and length and isinstance(path[length - 1], str):
                    return self.place(path[:length], key=True)
                return place_of(node, self.path, self.source)
        raise AssertionError("the root is always there")


def place_of(node: YamlNode, path: str, source: str) -> Place:
    """A node's first line: a scalar is underlined, of a collection only the first key or item."""
    line_end = _BREAK.search(source, node.start)
    line_stop = line_end.start() if line_end else len(source)
    line_start = node.start - (node.column - 1)
    stop = min(node.end, line_stop)
    if isinstance(node, Mapping) and node.keys:
        first = next(iter(node.keys.values()))
        stop = min(first.end, line_stop) if first.line == node.line else stop
    return Place(path, node.line, node.column, source[line_start:line_stop], max(1, stop - node.start))


def _line_start(source: str, number: int) -> int:
    breaks = islice(_BREAK.finditer(source), number - 1)
    return max((found.end() for found in breaks), default=0)


def load_yaml(path: str, overlay: Overlay | None = None) -> YamlDocument:
    """Read and compose a YAML file; KvtoolError with a place for anything that is not one well-formed mapping."""
    return parse_yaml(read_text(FilePath(path), shown=path, place=Place(path), limit=MAX_BYTES, overlay=overlay), path)


def parse_yaml(source: str, path: str) -> YamlDocument:
    """Compose the YAML text `source`; `path` is what places name."""
    from kvtool.text.files.yaml_composer import Composer  # with all of PyYAML, which most commands need not

    control_character(source, path)
    composer = Composer(source, path)
    root = composer.compose()
    if not isinstance(root, Mapping):
        what = "a list" if isinstance(root, Sequence) else "a single value"
        raise KvtoolError(
            f"a workload is a mapping, this is {what}",
            hint="it starts with `version: 1` and has `groups:`",
            place=place_of(root, path, source),
        )
    return YamlDocument(path, source, root, composer.problems)


def parse_yaml_data(source: str, path: str) -> YamlNode:
    """Compose YAML that is no workload: any value, tags passed over; of several documents a sequence of them."""
    control_character(source, path)
    from kvtool.text.files.yaml_composer import compose_data

    return compose_data(source, path)
