"""Text files and templates that no code of a project loads: neither their name nor a folder that is read as a whole tells of them.

Of a folder whose other files the code names, one by one, a file that it does not name is left over. What names a file may be put
together (`f"{mode}_system.md"`), so all parts of a name are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import PurePath

from kvtool.lint.lint_inputs import DATA, TextInput

_LEAST_NAMED = 2
_LEAST_SHARE = 0.6
"""Of the other texts of a folder that are named one by one: so many, and this part of them."""
_INCLUDES = re.compile(
    r"\{%-?\s{0,8}(?:include|extends|import|from)\b[^%\n]{1,200}|\{\{>[^{}\n]{1,100}|@?include\b[^\n]{1,200}"
)
_PARTS = re.compile(r"[-_. ]")


class TextFiles:
    """The text files of a project and the code that may load them."""

    def __init__(self, texts: Sequence[TextInput]) -> None:
        self._texts = texts
        self._named: dict[str, bool] = {}
        self._suffixes: dict[str, bool] = {}

    @cached_property
    def _code(self) -> str:
        """All code, and what of the other texts names files."""
        return "\n".join(
            one.text if not is_text_file(one) else "\n".join(_INCLUDES.findall(one.text)) for one in self._texts
        )

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._texts:
            if is_text_file(one):
                found.setdefault(str(PurePath(one.path).parent), []).append(one.path)
        return found

    def is_unused(self, one: TextInput) -> bool:
        """Whether nothing names a text file, though what else lies in its folder is named."""
        if not is_text_file(one) or self._is_named(one.path):
            return False
        others = [path for path in self._folders[str(PurePath(one.path).parent)] if path != one.path]
        named = sum(1 for path in others if self._is_named(path))
        return named >= _LEAST_NAMED and named >= _LEAST_SHARE * len(others)

    def _is_named(self, path: str) -> bool:
        if path not in self._named:
            self._named[path] = any(_says(self._code, name) for name in _names(path)) or self._is_put_together(path)
        return self._named[path]

    def _is_put_together(self, path: str) -> bool:
        """Whether code writes the beginning or the end of the name beside something that it puts in."""
        name = PurePath(path).name
        if self._takes_any(PurePath(path).suffix):
            return True
        for cut in (found.start() for found in _PARTS.finditer(name)):
            tail, head = name[cut:], name[: cut + 1]
            ends = any(mark in self._code for mark in (f"}}{tail}", f'"{tail}"', f"'{tail}'"))
            if ends and "." in tail[1:]:  # an end of a file's name alone, `.md`, is not what this looks for
                return True
            if len(head) > 2 and (f"{head}{{" in self._code or f'"{head}"' in self._code or f"'{head}'" in self._code):
                return True
        return False

    def _takes_any(self, suffix: str) -> bool:
        """Whether code makes a whole name of a file with this suffix: `f"{language}.md"`, `name + ".md"`, `glob("*.md")`."""
        if suffix not in self._suffixes:
            end = re.escape(suffix)
            put_in = r"\{[^{}\n]{1,80}\}"
            made = rf"[\"'/\\]{put_in}(?:_?{put_in})*{end}\b|[+*] ?[\"']?{end}[\"']"
            self._suffixes[suffix] = bool(suffix) and re.search(made, self._code) is not None
        return self._suffixes[suffix]


def is_text_file(one: TextInput) -> bool:
    """Whether it is a text or a template by itself."""
    return one.kind != "python" and one.style != DATA and one.found


def _names(path: str) -> Iterable[str]:
    stem = PurePath(path).name.partition(".")[0]
    return dict.fromkeys((stem, stem.replace("-", "_"), stem.replace("_", "-"), stem.lower(), stem.upper()))


def _says(code: str, name: str) -> bool:
    return name in code and re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", code) is not None
