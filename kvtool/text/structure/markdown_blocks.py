"""The blocks of a text that Markdown sees, by lines: headings, fences, lists, quotes, paragraphs.

What a prompt has most of is read here by the rules of CommonMark, as `library_blocks` has them: paragraphs, headings, fences,
breaks, lists and quotes, in a fifth of the library's time or less. The library reads quotes that go on below their last sign, and
all of a text with such a quote in a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.text.structure.library_blocks import library_blocks
from kvtool.text.structure.markdown_block import DEEPEST, MarkdownBlock

_SPACES = " \t"
_TAB = 4
_LEAST_CODE = 4
"""Columns of an indent from which on a line goes on a paragraph, whatever it begins with."""
_BEHIND = 2
"""Lines behind a quote that show where it ends."""
_SIGNS = frozenset("`~>#-*+_=0123456789")
"""What a line may begin with, its indent aside, that is no line of a paragraph."""
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*", re.DOTALL)
_BREAK = re.compile(r"([-*_])[ \t]*+(?:\1[ \t]*+){2,}")
_HEADING = re.compile(r"(#{1,6})(?![^ \t])")
_UNDERLINE = re.compile(r"(?:-+|=+)[ \t]*")
_ITEM = re.compile(r"(?:[-*+]|([0-9]{1,9})[.)])(?![^ \t])")


class _QuoteInListError(Exception):
    """A quote inside of a list that may go on below its last sign: how its lines are indented is left to the library."""


def markdown_blocks(lines: Sequence[str]) -> list[MarkdownBlock]:
    """The blocks in order, those inside of others behind them. Tables and HTML are paragraphs here, indents mean nothing."""
    try:
        return _Reader(lines).blocks
    except _QuoteInListError:
        return library_blocks("\n".join(lines))


class _Reader:
    """Goes over the lines once. `blk` is the column at which the content of a block begins, `outer` that of the list around it
    (-1: none), `level` how many quotes, lists and items are around it.
    """

    def __init__(self, lines: Sequence[str], quotes: int = 0) -> None:
        """`quotes` are around all of the lines."""
        self.blocks: list[MarkdownBlock] = []
        self._lines = lines
        self._quotes = quotes
        self._rest = [line.lstrip(_SPACES) for line in lines]
        """Each line without its indent; of the first line of an item, its content while that is read."""
        self._stop = len(lines) - (bool(lines) and not self._rest[-1])
        self._indent = [
            len(line) - len(rest)
            if line[:1] != "\t" and "\t" not in line[: len(line) - len(rest)]
            else _columns(line, 0)
            for line, rest in zip(lines, self._rest, strict=True)
        ]
        self._read(0, 0, -1, quotes)

    def _read(self, line: int, blk: int, outer: int, level: int) -> int:
        """Blocks from a line on, up to one that is indented less; returns that."""
        rest = self._rest
        while True:
            while line < self._stop and not rest[line]:
                line += 1
            if line >= self._stop or self._indent[line] < blk:
                return line
            if level >= DEEPEST:
                return self._stop
            line = self._block(line, blk, outer, level)
            if line < self._stop and not rest[line]:
                line += 1

    def _block(self, line: int, blk: int, outer: int, level: int) -> int:
        rest = self._rest[line]
        if rest[0] in _SIGNS:
            if fence := _FENCE.fullmatch(rest):
                return self._fence(line, fence[1] or fence[2], blk, level)
            if rest[0] == ">":
                return self._quote(line, blk, outer, level)
            if found := _BREAK.fullmatch(rest):
                mark = found[1] * (rest.count(found[1]) + 1)
                self.blocks.append(MarkdownBlock("break", line, line + 1, level, 0, mark))
                return line + 1
            if item := _ITEM.match(rest):
                return self._list(line, item, blk, level)
            if heading := _HEADING.match(rest):
                mark = heading[1]
                self.blocks.append(MarkdownBlock("heading", line, line + 1, level, len(mark), mark))
                return line + 1
        return self._paragraph(line, blk, outer, level)

    def _paragraph(self, first: int, blk: int, outer: int, level: int) -> int:
        """A paragraph, or a heading with a line below it."""
        line = first + 1
        while line < self._stop and (rest := self._rest[line]):
            if rest[0] in _SIGNS and self._indent[line] - blk < _LEAST_CODE:
                if self._indent[line] >= blk and _UNDERLINE.fullmatch(rest):
                    heading = MarkdownBlock("heading", first, line + 1, level, 1 if rest[0] == "=" else 2, rest[0])
                    self.blocks.append(heading)
                    return line + 1
                if self._ends_paragraph(line, rest, blk, outer):
                    break
            line += 1
        self.blocks.append(MarkdownBlock("paragraph", first, line, level))
        return line

    def _ends_paragraph(self, line: int, rest: str, blk: int, outer: int) -> bool:
        """Whether another block may begin on a line of a paragraph. A list there begins with 1, and with some text."""
        if self._ends_list(rest) or _HEADING.match(rest):
            return True
        item = _ITEM.match(rest)
        if item is None:
            return False
        if self._indent[line] >= blk:
            return (item[1] is None or int(item[1]) == 1) and bool(rest[item.end() :].strip(_SPACES))
        return outer < 0 or self._indent[line] - outer < _LEAST_CODE

    @staticmethod
    def _ends_list(rest: str) -> bool:
        """Whether what is no item begins on a line, whatever stands before it."""
        return rest[:1] == ">" or _FENCE.fullmatch(rest) is not None or _BREAK.fullmatch(rest) is not None

    def _fence(self, first: int, mark: str, blk: int, level: int) -> int:
        closing = re.compile(f"{mark[0]}{{{len(mark)},}}[ \t]*")
        line = first + 1
        while line < self._stop:
            rest = self._rest[line]
            if rest and self._indent[line] < blk:
                break
            line += 1
            if rest[:1] == mark[0] and closing.fullmatch(rest):
                break
        self.blocks.append(MarkdownBlock("fence", first, line, level, 0, mark))
        return line

    def _list(self, first: int, item: re.Match[str], blk: int, level: int) -> int:
        """Items of one kind: of one sign, or of numbers with the same sign behind them."""
        sign = item[0][-1]
        at = len(self.blocks)
        numbered = item[1] is not None
        self.blocks.append(MarkdownBlock("numbered" if numbered else "list", first, first, level, 0, sign))
        line = first
        while True:
            line = self._plain_items(line, item, level + 1)
            item = _ITEM.match(self._rest[line]) or item
            line = self._item(line, item, blk, level + 1)
            if line >= self._stop or self._indent[line] < blk:
                break
            rest = self._rest[line]
            following = _ITEM.match(rest)
            if following is None or following[0][-1] != sign or self._ends_list(rest):
                break
            item = following
        self.blocks[at] = self.blocks[at]._replace(stop=line)
        return line

    def _plain_items(self, line: int, item: re.Match[str], level: int) -> int:
        """Items of one line, each with text alone and another one of its kind below it; returns the line of the first other one."""
        rest, indents, sign, last = self._rest, self._indent, item[0][-1], self._stop - 1
        while line < last:
            following = _ITEM.match(rest[line + 1])
            if (
                following is None
                or following[0][-1] != sign
                or indents[line + 1] != indents[line]
                or self._ends_list(rest[line + 1])
            ):
                break
            content = rest[line][item.end() :].lstrip(_SPACES)
            if not content or content[0] in _SIGNS:
                break
            self.blocks.append(MarkdownBlock("item", line, line + 1, level, 0, sign))
            self.blocks.append(MarkdownBlock("paragraph", line, line + 1, level + 1))
            item = following
            line += 1
        return line

    def _item(self, line: int, item: re.Match[str], blk: int, level: int) -> int:
        rest, indent = self._rest[line], self._indent[line]
        behind = rest[item.end() :]
        content = behind.lstrip(_SPACES)
        begin = indent + item.end()
        column = _columns(behind, begin)
        inner = begin + (column - begin if content and column - begin <= _LEAST_CODE else 1)
        at = len(self.blocks)
        self.blocks.append(MarkdownBlock("item", line, line, level, 0, item[0][-1]))
        if not content and (line + 1 >= self._stop or not self._rest[line + 1]):
            stop = min(line + 2, self._stop)
        else:
            self._rest[line], self._indent[line] = content, column
            stop = self._read(line, inner, blk, level + 1)
            self._rest[line], self._indent[line] = rest, indent
        self.blocks[at] = self.blocks[at]._replace(stop=stop)
        return stop

    def _quote(self, first: int, blk: int, outer: int, level: int) -> int:
        """A quote: its lines without their signs, where what stands below them goes on no paragraph; else the library reads it.

        That is given more lines until the quote ends before the last two of them.
        """
        line = first + 1
        while line < self._stop and self._rest[line][:1] == ">" and self._indent[line] >= blk:
            line += 1
        if line == first + 1 and self._line_alone(first, level):
            return line
        if self._rest[line - 1].strip("> ") and self._parts(line, blk, outer):
            within = [rest[1:].removeprefix(" ") for rest in self._rest[first:line]]
            if not any("\t" in text for text in within):
                quote = [MarkdownBlock("quote", 0, line - first, level, 0, ">"), *_Reader(within, level + 1).blocks]
                return self._shifted(quote, first, 0)
        if level > self._quotes:
            if line == first + 1 and self._rest[first].rstrip(_SPACES) == ">" and line >= self._stop:
                self.blocks.append(MarkdownBlock("quote", first, line, level, 0, ">"))
                return line
            raise _QuoteInListError
        while True:
            line = min(line + _BEHIND, len(self._lines))
            quote = list(_first_of(library_blocks("\n".join(self._lines[first:line]))))
            if quote[0].stop <= line - first - _BEHIND or line >= len(self._lines):
                break
            line += line - first
        return self._shifted(quote, first, level)

    def _parts(self, line: int, blk: int, outer: int) -> bool:
        """Whether a line, the first below a quote that is none of it, is blank or begins another block for sure."""
        if line >= len(self._lines) or not (rest := self._rest[line]):
            return True
        if rest[0] not in _SIGNS or (self._indent[line] < blk and self._indent[line] - max(outer, 0) >= _LEAST_CODE):
            return False
        return self._ends_list(rest) or (_ITEM.match(rest) or _HEADING.match(rest)) is not None

    def _line_alone(self, line: int, level: int) -> bool:
        """A quote of one line of text with nothing but blank lines below it: whether it was one, and is entered."""
        shown = self._rest[line][1:].lstrip(_SPACES)
        if not shown or shown[0] in _SIGNS or level + 1 >= DEEPEST or "\t" in self._rest[line]:
            return False
        if line + 1 < len(self._lines) and self._rest[line + 1]:
            return False
        self.blocks.append(MarkdownBlock("quote", line, line + 1, level, 0, ">"))
        self.blocks.append(MarkdownBlock("paragraph", line, line + 1, level + 1))
        return True

    def _shifted(self, quote: Sequence[MarkdownBlock], first: int, level: int) -> int:
        """Enter the blocks of a quote that begins at a line; returns the line behind it."""
        for block in quote:
            self.blocks.append(
                block._replace(first=block.first + first, stop=block.stop + first, depth=block.depth + level)
            )
        return first + quote[0].stop


def _first_of(blocks: Sequence[MarkdownBlock]) -> Sequence[MarkdownBlock]:
    """The first block with those inside of it."""
    return blocks[: next((at for at, block in enumerate(blocks) if at and not block.depth), None)]


def _columns(text: str, column: int) -> int:
    """The column behind the white space that a text at a column begins with."""
    for sign in text:
        if sign == "\t":
            column += _TAB - column % _TAB
        elif sign == " ":
            column += 1
        else:
            break
    return column
