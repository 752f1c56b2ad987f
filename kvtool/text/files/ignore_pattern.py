"""One pattern of a `.gitignore`, matched as git does: against a path itself, never against what lies below a match."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    """`parts` are what the names of a path have to match, from the folder of the file on; None stands for any number of folders."""

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
        """Whether it is about the path of these names."""
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
