"""Places of each character of a YAML or JSON value: quotes, escapes, folds and indentation are led back to the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvtool.text.files.yaml_nodes import Scalar
from kvtool.text.line_index import ANY_BREAK, LineIndex
from kvtool.text.traced import Mark, Origin, Traced

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_BLANK = " \t\n\r"


class WrittenCharacters:
    """The places of one file's values; `source` is its text."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._index = LineIndex(source, ANY_BREAK)

    def traced(self, scalar: Scalar) -> Traced:
        """The value, each of its characters with its own place; those that no character means, with that of the one before."""
        if len(scalar.text.marks) == 1 and (origin := scalar.text.marks[0].origin) is not None and origin.verbatim:
            return scalar.text
        marks: list[Mark] = []
        at = 0
        last = scalar.start
        for text, start, offset in self._pieces(scalar):
            if offset > at:
                marks.append(self._mark(scalar.value[at:offset], last, verbatim=False))
            marks.append(self._mark(text, start, verbatim=self._source.startswith(text, start)))
            at, last = offset + len(text), start + len(text)
        if at < len(scalar.value):
            marks.append(self._mark(scalar.value[at:], min(last, len(self._source)), verbatim=False))
        return Traced(scalar.value, marks)

    def _mark(self, text: str, start: int, *, verbatim: bool) -> Mark:
        return Mark(len(text), Origin(self._path, *self._index.position(start), 1, verbatim, text=text), 0)

    def _pieces(self, scalar: Scalar) -> Iterator[tuple[str, int, int]]:
        """Runs of the value that are in the file as one: text, start in the file, offset in the value, as far as they fit."""
        value, at = scalar.value, 0
        for start, stop in self._lines(scalar):
            for raw, begin, decoded in _tokens(self._source, start, stop, scalar.style):
                text = decoded if decoded is not None else raw
                if decoded is None or not value.startswith(text, at):
                    while at < len(value) and value[at] in _BLANK and not value.startswith(text, at):
                        at += 1
                if not value.startswith(text, at):
                    return
                if text:
                    yield text, begin, at
                at += len(text)

    def _lines(self, scalar: Scalar) -> Iterator[tuple[int, int]]:
        """Start and end in the file of the content of each line, without what surrounds it."""
        start, stop = scalar.start, scalar.end
        block = scalar.style in ("|", ">")
        if block:
            header = ANY_BREAK.search(self._source, start)
            start = header.end() if header else stop
        elif scalar.style:
            start, stop = self._source.index(scalar.style, start) + 1, stop - 1
        first = True
        while start < stop:
            found = ANY_BREAK.search(self._source, start, stop)
            end = found.start() if found else stop
            left, right = start, end
            if not first or block:
                while left < right and self._source[left] in " \t":
                    left += 1
            if found is not None and not block:
                while right > left and self._source[right - 1] in " \t" and self._source[right - 2] != "\\":
                    right -= 1
            if left < right:
                yield left, right
            start = found.end() if found else stop
            first = False


def _tokens(source: str, start: int, stop: int, style: str) -> Iterator[tuple[str, int, str | None]]:
    """A line's runs of ordinary characters, and its escapes with what they mean."""
    if style == "'":
        while (at := source.find("''", start, stop)) >= 0:
            if at > start:
                yield source[start:at], start, None
            yield "''", at, "'"
            start = at + 2
    elif style == '"':
        while (at := source.find("\\", start, stop)) >= 0:
            if at > start:
                yield source[start:at], start, None
            found = _PAIR.match(source, at, stop) or _ESCAPE.match(source, at, stop)
            if found is None:  # it joins this line and the next
                return
            yield found[0], at, _meaning(found[0])
            start = found.end()
    if start < stop:
        yield source[start:stop], start, None


_SHORT = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"} | {
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def _meaning(escape: str) -> str:
    if _PAIR.fullmatch(escape):
        return bytes.fromhex(escape[2:6] + escape[8:12]).decode("utf-16-be")
    if len(escape) > 2:
        return chr(int.from_bytes(bytes.fromhex(escape[2:])))
    return _SHORT.get(escape[1:], escape[1:])
