"""Ranges of a text that are blocks: of Markdown, elements, data, sections."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kvtool.text.json_text import data_in
from kvtool.text.structure.announced import with_introductions
from kvtool.text.structure.markdown_blocks import MarkdownBlock, markdown_blocks
from kvtool.text.structure.masking import Span
from kvtool.text.structure.numbered_lines import NUMBER, mark_numbered
from kvtool.text.structure.raw_unit import RawUnit
from kvtool.text.structure.sentences import goes_on, is_sentence, words_in
from kvtool.text.structure.tag_pairs import PlacedLines, elements_in, tag_lines
from kvtool.text.structure.title_lines import titles_in


class Heading(NamedTuple):
    """A heading at `[start, stop)`."""

    start: int
    stop: int
    level: int


def sections_of(text: str, headings: Sequence[Heading], scopes: Sequence[Span]) -> Iterator[RawUnit]:
    """From each heading to the next of the same or a higher level, within the element (`scopes`, nested or apart) it is in."""
    events: list[tuple[int, int, int]] = [(heading.start, 1, index) for index, heading in enumerate(headings)]
    if scopes:
        events += [(start, 2, 0) for start, _ in scopes]
        events += [(stop, 0, 0) for _, stop in scopes]
        events.sort()
    opened: list[list[Heading]] = [[]]
    for at, kind, index in events:
        if kind == 2:
            opened.append([])
        elif kind == 0:
            yield from (_section(text, heading, at) for heading in opened.pop())
        else:
            heading = headings[index]
            while opened[-1] and opened[-1][-1].level >= heading.level:
                yield _section(text, opened[-1].pop(), at)
            opened[-1].append(heading)
    yield from (_section(text, heading, len(text)) for heading in opened[0])


def _section(text: str, heading: Heading, end: int) -> RawUnit:
    start, stop, _ = heading
    while end > stop and text[end - 1].isspace():
        end -= 1
    return tuple.__new__(RawUnit, ("section", start, *((end, stop + 1) if end > stop else (stop, stop))))


CITED = re.compile(r"[ ]{0,3}(\[\d{1,3}\])(?=[ \t]*\S)")
"""The beginning of an item that is numbered to be cited."""
_NUMBER = r"(?:\d{1,2}|[IVX]{1,5}|[A-Z])[.)][ \t]+"
_CAPITALS = re.compile(rf"(?:{_NUMBER})?[^\W\d_][^\Wa-z_][^a-z\n=|<>{{}}\[\]\"]{{0,60}}\Z")
_NUMBERED = re.compile(_NUMBER)
_LEAST_BELOW_TITLE = 2
"""Other lines in capitals, from which on the first may be the title of them all."""
_SHOUTED = re.compile(r"[^\W\d_]{4}")
_HEADING = "## X"


def mark_cited(lines: list[str]) -> None:
    """Make items like `[2] Lease` a numbered list, where there are several."""
    found = [(number, cited) for number, line in enumerate(lines) if "[" in line[:4] and (cited := CITED.match(line))]
    for number, cited in found if len(found) > 1 else ():
        low, high = cited.span(1)
        lines[number] = f"{lines[number][:low]}1.{' ' * (high - low - 2)}{lines[number][high:]}"


def mark_capitals(lines: list[str]) -> None:
    """Make lines in capitals above others (`2. CUSTOMER`) headings, where there are several."""
    found = [
        number
        for number, line in enumerate(lines[:-1])
        if line.isupper()
        and _CAPITALS.match(line)
        and _SHOUTED.search(line)
        and not is_sentence(line)
        and (not number or not lines[number - 1].strip())
    ]
    if (
        len(found) > _LEAST_BELOW_TITLE
        and not any(line.strip() for line in lines[: found[0]])
        and _titles_all(found, lines)
    ):
        del found[0]
    for number in found if len(found) > 1 else ():
        lines[number] = _HEADING


def _titles_all(found: list[int], lines: list[str]) -> bool:
    """Return whether the first of lines in capitals is the title of all: the others bear numbers, and it bears none."""
    first, *others = [_NUMBERED.match(lines[number]) is not None for number in found]
    return not first and all(others)


_SIGN = rf"[ \t]*(?:>|(?:[-*+]|\d{{1,9}}[.)]|\[\d{{1,3}}\])(?=[ \t\r\n]|\Z)|{NUMBER})[ \t]*"
_MARKER = re.compile(_SIGN)
_FENCE_END = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t\r]*\Z")
_STATEMENT_TAG = re.compile(r"[ \t]*+(?:\{%(?:(?!%\})[^\n]){0,300}+%\}[ \t]*+)++\r?")
_WORDS_OF_A_HEADING = 12
"""Words of a line with a rule below it from which on that parts it from what follows."""
_BREAK = "***"
_TITLE = "###### X"
_RULES = frozenset("-=")


class BlockRanges:
    """Finds the ranges of blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = PlacedLines(text)
        self._titles: dict[int, int] = {}
        """Lines that are headings by their form, with the levels of these."""

    def raws(self) -> list[RawUnit]:
        """The ranges that may be units, down to paragraphs."""
        text, lines = self._text, self._lines
        data = data_in(text)
        blocks = self._markdown(data)
        fences = [self._span(block) for block in blocks if block.kind == "fence"]
        data = [span for span in data if not any(low <= span[0] < high for low, high in _near(fences, span[0]))]
        elements = elements_in(text, sorted([*fences, *data]))
        raws = [RawUnit("data", *lines.whole(start, stop), start) for start, stop in data]
        scopes: list[Span] = []
        for element in elements:
            start, stop = lines.whole(element.start, element.stop)
            raws.append(RawUnit("element", start, stop, element.body))
            if (
                text.find("\n", element.start, element.stop) >= 0
                and text[element.close : element.stop] == text[element.close : stop].rstrip()
            ):
                scopes.append((element.start, element.close))
        begins = [lines.of(raw.start) for raw in raws]
        headings: list[Heading] = []
        others: list[MarkdownBlock] = []
        for block in blocks:
            kind, _, _, depth, _, mark = block
            if kind == "heading" and not depth and not (mark in _RULES and self._is_ruled(block)):
                level = self._titles.get(block.first, block.level)
                headings.append(tuple.__new__(Heading, (*self._span(block), level)))
            else:
                others.append(block)
        raws += sections_of(text, headings, scopes)
        begins += [-1] * (len(raws) - len(begins))
        others_raws, others_begin = self._of_markdown(others)
        return with_introductions(lines, raws + others_raws, begins + others_begin)

    def _markdown(self, data: Sequence[Span]) -> list[MarkdownBlock]:
        """Return the text for Markdown, with tags as breaks and data as words; a fence that is never closed is none."""
        starts, shown = self._lines.starts, self._lines.shown
        lines = list(shown)
        for start, _ in tag_lines(self._text):
            number = self._lines.of(start)
            lines[number] = _indent(lines[number]) + _BREAK
        for number, line in enumerate(lines) if "{%" in self._text else ():
            if "{%" in line and _STATEMENT_TAG.fullmatch(line):
                lines[number] = _indent(line) + _BREAK
        if "[" in self._text:
            mark_cited(lines)
        mark_capitals(lines)
        self._titles = {at: level for at, level in titles_in(self._lines.bare).items() if lines[at] is shown[at]}
        for number in self._titles:
            lines[number] = _TITLE
        mark_numbered(lines, shown)
        for start, stop in data:
            first, last = self._lines.of(start), self._lines.of(stop - 1)
            if last > first:
                lines[first] = shown[first][: start - starts[first]] + "x"
                lines[first + 1 : last + 1] = ["x"] * (last - first)
        blocks = markdown_blocks(lines)
        fence = next((block for block in reversed(blocks) if block.kind == "fence"), None)
        if fence is not None and not fence.depth and not self._is_closed(fence):
            lines[fence.first] = "x"
            blocks = markdown_blocks(lines)
        return blocks

    def _is_closed(self, fence: MarkdownBlock) -> bool:
        return fence.stop - 1 > fence.first and _FENCE_END.match(self._lines.shown[fence.stop - 1]) is not None

    def _span(self, block: MarkdownBlock) -> Span:
        """The characters of a block's lines, blank ones at its end left out."""
        _, first, behind, *_ = block
        last = first if behind == first + 1 else self._lines.last_of(first, behind)
        return self._lines.starts[first], self._lines.end(last)

    def _is_ruled(self, block: MarkdownBlock) -> bool:
        """Return whether a heading with a rule below it is a paragraph."""
        line = self._lines.shown[block.first]
        return (
            block.stop - block.first != 2
            or (block.mark == "-" and is_sentence(line))
            or words_in(line) > _WORDS_OF_A_HEADING
        )

    def _of_markdown(self, blocks: Sequence[MarkdownBlock]) -> tuple[list[RawUnit], list[int]]:
        """The units of all blocks but headings of sections, and the lines on which they begin; -1 for items."""
        text, lines, starts, bare = self._text, self._lines, self._lines.starts, self._lines.bare
        new = tuple.__new__  # in half of the time of `RawUnit(…)`
        raws: list[RawUnit] = []
        begins: list[int] = []
        cuts: list[tuple[int, int, int]] = []
        """Of lists and quotes: start, where lines begin that are none of theirs, stop."""
        marked = 0  # where the content of the last item begins, if it has one line
        for kind, first, behind, depth, _, _ in blocks:
            start = starts[first]
            if kind == "paragraph" and start < marked:
                continue  # all of that item
            last = first if behind == first + 1 else lines.last_of(first, behind)
            stop = starts[last] + len(bare[last])
            if stop <= start or kind == "break":
                continue
            if kind == "heading" or kind == "paragraph":
                begin = min(_markers(depth).match(text, start).end(), stop) if depth else start  # type: ignore[union-attr]  # it matches nothing, too
                raws.append(new(RawUnit, ("paragraph", begin, stop, begin)))
                begins.append(first)
                continue
            if kind == "item":
                body = _markers(depth + 1).match(text, start).end()  # type: ignore[union-attr]  # it matches nothing, too
                marked = body if behind == first + 1 else 0
                raws.append(new(RawUnit, (kind, start, stop, min(body, stop))))
                begins.append(-1)
                continue
            marked = 0
            raws.append(new(RawUnit, (kind, start, stop, start)))
            begins.append(first)
            if last > first and not depth and kind != "fence":
                cut = self._first_lazy_line(first, last)
                if cut:
                    cuts.append((start, cut, stop))
                    raws.append(RawUnit("paragraph", cut, stop, cut))
                    begins.append(lines.of(cut))
        return [self._clipped(raw, cuts) for raw in raws] if cuts else raws, begins

    def _first_lazy_line(self, block: int, last: int) -> int | None:
        """Find the first line at the end of a list or quote that only Markdown takes for a part of its last item."""
        shown = self._lines.shown
        base = len(_indent(shown[block]))
        if CITED.match(shown[block]) and (cited := self._below_cited(block, last + 1)) is not None:
            return cited
        first = last
        while first > block and self._is_lazy(shown[first], base):
            first -= 1
        for number in range(first + 1, last + 1):
            if not goes_on(shown[number - 1], shown[number]):
                return self._lines.starts[number]
        return None

    def _below_cited(self, first: int, end: int) -> int | None:
        """Return the end of a list's last cited item, if all others have as many lines; 0 otherwise."""
        shown = [number for number in range(first, end) if self._lines.bare[number]]
        at = [index for index, number in enumerate(shown) if CITED.match(self._lines.shown[number])]
        sizes = {behind - index for index, behind in pairwise(at)}
        if sizes <= {1}:
            return None
        last = at[-1] + max(sizes)
        return self._lines.starts[shown[last]] if len(sizes) == 1 and last < len(shown) else 0

    @staticmethod
    def _is_lazy(line: str, base: int) -> bool:
        return bool(line.strip()) and len(_indent(line)) <= base and _MARKER.match(line) is None

    def _clipped(self, raw: RawUnit, cuts: Sequence[tuple[int, int, int]]) -> RawUnit:
        index = bisect_right(cuts, raw.start, key=lambda cut: cut[0]) - 1
        if index < 0:
            return raw
        _, cut, stop = cuts[index]
        if not raw.start < cut < raw.stop <= stop:
            return raw
        end = len(self._text[raw.start : cut].rstrip()) + raw.start
        return RawUnit(raw.kind, raw.start, end, min(raw.body, end))


@lru_cache(maxsize=64)
def _markers(depth: int) -> re.Pattern[str]:
    """Return the text before the content of a block that is `depth` quotes and items deep, or less of it."""
    return re.compile(f"(?:{_SIGN}){{0,{depth}}}+")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _near(spans: Sequence[Span], at: int) -> list[Span]:
    """The last of these spans, in order, that begins at `at` or before."""
    index = bisect_right(spans, at, key=lambda span: span[0])
    return list(spans[index - 1 : index])
