"""YAML as a tree whose every node knows where it is.

The tree is composed from PyYAML's events, with the scalars of the YAML 1.2 core schema (`12:30:45`, `no`, `on` and `1_000` are
text), duplicate keys, tags and several documents refused, and bounds on depth and on what aliases expand to. A scalar keeps its
text as it was written: what `1.10` means is decided by whoever wants a number or a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path as FilePath

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.text_files import Overlay, read_text
from kvtool.text.files.yaml_nodes import Mapping, Sequence, YamlNode, control_character, place_at, place_of

Path = tuple[str | int, ...]

MAX_BYTES = 16 * 1024 * 1024
_BREAK = re.compile(r"\r\n|\n|\r")


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


def _line_start(source: str, number: int) -> int:
    breaks = islice(_BREAK.finditer(source), number - 1)
    return max((found.end() for found in breaks), default=0)


def load_yaml(path: str, overlay: Overlay | None = None) -> YamlDocument:
    """Read and compose a YAML file; KvtoolError with a place for anything that is not one well-formed mapping."""
    return parse_yaml(read_text(FilePath(path), shown=path, place=Place(path), limit=MAX_BYTES, overlay=overlay), path)


@lru_cache(maxsize=8)
def parse_yaml(source: str, path: str) -> YamlDocument:
    """Compose the YAML text `source`; `path` is what places name. The last texts are kept: edits read a workload many times."""
    from kvtool.text.files.yaml_composer import Composer  # with all of PyYAML, which most commands need not

    control_character(source, path)
    composer = Composer(source, path)
    root = composer.compose()
    if not isinstance(root, Mapping):
        what = "a list" if isinstance(root, Sequence) else "a single value"
        raise KvtoolError(
            f"a workload must be a mapping, not {what}",
            hint="begin with `version: 1` and `groups:`",
            place=place_of(root, path, source),
        )
    return YamlDocument(path, source, root, composer.problems)


def parse_yaml_data(source: str, path: str) -> YamlNode:
    """Compose YAML that is no workload: any value, tags passed over; of several documents a sequence of them."""
    control_character(source, path)
    from kvtool.text.files.yaml_composer import compose_data

    return compose_data(source, path)
