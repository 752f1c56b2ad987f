"""Patterns of file names (`prompts/**/*.md`), walked within bounds: no link leads out, and no disk is searched."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.text.files.root_folder import RootFolder

MOST_LOOKED_AT = 100_000
"""Files and folders that one pattern may look at."""
_MOST_PARTS = 64
"""Of a pattern: more would be a search of its own."""
_MAGIC = re.compile(r"[*?[]")


def is_pattern(name: str) -> bool:
    """Return whether a name has characters that mean others."""
    return _MAGIC.search(name) is not None


def literal_start(pattern: str) -> str:
    """The folder that a pattern begins with, up to the first part that means others."""
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if is_pattern(part))
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")


def matching(pattern: str, folder: str | Path, root: RootFolder, *, most: int | None = None) -> list[str]:
    """Find the paths that match, sorted, relative to `folder`: as `glob.glob` does, with `**` for any folders.

    Folders that `root` does not hold are not entered. KvtoolError where there are more than `most` files and folders to look at,
    ValueError for what is no pattern of files.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.endswith("/") or len(parts) > _MOST_PARTS or "\0" in pattern:
        raise ValueError(pattern)
    walk = _Walk(pattern, str(folder), root, MOST_LOOKED_AT if most is None else most)
    return sorted(set(walk.below("/" if pattern.startswith("/") else "", parts)))


def is_folder_entry(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder, or a link to one; a link that leads nowhere, or to itself, is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


class _Walk:
    """One pattern's search; names count from its folder, those of folders end with a slash."""

    def __init__(self, pattern: str, folder: str, root: RootFolder, most: int) -> None:
        self._pattern = pattern
        self._folder = folder
        self._root = root
        self._most = most
        self._seen = 0

    def below(self, name: str, parts: Sequence[str]) -> Iterator[str]:
        """Find the paths that match `parts` in the folder `name`."""
        part, rest = parts[0], parts[1:]
        if part == "**":
            while rest and rest[0] == "**":
                rest = rest[1:]
            for folder in self._folders(name):
                yield from self.below(folder, rest or ["*"])
            return
        if not is_pattern(part):
            found = [f"{name}{part}"] if os.path.lexists(self._path(f"{name}{part}")) else []
        else:
            fits = re.compile(fnmatch.translate(part)).match
            hidden = part.startswith(".")
            entries = self._entries(name)
            found = [f"{name}{one.name}" for one in entries if fits(one.name) and (hidden or one.name[0] != ".")]
        if not rest:
            yield from found
            return
        for one in found:
            if os.path.isdir(self._path(one)):  # noqa: PTH112 - strings are enough, and there may be many
                yield from self.below(f"{one}/", rest)

    def _folders(self, name: str) -> Iterator[str]:
        """A folder and all below it that are not hidden; links are followed, but never round in a circle."""
        waiting: list[tuple[str, tuple[str, ...]]] = [(name, ())]
        while waiting:
            folder, came_by = waiting.pop()
            yield folder
            for one in self._entries(folder):
                if one.name[0] == "." or not is_folder_entry(one):
                    continue
                way = came_by
                if one.is_symlink():
                    way = (*came_by, os.path.realpath(self._path(folder)))
                    leads_to = os.path.realpath(one.path)
                    if any(f"{each}/".startswith(f"{leads_to.rstrip('/')}/") for each in way):
                        continue
                waiting.append((f"{folder}{one.name}/", way))

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        path = self._path(name)
        if not self._root.holds(path):
            return []
        found: list[os.DirEntry[str]] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._seen += 1
                    if self._seen > self._most:
                        raise KvtoolError(
                            f"`{self._pattern}` searches more than {self._most:,} files and folders",
                            hint="write a longer path: `prompts/**/*.md` instead of `**/*.md`",
                        )
                    found.append(entry)
        except OSError:  # as glob does: what cannot be listed has nothing in it
            return []
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name) or "."  # noqa: PTH118 - strings are enough, and there may be many
