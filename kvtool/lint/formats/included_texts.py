"""Texts of other files that a template includes or extends: constant text of its prompt that is in another file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from kvtool.errors import KvtoolError
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat
from kvtool.text.files.text_files import read_text

_INCLUDE = re.compile(r"\{%[-+]?\s{0,40}include\s{1,40}([\"'])([^\"'\n]{1,200})\1[^%{}]{0,80}%\}")
_EXTENDS = re.compile(r"\{%[-+]?\s{0,40}extends\s{1,40}([\"'])([^\"'\n]{1,200})\1\s{0,40}[-+]?%\}")
_FOLDERS = 4
"""Folders from that of a template upwards in which a loader may look for the files that it names."""
_MOST_FILES = 64
_MOST_BYTES = 256 * 1024

IncludedTexts = tuple[tuple[str, str], ...]
"""The names by which a template includes or extends files, each with the text of the file and of those that it includes."""


def included_texts(path: str, text: str) -> IncludedTexts:
    """Return the files that a template includes or extends by a constant name, as far as they can be read."""
    known: dict[str, str | None] = {}

    def whole(name: str) -> str:
        if name not in known:
            known[name] = ""  # for a file that includes itself
            inner = _read(path, name) if len(known) <= _MOST_FILES else None
            if inner is not None:
                longer = _INCLUDE.sub(lambda found: whole(found[2]), inner)
                inner = longer if len(longer) <= _MOST_BYTES else inner
            known[name] = inner
        return known[name] or ""

    names = {found[2] for found in _INCLUDE.finditer(text)}
    base = _EXTENDS.search(text)
    while base is not None and base[2] not in names:
        names.add(base[2])
        base = _EXTENDS.search(whole(base[2]))
    return tuple((name, inner) for name in sorted(names) if (inner := whole(name)))


def _read(path: str, name: str) -> str | None:
    """Return the text of the file that a template in `path` names, seen from its folder or from one above it."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
        return None
    folder = Path(path).absolute().parent
    for root in [folder, *folder.parents][:_FOLDERS]:
        file = root / name
        try:
            is_inside = os.path.realpath(file).startswith(os.path.realpath(root) + os.sep)
            if is_inside and file.is_file():
                return read_text(file, shown=name, limit=_MOST_BYTES)
        except (KvtoolError, OSError, ValueError):
            return None
    return None


def constant_nodes(nodes: Iterable[Node], path: str = "") -> Iterator[Node]:
    """Yield nodes without what varies in files with this beginning of their paths: that is found where its own file is read."""
    for node in nodes:
        if isinstance(node, Choice):
            yield Choice(tuple(tuple(constant_nodes(branch, path)) for branch in node.branches))
        elif isinstance(node, Repeat):
            yield replace(node, body=tuple(constant_nodes(node.body, path)))
        elif not isinstance(node, Hole) or not node.spot.path.startswith(path):
            yield node
