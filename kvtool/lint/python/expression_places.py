"""Places in a Python file: of expressions, of what stands in braces in an f-string, of placeholders inside of a string."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from bisect import bisect_right
from itertools import accumulate

from kvtool.errors import KvtoolError, Place
from kvtool.lint.python.newer_python import parsed
from kvtool.lint.skeleton import TemplatePlace

_EXCERPT = 400
_LITERAL = re.compile(r"([A-Za-z]{0,3})('''|\"\"\"|'|\")")
_GAP = re.compile(r"(?:[ \t\r\n\f]++|\\\r?\n|#[^\n]*+)*+")


def with_line_feeds(text: str) -> str:
    """A Python file with the line ends that its parser sees; lines and columns stay what they are."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class PythonSource:
    """A Python file: its tree, and where things stand in it. KvtoolError, with the place, where it does not parse."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = with_line_feeds(text)
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._ends: dict[int, list[int]] = {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the compiler thinks of the file is not for us to tell
                self.tree = parsed(self.text)
        except SyntaxError as error:
            raise self._syntax_error(error) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise KvtoolError("not Python, or nested too deeply to read", place=Place(path)) from error

    def _syntax_error(self, error: SyntaxError) -> KvtoolError:
        line = min(max(error.lineno or 1, 1), len(self.lines))
        excerpt = self.lines[line - 1].rstrip("\r")
        place = Place(self.path, line, max(error.offset or 1, 1), excerpt if len(excerpt) <= _EXCERPT else None)
        hint = (
            f"kvtool runs on Python {sys.version_info[0]}.{sys.version_info[1]}: a file of a later one needs that one"
        )
        return KvtoolError(f"not Python: {error.msg}", hint=hint, place=place)

    def offset(self, line: int, column: int) -> int:
        """The offset of a place that the parser gives: a line from 1 and a column in UTF-8 bytes."""
        text = self.lines[line - 1]
        if not text.isascii():
            if line not in self._ends:
                self._ends[line] = [*accumulate(len(character.encode(errors="replace")) for character in text)]
            column = bisect_right(self._ends[line], column)
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """Start and end of a node."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def spot(self, start: int, stop: int) -> TemplatePlace:
        """The place of a range, as much of it as its first line has."""
        line = bisect_right(self._starts, start)
        end = min(stop, self._starts[line] - 1)
        return TemplatePlace(self.path, line, start - self._starts[line - 1] + 1, max(end - start, 1))

    def spot_of(self, node: ast.expr | ast.stmt | ast.arg) -> TemplatePlace:
        return self.spot(*self.span(node))

    def fields(self, node: ast.JoinedStr) -> list[TemplatePlace]:
        """The places of the `{…}` of an f-string, in order.

        Found in the source: before Python 3.12 the parser's own places are wrong in strings of several lines. Where the source is
        written in a way that this does not follow, they are taken all the same.
        """
        values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        start, stop = self.span(node)
        found = _fields(self.text, start, stop)
        if len(found) == len(values):
            return [self.spot(first, last) for first, last in found]
        return [self.spot_of(value.value) for value in values]


def _fields(text: str, at: int, stop: int) -> list[tuple[int, int]]:
    """The braces of all literals in a source range that holds nothing but string literals."""
    found: list[tuple[int, int]] = []
    while at < stop and (literal := _LITERAL.match(text, at, stop)) is not None:
        prefix, quote = literal[1].lower(), literal[2]
        at = literal.end()
        while at < stop and not text.startswith(quote, at):
            char = text[at]
            if char == "\\" and ("r" not in prefix or text[at + 1 : at + 2] in (quote[0], "\\")):
                named = "r" not in prefix and text.startswith("N{", at + 1)
                at = max(text.find("}", at, stop) + 1 if named else 0, at + 2)
            elif char == "{" and "f" in prefix:
                if text.startswith("{", at + 1):
                    at += 2
                    continue
                end = _closing(text, at, stop)
                found.append((at, end))
                at = end
            else:
                at += 1
        gap = _GAP.match(text, at + len(quote), stop)
        at = gap.end() if gap else stop
    return found


def _closing(text: str, at: int, stop: int) -> int:
    """Just behind the brace that closes the one at `at`."""
    depth = 0
    quote = ""
    while at < stop:
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return stop
