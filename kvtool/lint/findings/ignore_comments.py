"""The comment that silences a finding, and for which lines it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvtool.diagnose.codes import entry_of, similar_code
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.text.line_index import LineIndex

MARK = "kvtool:"
_WORDS = re.compile(r"kvtool:[ \t]{0,8}+ignore\b(?:\[([^\]\r\n]{0,400}+)(\])?)?[ \t]{0,80}+[^\r\n]{0,400}+")
HOW = f"write `kvtool: ignore[{KV101.code}] reason`; separate codes with commas"
_LONGEST_EXCERPT = 400
_CLOSING = ("#}", "-->", "}}")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One comment. It holds for the lines `first` to `last` of `path`, for all of `files`, and for what has no line in `group`.

    `problem` says why it ignores nothing; the place is that of the word `kvtool:`, `width` characters are meant.
    """

    path: str
    line: int
    column: int
    codes: tuple[str, ...]
    first: int
    last: int
    files: tuple[str, ...] = ()
    group: str | None = None
    problem: str = ""
    excerpt: str = ""
    width: int = 1


def parse_ignore(path: str, text: str, start: int, stop: int, *, line: int, line_start: int) -> Ignore | None:
    """The comment whose words are in `text[start:stop]`, on `line`, which begins at `line_start`; None where it is not ours."""
    found = _WORDS.search(text, start, stop)
    if found is None:
        return None
    codes, problem = _codes(found)
    line_end = text.find("\n", found.start())
    excerpt = text[line_start : line_end if line_end >= 0 else len(text)].rstrip("\r")
    return Ignore(
        path,
        line,
        found.start() - line_start + 1,
        codes,
        line,
        line,
        problem=problem,
        excerpt=excerpt if len(excerpt) <= _LONGEST_EXCERPT else "",
        width=len(found[0].rstrip()),
    )


def _codes(found: re.Match[str]) -> tuple[tuple[str, ...], str]:
    """The codes that are named, and what is wrong with how they are."""
    if found[1] is None:
        return (), "this ignore comment names no codes"
    if found[2] is None:
        return (), "the bracket after `ignore` is not closed"
    words = [word.strip() for word in found[1].split(",") if word.strip()]
    if not words:
        return (), "this ignore comment names no codes"
    codes = tuple(dict.fromkeys(word.upper() for word in words))
    unknown = next((code for code in codes if entry_of(code) is None or not code.startswith("KV")), None)
    if unknown is None:
        return codes, ""
    close = similar_code(unknown)
    return codes, "it names an unknown code" + (f"; did you mean {close}?" if close else "")


def between(text: str, begin: str, end: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Start of each `begin` in `text[start:stop]` and start of the `end` after it, in linear time."""
    while (at := text.find(begin, start, stop)) >= 0:
        close = text.find(end, at + len(begin), stop)
        if close < 0:
            return
        yield at, close
        start = close + len(end)


class IgnoredLines(LineIndex):
    """The lines of a text, and which of them a comment is about."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._next: dict[int, int] = {}

    def covered(self, start: int, close: int, comments: frozenset[int]) -> int:
        """The line that a comment is about: its own, or the next with more than comments where it is alone.

        It begins at `start` and its end mark at `close`; `comments` are the lines on which comments begin.
        """
        line, last = self.number(start), self.number(close)
        behind = self.content(last)[close - self.start(last) :]
        if self.content(line)[: start - self.start(line)].strip() or behind.strip() not in _CLOSING:
            return line
        return self.next_content(
            last + 1,
            lambda number, text: (
                number in comments and text.startswith(("{#", "<!--", "{{!")) and text.endswith(_CLOSING)
            ),
        )

    def next_content(self, line: int, is_comment: Callable[[int, str], bool]) -> int:
        """The first line from `line` on with more than white space and comments, or the last line.

        It remembers what it found: asked from the end of the text to its start, it looks at each line once.
        """
        first = line
        while line < len(self) and line not in self._next:
            content = self.content(line).strip()
            if content and not is_comment(line, content):
                break
            line += 1
        self._next[first] = self._next.get(line, line)
        return self._next[first]
