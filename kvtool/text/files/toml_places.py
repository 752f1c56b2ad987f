"""Places of the keys and values of a TOML text, which `tomllib` forgets.

The scan follows TOML 1.0's grammar as far as that takes to find keys and the ends of values. It trusts nothing: at the first thing
that it does not know it stops, and `tomllib` says what is wrong there.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass

from kvtool.errors import KvtoolError, Place
from kvtool.text.line_index import LineIndex

Path = tuple[str | int, ...]

MAX_DEPTH = 32
"""Of tables and arrays in each other; `tomllib` recurses, and takes time that grows with the square of dotted keys."""

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[^\s,\]}#\"'\[{=][^,\]}#\n]*")
_ONE_LINE = {'"': re.compile(r'"(?:[^"\\\n]|\\.)*"'), "'": re.compile(r"'[^'\n]*'")}
_ESCAPED = re.compile(r'\\.|"""', re.DOTALL)


@dataclass(frozen=True, slots=True)
class TomlPlace:
    """Offsets of a key (the last part of it) and of its value; a table's value is where its key is."""

    key: tuple[int, int]
    value: tuple[int, int]


class _StoppedError(Exception):
    """Here is what this scan does not know."""


class TomlPlaces:
    """The places of a text, whose line ends are all line feeds. KvtoolError where it is nested too deeply to be read."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path
        self.spots: dict[Path, TomlPlace] = {}
        self._lines = LineIndex(source)
        self._arrays: dict[Path, int] = {}
        self._at = 0
        with suppress(_StoppedError):
            self._scan()

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of the value at `path` (with `key`, or where it is a table, of its key), or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            spot = self.spots.get(path[:length])
            if spot is not None:
                return self.at(*(spot.key if key and length == len(path) else spot.value))
        return self.at(0, 0) if self.source else Place(self.path)

    def at(self, start: int, stop: int) -> Place:
        """The characters from `start` to `stop`, as far as they are on one line."""
        line, column = self._lines.position(start)
        excerpt = self._lines.content(line).removesuffix("\n")
        return Place(self.path, line, column, excerpt, max(min(stop - start, len(excerpt) - column + 1), 1))

    def position(self, line: int, column: int) -> Place:
        """A line and column that `tomllib` reported; what is past the end is the end."""
        begin = self._lines.start(min(line, len(self._lines)))
        start = min(begin + column - 1, len(self.source))
        return self.at(start, start)

    def _scan(self) -> None:
        table: Path = ()
        while True:
            self._at = self._match(_BLANK).end()
            if self._at == len(self.source):
                return
            if self.source[self._at] == "[":
                table = self._header()
            else:
                self._pair(table, 1)
            self._at = self._match(_SPACE).end()
            if self._at < len(self.source) and self.source[self._at] not in "\n#":
                raise _StoppedError

    def _header(self) -> Path:
        """`[a.b]` or `[[a.b]]`; the path of what follows."""
        double = self.source.startswith("[[", self._at)
        start = self._at
        self._at += 1 + double
        parts = self._key()
        self._expect("]" * (1 + double))
        path: Path = ()
        for number, (name, span) in enumerate(parts):
            path = (*path, name)
            last = number == len(parts) - 1
            if last and double:
                count = self._arrays.get(path, 0)
                self._arrays[path] = count + 1
                self.spots.setdefault(path, TomlPlace(span, span))
                path = (*path, count)
                self.spots[path] = TomlPlace(span, (start, self._at))
            elif path in self._arrays:
                path = (*path, self._arrays[path] - 1)
            else:
                self.spots.setdefault(path, TomlPlace(span, span))
        return path

    def _pair(self, table: Path, depth: int) -> None:
        """`key = value`."""
        parts = self._key()
        self._expect("=")
        self._at = self._match(_SPACE).end()
        path = table
        for name, span in parts[:-1]:
            path = (*path, name)
            self.spots.setdefault(path, TomlPlace(span, span))
        name, span = parts[-1]
        path = (*path, name)
        start = self._at
        container = self.source[start : start + 1] in ("[", "{")
        self._value(path, depth)
        self.spots.setdefault(path, TomlPlace(span, span if container else (start, self._at)))

    def _key(self) -> list[tuple[str, tuple[int, int]]]:
        """The parts of a dotted key, each with where it is."""
        parts: list[tuple[str, tuple[int, int]]] = []
        while True:
            self._at = start = self._match(_SPACE).end()
            quote = self.source[start : start + 1]
            self._at = self._match(_ONE_LINE.get(quote, _BARE)).end()
            parts.append((self._unquoted(self.source[start : self._at]), (start, self._at)))
            if len(parts) > MAX_DEPTH:
                raise KvtoolError(f"a key of more than {MAX_DEPTH} parts", place=self.at(start, self._at))
            space = self._match(_SPACE).end()
            if not self.source.startswith(".", space):
                self._at = space
                return parts
            self._at = space + 1

    def _unquoted(self, part: str) -> str:
        if part[0] == "'":
            return part[1:-1]
        if "\\" not in part:
            return part.strip('"')
        try:
            return str(tomllib.loads(f"key = {part}")["key"])
        except ValueError:
            raise _StoppedError from None

    def _value(self, path: Path, depth: int) -> None:
        """Step over a value, and note what is in it."""
        start = self._at
        if depth > MAX_DEPTH:
            raise KvtoolError(f"nested deeper than {MAX_DEPTH} levels", place=self.at(start, start))
        first = self.source[start : start + 1]
        if first == "[":
            self._array(path, depth)
        elif first == "{":
            self._inline(path, depth)
        elif self.source.startswith(('"""', "'''"), start):
            self._at = self._long_end(first)
        elif first in _ONE_LINE:
            self._at = self._match(_ONE_LINE[first]).end()
        else:
            found = self._match(_PLAIN)
            self._at = start + len(found[0].rstrip())

    def _array(self, path: Path, depth: int) -> None:
        self._at += 1
        number = 0
        while True:
            self._at = self._match(_BLANK).end()
            if self._took("]"):
                return
            start = self._at
            self._value((*path, number), depth + 1)
            self.spots[*path, number] = TomlPlace((start, self._at), (start, self._at))
            number += 1
            self._at = self._match(_BLANK).end()
            if not self._took(",") and not self.source.startswith("]", self._at):
                raise _StoppedError

    def _inline(self, path: Path, depth: int) -> None:
        self._at += 1
        while True:
            self._at = self._match(_BLANK).end()  # TOML 1.1 allows line breaks here; `tomllib` decides
            if self._took("}"):
                return
            self._pair(path, depth + 1)
            self._at = self._match(_BLANK).end()
            if not self._took(",") and not self.source.startswith("}", self._at):
                raise _StoppedError

    def _long_end(self, quote: str) -> int:
        """The end of a text in three quotes, which may have two more at its end."""
        at = self._at + 3
        if quote == "'":
            end = self.source.find("'''", at)
        else:
            end = next((found.start() for found in _ESCAPED.finditer(self.source, at) if found[0] == '"""'), -1)
        if end < 0:
            raise _StoppedError
        end += 3
        while self.source.startswith(quote, end):
            end += 1
        return end

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.source, self._at)
        if found is None:
            raise _StoppedError
        return found

    def _took(self, mark: str) -> bool:
        taken = self.source.startswith(mark, self._at)
        self._at += len(mark) * taken
        return taken

    def _expect(self, mark: str) -> None:
        self._at = self._match(_SPACE).end()
        if not self._took(mark):
            raise _StoppedError
