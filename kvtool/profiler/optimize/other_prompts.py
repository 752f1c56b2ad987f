"""Prompts that read an edited template and are in no group of the workload: an edit changes them, too."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvtool.text.files.root_folder import RootFolder
from kvtool.text.templates.application import find_included

_NAMED = re.compile(r"""\{%[-+]?\s*(?:include|import|extends|from)\s+["']([^"'\n]{1,300})["']""")
_MOST_FILES, _MOST_BYTES = 5_000, 1_000_000
_INSTALLED = ("node_modules", "site-packages")


def other_prompts(workload: str, edited: Sequence[str]) -> list[str]:
    """Return the templates that nothing includes, that read an edited file, and that the workload does not name; in order."""
    files = [path for path in edited if os.path.realpath(path) != os.path.realpath(workload)]
    readers: dict[str, set[str]] = defaultdict(set)
    root = RootFolder.of(workload)
    for suffix in sorted({Path(path).suffix for path in files}):
        for path in _templates(root.path or "", suffix):
            for name in _NAMED.findall(_text(path)):
                if (found := find_included(name, path, root)) is not None:
                    readers[os.path.realpath(found)].add(path)
    named = _text(workload)
    tops: dict[str, None] = {}
    waiting = [os.path.realpath(path) for path in files if os.path.realpath(path) in readers]
    seen = set(waiting)
    while waiting:
        for path in sorted(readers[waiting.pop()]):
            if path not in seen:
                seen.add(path)
                if path in readers:
                    waiting.append(path)
                elif Path(path).name not in named:
                    tops[os.path.relpath(path)] = None
    return sorted(tops)


def _templates(root: str, suffix: str) -> Iterator[str]:
    """Yield the files below a folder with this suffix, links followed to files only; the first 5,000."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _INSTALLED)
        for name in sorted(names):
            if name.endswith(suffix) and count < _MOST_FILES:
                count += 1
                yield os.path.realpath(Path(folder, name))


def _text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
