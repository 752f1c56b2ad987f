"""Ignore comments in YAML files: behind or above a line, for the texts that begin there and the files it names."""

from __future__ import annotations

import os.path
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kvtool.lint.findings.ignore_comments import Ignore, IgnoredLines, between, parse_ignore
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.yaml_document import parse_yaml_data
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode
from kvtool.workload.yaml.named_files import FILE_KEYS, matching_files, nodes_of, values_of

_COMMENT = re.compile(r"(?:(?<=[ \t\n])|^)#[^\r\n]*kvtool:[^\r\n]*", re.MULTILINE)
_BREAK = re.compile(r"\r\n|\n|\r")


def yaml_ignores(path: str, text: str, *, allow_outside: bool) -> list[Ignore]:
    """The comments of a YAML file (and those of templates written in it); KvtoolError where it is no YAML."""
    places = _Places(path, text, RootFolder.of(path, allow_outside=allow_outside))
    lines = places.lines
    result: list[Ignore] = []
    for found in reversed(list(_COMMENT.finditer(text))):  # as `next_content` wants them
        if places.inside_text(found.start()):
            continue
        number = lines.number(found.start())
        ignore = parse_ignore(path, text, found.start(), found.end(), line=number, line_start=lines.start(number))
        if ignore is not None:
            result.append(places.covering(ignore, found.start()))
    for start, stop in places.spans:
        for at, end in between(text, "{#", "#}", start, stop):
            number = lines.number(at)
            ignore = parse_ignore(path, text, at, end, line=number, line_start=lines.start(number))
            if ignore is not None:
                first = lines.covered(at, end, frozenset())
                result.append(replace(ignore, first=first, last=first))
    return sorted(result, key=lambda one: (one.line, one.column))


class _Places:
    """What begins on which line of a YAML file."""

    def __init__(self, path: str, text: str, root: RootFolder) -> None:
        top = parse_yaml_data(text, path)
        self._text = text
        self._folder = Path(path).parent
        self._root = root
        self.lines = IgnoredLines(text)
        scalars = sorted(_scalars(top), key=lambda scalar: scalar.start)
        written = [(scalar.line, *_written(scalar, text)) for scalar in scalars]
        self.spans = [(start, stop) for _, start, stop in written if stop > start]
        self._starts = [start for start, _ in self.spans]
        self._last: dict[int, int] = {}
        for line, start, stop in written:
            self._last[line] = max(self._last.get(line, line), self.lines.number(max(stop - 1, start)))
        for line, stop in _flat_mappings(top, text):
            self._last[line] = max(self._last.get(line, line), self.lines.number(stop))
        self._files: dict[int, list[str]] = {}
        for scalar in values_of(top, FILE_KEYS):
            self._files.setdefault(scalar.line, []).append(scalar.value)
        self._groups = {scalar.line: scalar.value for scalar in _group_names(top)}

    def inside_text(self, offset: int) -> bool:
        """Whether a character belongs to a value: there a `#` begins no comment."""
        at = bisect_right(self._starts, offset)
        return at > 0 and offset < self.spans[at - 1][1]

    def covering(self, ignore: Ignore, start: int) -> Ignore:
        """The comment that begins at `start` with the lines, files and group that it is about."""
        first = ignore.line
        if not self._text[self.lines.start(first) : start].strip():
            first = self.lines.next_content(first + 1, lambda _, line: line.startswith("#"))
        names = self._files.get(first, ())
        files = [os.path.normpath(name) for value in names for name in matching_files(self._folder, value, self._root)]
        last = self._last.get(first, first)
        return replace(ignore, first=first, last=last, files=tuple(files), group=self._groups.get(first))


def _scalars(root: YamlNode) -> Iterator[Scalar]:
    return (node for node in nodes_of(root) if isinstance(node, Scalar))


def _flat_mappings(root: YamlNode, text: str) -> Iterator[tuple[int, int]]:
    """First line and last character of each mapping that holds nothing but values, such as a message or a segment."""
    for node in nodes_of(root):
        if isinstance(node, Mapping) and all(isinstance(value, Scalar) for value in node.values.values()):
            ends = [_written(value, text)[1] for value in node.values.values() if isinstance(value, Scalar)]
            yield node.line, max([node.start, *(end - 1 for end in ends)])


def _group_names(root: YamlNode) -> Iterator[Scalar]:
    groups = root.values.get("groups") if isinstance(root, Mapping) else None
    for group in groups.items if isinstance(groups, Sequence) else ():
        name = group.values.get("name") if isinstance(group, Mapping) else None
        if isinstance(name, Scalar):
            yield name


def _written(scalar: Scalar, text: str) -> tuple[int, int]:
    """Start and end in the source of a value's characters: of a block scalar the lines below its header."""
    start, stop = scalar.start, scalar.end
    if scalar.style in ("|", ">"):
        found = _BREAK.search(text, start)
        start = found.end() if found else stop
    written = text[start:stop].rstrip()
    return start, start + len(written)
