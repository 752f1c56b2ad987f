"""Bounds on the files that a file may name: its repository, or its own folder outside of one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kvtool.errors import KvtoolError, Place

GIT = ".git"
_MODEL_FILES = (".json", ".jinja", ".safetensors")
_HINT = "--allow-outside (in Python: allow_outside=True) allows it"


@dataclass(frozen=True, slots=True)
class RootFolder:
    """The folder `path` that named files must be in, links followed; None allows any.

    Git's own files are no part of it: a checkout may keep a token there.
    """

    path: str | None
    in_git: bool = False

    @classmethod
    def of(cls, file: str, *, allow_outside: bool = False) -> RootFolder:
        """For what the file of that path names."""
        if allow_outside:
            return cls(None)
        folder = os.path.realpath(Path(file).parent)
        root = git_root(folder)
        return cls(root or folder, root is not None)

    def holds(self, path: str | Path) -> bool:
        """Return whether a file, or what a link leads to, may be read; impossible names are reported where they are opened."""
        return self._wrong(path) is None

    def check(self, path: str | Path, *, shown: str, place: Place | None) -> None:
        """KvtoolError where it may not; `shown` is the path as the user knows it, `place` where it is named."""
        wrong = self._wrong(path)
        if wrong is not None:
            raise KvtoolError(f"`{shown}` {wrong}", hint=_HINT, place=place)

    def check_model(self, path: str, *, shown: str, place: Place | None) -> None:
        """The same of a tokenizer or a model: a folder, or a file that is read with those beside it."""
        self.check(path, shown=shown, place=place)
        if self.path is None:
            return
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        for each in folder.iterdir():
            if each.suffix in _MODEL_FILES and each.is_symlink() and not each.is_dir():
                self.check(each, shown=str(each), place=place)

    def _wrong(self, path: str | Path) -> str | None:
        if self.path is None or "\0" in str(path):
            return None
        real = os.path.realpath(path)
        inside = real == self.path or real.startswith(os.path.join(self.path, ""))  # noqa: PTH118 - strings are enough
        if not inside:
            whose = "of the repository" if self.in_git else "of the folder of the file that names it"
            return f"lies outside {whose}"
        if any(part.casefold() == GIT for part in Path(real[len(self.path) :]).parts):
            return f"lies in `{GIT}`, which kvtool never reads"
        return None


def git_root(folder: str) -> str | None:
    """The nearest folder from `folder` up that holds a `.git`; None where there is none."""
    while not os.path.lexists(os.path.join(folder, GIT)):  # noqa: PTH118
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return None
        folder = parent
    return folder
