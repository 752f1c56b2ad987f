"""The blocks of a text that Markdown sees, by lines: headings, fences, lists, quotes, paragraphs.

They are read by the rules of CommonMark, as markdown-it-py has them; the tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

BlockKind = Literal["heading", "fence", "list", "numbered", "item", "quote", "paragraph", "break"]

DEEPEST = 24
"""Lists, items and quotes that may be in each other; what is deeper is not looked at."""


class MarkdownBlock(NamedTuple):
    """Lines `[first, stop)` of a text (0 is its first), `depth` blocks inside of others; a heading has a `level`."""

    kind: BlockKind
    first: int
    stop: int
    depth: int
    level: int = 0
    mark: str = ""


_SPACES = " \t"
_TAB = 4
_LEAST_CODE = 4
"""Columns of an indent from which on a line goes on a paragraph, whatever it begins with."""
_LAZY = -1
"""The indent of a line without a sign that goes on the paragraph of a quote."""
_SIGNS = frozenset("`~>#-*+_=0123456789")
"""What a line may begin with, its indent aside, that is no line of a paragraph."""
_FENCES = frozenset("`~")
_BREAKS = frozenset("-*_")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*", re.DOTALL)
_BREAK = re.compile(r"([-*_])[ \t]*+(?:\1[ \t]*+){2,}")
_HEADING = re.compile(r"(#{1,6})(?![^ \t])")
_UNDERLINE = re.compile(r"(?:-+|=+)[ \t]*")
_ITEM = re.compile(r"(?:[-*+]|([0-9]{1,9})[.)])(?![^ \t])")


def markdown_blocks(lines: Sequence[str]) -> list[MarkdownBlock]:
    """The blocks in order, those inside of others after them. Tables and HTML are paragraphs here, indents mean nothing."""
    return _Reader(lines).blocks


class _Reader:
    """Goes over the lines once, over those of a quote once more for each quote around them.

    `end` is the line after the quote that is read, `blk` the column at which the content of a block begins, `outer` that of the
    list around it (-1: none), `level` how many quotes, lists and items are around it.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.blocks: list[MarkdownBlock] = []
        self._rest = [line.lstrip(_SPACES) for line in lines]
        """Each line without its indent; of a line in an item or a quote, what is after its sign while that is read."""
        self._count = len(lines)
        self._stop = len(lines) - (bool(lines) and not self._rest[-1])
        """Where a paragraph ends at the latest."""
        self._indent = [
            len(line) - len(rest)
            if line[:1] != "\t" and "\t" not in line[: len(line) - len(rest)]
            else _columns(line, 0)
            for line, rest in zip(lines, self._rest, strict=True)
        ]
        self._before: dict[int, int] = {}
        """Columns before the content of a quote's line, of those that hold a tab."""
        self._read(0, self._stop, 0, -1, 0)

    def _read(self, line: int, end: int, blk: int, outer: int, level: int) -> int:
        """Blocks from a line on, up to one that is indented less; returns that."""
        rest = self._rest
        while line < end:
            while line < self._stop and not rest[line]:
                line += 1
            if line >= end or self._indent[line] < blk:
                return line
            if level >= DEEPEST:
                return end
            line = self._block(line, end, blk, outer, level)
            if line < end and not rest[line]:
                line += 1
        return line

    def _enter(self, kind: BlockKind, first: int, stop: int, depth: int, level: int, mark: str) -> None:
        """Enter a block; in less time than `MarkdownBlock(…)` takes."""
        self.blocks.append(tuple.__new__(MarkdownBlock, (kind, first, stop, depth, level, mark)))

    def _block(self, line: int, end: int, blk: int, outer: int, level: int) -> int:
        rest = self._rest[line]
        sign = rest[0]
        if sign in _SIGNS:
            if sign == ">":
                return self._quote(line, end, blk, outer, level)
            if sign == "#":
                if heading := _HEADING.match(rest):
                    mark = heading[1]
                    self._enter("heading", line, line + 1, level, len(mark), mark)
                    return line + 1
            elif sign in _FENCES:
                if fence := _FENCE.fullmatch(rest):
                    return self._fence(line, end, fence[1] or fence[2], blk, level)
            elif sign in _BREAKS and (found := _BREAK.fullmatch(rest)):
                mark = sign * (rest.count(found[1]) + 1)
                self._enter("break", line, line + 1, level, 0, mark)
                return line + 1
            elif item := _ITEM.match(rest):
                return self._list(line, end, item, blk, level)
        return self._paragraph(line, blk, outer, level)

    def _paragraph(self, first: int, blk: int, outer: int, level: int) -> int:
        """A paragraph, or a heading with a line below it."""
        line = first + 1
        while line < self._stop and (rest := self._rest[line]):
            if rest[0] in _SIGNS and _LAZY < self._indent[line] < blk + _LEAST_CODE:
                if self._indent[line] >= blk and _UNDERLINE.fullmatch(rest):
                    heading = MarkdownBlock("heading", first, line + 1, level, 1 if rest[0] == "=" else 2, rest[0])
                    self.blocks.append(heading)
                    return line + 1
                if self._ends_paragraph(line, rest, blk, outer):
                    break
            line += 1
        self._enter("paragraph", first, line, level, 0, "")
        return line

    def _ends_paragraph(self, line: int, rest: str, blk: int, outer: int) -> bool:
        """Return whether another block may begin on a line of a paragraph. A list there begins with 1, and with some text."""
        if self._ends_list(rest) or _HEADING.match(rest):
            return True
        item = _ITEM.match(rest)
        if item is None:
            return False
        if self._indent[line] >= blk:
            return (item[1] is None or int(item[1]) == 1) and bool(rest[item.end() :].strip(_SPACES))
        return outer < 0 or self._indent[line] - outer < _LEAST_CODE

    def _ends_quote(self, line: int, rest: str, blk: int, outer: int) -> bool:
        """Return whether another block begins on a line without the sign of the quote above it."""
        if rest[0] not in _SIGNS:
            return False
        if self._ends_list(rest) or _HEADING.match(rest):
            return True
        indent = self._indent[line]
        return _ITEM.match(rest) is not None and not (outer >= 0 and outer + _LEAST_CODE <= indent < blk)

    @staticmethod
    def _ends_list(rest: str) -> bool:
        """Return whether what is no item begins on a line, whatever is before it."""
        sign = rest[:1]
        if sign in _BREAKS:
            return _BREAK.fullmatch(rest) is not None
        return sign == ">" or (sign in _FENCES and _FENCE.fullmatch(rest) is not None)

    def _fence(self, first: int, end: int, mark: str, blk: int, level: int) -> int:
        closing = re.compile(f"{mark[0]}{{{len(mark)},}}[ \t]*")
        line = first + 1
        while line < end:
            rest = self._rest[line]
            if (self._indent[line] < blk) if rest else (line + 1 == self._count):
                break
            line += 1
            if rest[:1] == mark[0] and closing.fullmatch(rest):
                break
        self.blocks.append(MarkdownBlock("fence", first, line, level, 0, mark))
        return line

    def _list(self, first: int, end: int, item: re.Match[str], blk: int, level: int) -> int:
        """Items of one kind: of one sign, or of numbers with the same sign after them."""
        sign = item[0][-1]
        at = len(self.blocks)
        kind: BlockKind = "list" if item[1] is None else "numbered"
        self.blocks.append(MarkdownBlock(kind, first, first, level, 0, sign))
        line = first
        while True:
            line, item = self._plain_items(line, end, item, blk, level + 1)
            line = self._item(line, end, item, blk, level + 1)
            if line >= end or self._indent[line] < blk:
                break
            rest = self._rest[line]
            following = _ITEM.match(rest)
            if following is None or following[0][-1] != sign or self._ends_list(rest):
                break
            item = following
        self.blocks[at] = MarkdownBlock(kind, first, line, level, 0, sign)
        return line

    def _plain_items(self, line: int, end: int, item: re.Match[str], blk: int, level: int) -> tuple[int, re.Match[str]]:
        """Items of one line, each with text alone, or one quote of it, and another one of its kind below it; returns the line of
        the first other one, and that.
        """
        rest, indents, last, blocks, matched = self._rest, self._indent, end - 1, self.blocks, _ITEM.match
        new = tuple.__new__  # in half of the time of `MarkdownBlock(…)`
        sign, indent = item[0][-1], indents[line]
        quotable = indent < max(blk, 0) + _LEAST_CODE and level + 2 < DEEPEST
        while line < last and indents[line + 1] == indent:
            below = rest[line + 1]
            following = matched(below)
            if following is None or following[0][-1] != sign or (sign in _BREAKS and _BREAK.fullmatch(below)):
                break
            content = rest[line][item.end() :].lstrip(_SPACES)
            quoted = content[:1] == ">" and quotable
            if quoted:
                content = content[1:].lstrip(_SPACES)
            if not content or content[0] in _SIGNS:
                break
            behind = line + 1
            blocks.append(new(MarkdownBlock, ("item", line, behind, level, 0, sign)))
            if quoted:
                blocks.append(new(MarkdownBlock, ("quote", line, behind, level + 1, 0, ">")))
            blocks.append(new(MarkdownBlock, ("paragraph", line, behind, level + 1 + quoted, 0, "")))
            item = following
            line = behind
        return line, item

    def _item(self, line: int, end: int, item: re.Match[str], blk: int, level: int) -> int:
        rest, indent = self._rest[line], self._indent[line]
        behind = rest[item.end() :]
        content = behind.lstrip(_SPACES)
        begin = indent + item.end()
        column = _columns(behind, begin, self._before.get(line, 0))
        inner = begin + (column - begin if content and column - begin <= _LEAST_CODE else 1)
        at = len(self.blocks)
        self.blocks.append(MarkdownBlock("item", line, line, level, 0, item[0][-1]))
        if not content and (line + 1 >= self._stop or not self._rest[line + 1]):
            stop = min(line + 2, end)
        else:
            self._rest[line], self._indent[line] = content, column
            stop = self._read(line, end, inner, blk, level + 1)
            self._rest[line], self._indent[line] = rest, indent
        self.blocks[at] = MarkdownBlock("item", line, stop, level, 0, item[0][-1])
        return stop

    def _quote(self, first: int, end: int, blk: int, outer: int, level: int) -> int:
        """A quote: its lines without their signs, and lines without one that go on its last paragraph."""
        alone = self._lines_alone(first, end, blk, level)
        if alone > first:
            return alone
        rest, indents = self._rest, self._indent
        lines, columns = [], []
        tabbed: list[tuple[int, int]] = []
        most, line, blank = self._stop, first, False
        while line < end and (shown := rest[line]):
            column = indents[line]
            quoted = shown[0] == ">" and column >= blk
            if not quoted and blank:
                break
            if not quoted and self._ends_quote(line, shown, blk, outer):
                self._stop = line
                break
            lines.append(shown)
            columns.append(column)
            if quoted:
                if "\t" in shown:
                    tabbed.append((line, self._before.get(line, 0)))
                rest[line], indents[line] = self._unquoted(line, shown, column)
                blank = not rest[line]
            else:
                indents[line] = _LAZY
            line += 1
        at = len(self.blocks)
        self.blocks.append(MarkdownBlock("quote", first, first, level, 0, ">"))
        stop = self._read(first, line, 0, outer, level + 1)
        self.blocks[at] = MarkdownBlock("quote", first, stop, level, 0, ">")
        self._stop = most
        self._before.update(tabbed)
        rest[first : first + len(lines)] = lines
        indents[first : first + len(columns)] = columns
        return stop

    def _unquoted(self, line: int, shown: str, column: int) -> tuple[str, int]:
        """Return the line after the sign of a quote, and its indent there; one space belongs to the sign."""
        behind = shown[1:]
        content = behind.lstrip(_SPACES)
        spaces = len(behind) - len(content)
        if "\t" not in behind:
            return content, spaces - 1 if spaces else 0
        before, begin = self._before.get(line, 0), column + 1
        self._before[line] = begin + (spaces > 0)
        if behind[0] == " " or (behind[0] == "\t" and (before + begin) % _TAB == _TAB - 1):
            return content, _columns(behind[1:], begin + 1, before) - begin - 1
        return content, _columns(behind, begin, before + 1) - begin

    def _lines_alone(self, line: int, end: int, blk: int, level: int) -> int:
        """Quotes of one line of text, each with nothing but blank lines below it: enters those that there are, returns the line
        after the last one, or the line itself.
        """
        rest, indents, blocks = self._rest, self._indent, self.blocks
        new = tuple.__new__  # in half of the time of `MarkdownBlock(…)`
        behind = line
        while line < end and rest[line][0] == ">" and indents[line] >= blk and level + 1 < DEEPEST:
            shown = rest[line][1:].lstrip(_SPACES)
            if not shown or shown[0] in _SIGNS or (line + 1 < end and rest[line + 1]):
                break
            behind = line + 1
            blocks.append(new(MarkdownBlock, ("quote", line, behind, level, 0, ">")))
            blocks.append(new(MarkdownBlock, ("paragraph", line, behind, level + 1, 0, "")))
            line = behind
            while line < end and not rest[line]:
                line += 1
        return behind


def _columns(text: str, column: int, before: int = 0) -> int:
    """The column after the white space that a text at a column begins with; `before` that are more columns which tabs count."""
    for sign in text:
        if sign == "\t":
            column += _TAB - (column + before) % _TAB
        elif sign == " ":
            column += 1
        else:
            break
    return column
