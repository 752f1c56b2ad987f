"""Rules of `.gitignore` files: which files of a project git leaves out, and patterns of the same form from elsewhere.

Why no library: pathspec 1.1 (MPL-2.0) was tried against git on random patterns. Both agree with git on all but oddities (git takes
`?` for a byte, here it is a character); but it refuses lines that git passes over or understands (`[]a]`), and its patterns
backtrack: one of 59 characters, `a/` and eight times `**/*a*/`, did not end in 15 seconds on one path, here it takes 0.3 ms. A
`.gitignore` is foreign text.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtool.text.files.root_folder import GIT, git_root

_ANY = None
"""`**`: any number of folders."""
_END_SPACES = re.compile(r"(?<!\\) +$")
_ESCAPED = re.compile(r"\\(.)")
_OPEN = re.compile(r"(?:[^\\\[]|\\.|\[[!^]?\]?+(?:[^\\\]]|\\.)*+\])*+\[")
"""A bracket that is never closed: git matches nothing with it."""
_MOST_PARTS = 64
"""A longer pattern names no file that anybody has."""


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """`parts` are what the names of a path have to match, from the folder of the file on; None means any number of folders."""

    parts: tuple[re.Pattern[str] | None, ...]
    negated: bool
    only_folders: bool

    @classmethod
    def of(cls, line: str) -> IgnorePattern | None:
        """The pattern of a line; None for a comment, an empty line, and what is too long to be one."""
        text = _END_SPACES.sub("", line.rstrip("\r\n"))
        if text.startswith("#"):
            return None
        negated = text.startswith("!")
        text = text[1:] if negated else text
        only_folders = text.endswith("/")
        names = [name for name in text.rstrip("/").split("/") if name]
        if not names or len(names) > _MOST_PARTS or any(map(_OPEN.match, names)):
            return None
        anchored = "/" in text.rstrip("/")
        parts: list[re.Pattern[str] | None] = [] if anchored else [_ANY]
        parts += [_ANY if name == "**" and anchored else _compiled(name) for name in names]
        if parts[-1] is _ANY:  # what is in it, and not the folder itself
            parts.append(_compiled("*"))
        return cls(tuple(parts), negated, only_folders)

    def matches(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether it is about the path of these names."""
        return (is_folder or not self.only_folders) and _match(self.parts, names)


def _match(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Both in step, going back to the last `**` where they part: linear in the one times the other."""
    part = name = 0
    back: tuple[int, int] | None = None
    while name < len(names):
        if part < len(parts) and (found := parts[part]) is _ANY:
            back = part + 1, name
            part += 1
        elif part < len(parts) and found is not None and found.match(names[name]):
            part, name = part + 1, name + 1
        elif back is not None:
            back = back[0], back[1] + 1
            part, name = back
        else:
            return False
    return part == len(parts)


def _compiled(name: str) -> re.Pattern[str]:
    """The pattern of one name, in which nothing backtracks."""
    text = name.replace("[^", "[!")
    text = _ESCAPED.sub(lambda escaped: f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1], text)
    return re.compile(fnmatch.translate(text))


_MOST_BYTES = 1 << 20
"""A longer `.gitignore` is none that anybody wrote."""


@dataclass(frozen=True, slots=True)
class PatternsAt:
    """Patterns that count from `folder` (an absolute path); the last that matches decides."""

    folder: str
    patterns: tuple[IgnorePattern, ...]

    @classmethod
    def of(cls, folder: str, lines: Iterable[str]) -> PatternsAt:
        """The patterns of lines; what is none is passed over, as git does."""
        return cls(folder, tuple(pattern for line in lines if (pattern := IgnorePattern.of(line)) is not None))

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether they leave an absolute path out (True) or take it back (False); None where they say nothing of it."""
        start = self.folder if self.folder.endswith(os.sep) else self.folder + os.sep
        if not path.startswith(start):
            return None
        names = path[len(start) :].split(os.sep)  # noqa: PTH206 - a string, of which there are many
        for pattern in reversed(self.patterns):
            if pattern.matches(names, is_folder=is_folder):
                return not pattern.negated
        return None


def git_rules(folder: str) -> list[PatternsAt]:
    """The rules that hold in an absolute `folder` before its own `.gitignore` is read, the weakest first."""
    root = git_root(folder)
    if root is None:
        return []
    rules = _read(root, Path(root) / GIT / "info" / "exclude")
    above = [parent for parent in Path(folder).parents if parent == Path(root) or Path(root) in parent.parents]
    for parent in reversed(above):
        rules += own_rules(str(parent))
    return rules


def own_rules(folder: str) -> list[PatternsAt]:
    """Read the `.gitignore` of a folder; nothing where there is none."""
    return _read(folder, Path(folder) / ".gitignore")


def leaves_out(rules: Sequence[PatternsAt], path: str, *, is_folder: bool) -> bool:
    """Return whether the last of the rules that says anything of a path leaves it out."""
    for one in reversed(rules):
        said = one.says(path, is_folder=is_folder)
        if said is not None:
            return said
    return False


def _read(folder: str, file: Path) -> list[PatternsAt]:
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return []
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    found = PatternsAt.of(folder, lines)
    return [found] if found.patterns else []
