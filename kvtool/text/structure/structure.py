"""A text as a tree of units, in about linear time: Markdown, elements, data, listings, sentences, whichever of them it has."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from kvtool.text.structure.data_values import data_in
from kvtool.text.structure.markdown_block import MarkdownBlock
from kvtool.text.structure.markdown_blocks import markdown_blocks
from kvtool.text.structure.marked_lines import CITED, mark_capitals, mark_cited
from kvtool.text.structure.masking import Span, placeholders
from kvtool.text.structure.prose import ROW, introduction, line_of_one, prose_units
from kvtool.text.structure.raw_unit import RawUnit, nested
from kvtool.text.structure.sections import Heading, sections_of
from kvtool.text.structure.sentences import goes_on, introduces, is_sentence, is_title, sentence_ends, words_in
from kvtool.text.structure.tag_pairs import elements_in, tag_lines, tag_name
from kvtool.text.structure.text_unit import TextUnit

MOST_CHARACTERS = 4_000_000
MOST_LINES = 20_000
"""Of longer texts, and of those of more lines that are shorter than 32 characters in the mean, nothing is known but their lines."""

_MARKER = re.compile(r"[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)]|\[\d{1,3}\])(?=[ \t\r\n]|\Z))[ \t]*")
_FENCE_END = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t\r]*\Z")
_STATEMENT_TAG = re.compile(r"[ \t]*+(?:\{%(?:(?!%\})[^\n]){0,300}+%\}[ \t]*+)++\r?")
_WORDS_OF_A_HEADING = 12
"""Words of a line with a rule below it from which on that parts it from what follows."""
_BREAK = "***"
_SEVERAL = frozenset({"quote", "fence", "element"})
"""Units of which one line may announce several."""
_INLINE = frozenset({"data", "element"})
"""Units that may stand within a line of text."""
_ALIKE = re.compile(r"(?<![<\w/\\])[A-Za-z]{0,16}\d[\w-]*+")
"""Numbers and identifiers: which one it is says nothing about the structure."""
_KEPT = 64
_MOST_PATHS = 256
_MOST_GIVEN = 8
_SHORT = 1 << 16
_KEPT_LINES = 2048
_SHORT_LINE = 512
_KEPT_LONG = 2
"""Texts of at most so many characters are kept, and the last two of others: one is asked for each place, value and fix in turn."""


class Structure:
    """The units of a text. Blocks are found at once, what paragraphs are made of where it is asked for."""

    def __init__(self, text: str) -> None:
        self.text = str.__str__(text)
        self._solid: list[Span] = placeholders(self.text)
        readable = len(self.text) <= MOST_CHARACTERS and self.text.count("\n") <= max(MOST_LINES, len(self.text) // 32)
        raws = _Blocks(self.text).raws() if readable else []
        self.blocks = nested("document", 0, len(self.text), raws)
        """The tree down to paragraphs; an item of one line is one."""
        self._given: list[tuple[Span, ...]] = []
        """Values that were asked with: a path and a paragraph are kept by the number of theirs."""
        self._paths: dict[tuple[int, int, int], list[TextUnit]] = {}
        self._kept: dict[tuple[int, int, int], TextUnit] = {}

    def path(self, start: int, stop: int, values: Sequence[Span] = ()) -> list[TextUnit]:
        """The units that hold all of `[start, stop)`, the document first, the smallest last; no sentence ends in `values`."""
        number = self._number(tuple(values))
        key = start, stop, number
        if key not in self._paths:
            if len(self._paths) >= _MOST_PATHS:
                self._paths.clear()
            self._paths[key] = self._found(start, stop, number)
        return self._paths[key]

    def _number(self, values: tuple[Span, ...]) -> int:
        """The number of values that were asked with, if only just, or a new one."""
        for number, known in enumerate(self._given):
            if known is values or known == values:
                return number
        if len(self._given) >= _MOST_GIVEN:
            self._given.clear()
            self._paths.clear()
            self._kept.clear()
        self._given.append(values)
        return len(self._given) - 1

    def blocks_around(self, start: int, stop: int) -> list[TextUnit]:
        """The units that hold all of `[start, stop)`, down to the paragraph, the document first."""
        found = [self.blocks]
        while found[-1].kind != "paragraph" and (child := _child(self._spelled(found[-1]), start, stop)):
            found.append(child)
        return found

    def _found(self, start: int, stop: int, number: int) -> list[TextUnit]:
        found = self.blocks_around(start, stop)
        leaf = found[-1]
        if leaf.kind == "document":
            leaf = TextUnit("paragraph", *self._lines_around(start, stop), 0)
        if leaf.kind == "paragraph":
            found = [*(found if found[-1] is not leaf else found[:-1]), self._once_read(leaf, number)]
            while child := _child(found[-1], start, stop):
                found.append(child)
        return found

    def _once_read(self, unit: TextUnit, number: int) -> TextUnit:
        """`_read`: the last paragraphs are kept, for each is asked for all that varies in it."""
        key = unit.start, unit.stop, number
        if key not in self._kept:
            if len(self._kept) >= _MOST_GIVEN:
                self._kept.clear()
            self._kept[key] = self._read(unit, self._given[number])
        return self._kept[key]

    def _read(self, unit: TextUnit, values: Sequence[Span] = ()) -> TextUnit:
        """A paragraph with what it is made of; what stands in it as one piece is in one of its sentences."""
        if not unit.children and (one := line_of_one(self.text, unit.start, unit.stop)) is not None:
            return TextUnit("paragraph", unit.start, unit.stop, unit.start, one)
        inside = [RawUnit(*below[:4]) for child in unit.children for below in _all_in(child)]
        solid = {*self._solid_in(unit.start, unit.stop), *values, *((each.start, each.stop) for each in inside)}
        raws = prose_units(self.text, unit.start, unit.stop, sorted(solid))
        return nested("paragraph", unit.start, unit.stop, [*raws, *inside])

    def tree(self) -> TextUnit:
        """All of it, sentences included."""
        return self._whole(self.blocks)

    def _spelled(self, unit: TextUnit) -> TextUnit:
        """A unit; an item of one line with its paragraph."""
        kind, start, stop, body, children = unit
        if kind != "item" or body >= stop or (children and any(each.kind not in _INLINE for each in children)):
            return unit
        return TextUnit(kind, start, stop, body, (TextUnit("paragraph", body, stop, body, children),))

    def _whole(self, unit: TextUnit) -> TextUnit:
        kind, start, stop, body, children = self._spelled(unit)
        if kind == "paragraph":
            return self._read(TextUnit(kind, start, stop, body, children))
        return TextUnit(kind, start, stop, body, tuple(map(self._whole, children)) if children else ())

    def _solid_in(self, low: int, high: int) -> list[Span]:
        first = bisect_left(self._solid, (low, low))
        return [span for span in self._solid[first : bisect_right(self._solid, (high, high))] if span[1] <= high]

    def _lines_around(self, start: int, stop: int) -> Span:
        """The lines of a range that is in no block: around a tag, or of a text that is too long to be read."""
        low = self.text.rfind("\n", 0, start) + 1
        high = self.text.find("\n", stop)
        return low, len(self.text) if high < 0 else high


@lru_cache(maxsize=_KEPT)
def _of_short(text: str) -> Structure:
    return Structure(text)


@lru_cache(maxsize=_KEPT_LONG)
def _of_long(text: str) -> Structure:
    return Structure(text)


def structure_of(text: str) -> Structure:
    """The structure of a text; the last few are kept, each for all texts that differ from it in numbers alone."""
    alike = _alike(str.__str__(text))
    return _of_short(alike) if len(alike) <= _SHORT else _of_long(alike)


@lru_cache(maxsize=_KEPT_LONG)
def _alike(text: str) -> str:
    """A text with all its numbers and identifiers alike; made once where one text is asked for each of its differences."""
    return "\n".join(map(_line_alike, text.split("\n")))


def _line_alike(line: str) -> str:
    """A line with all its numbers and identifiers alike: none of them goes on behind its end."""
    return _short_alike(line) if len(line) <= _SHORT_LINE else _ALIKE.sub(_ones, line)


@lru_cache(maxsize=_KEPT_LINES)
def _short_alike(line: str) -> str:
    return _ALIKE.sub(_ones, line)


def _ones(found: re.Match[str]) -> str:
    return "1" * len(found[0])


def _child(unit: TextUnit, start: int, stop: int) -> TextUnit | None:
    index = bisect_right(unit.children, start, key=lambda child: child.start) - 1
    if index < 0:
        return None
    child = unit.children[index]
    return child if child.holds(start, stop) else None


def _all_in(unit: TextUnit) -> Iterator[TextUnit]:
    yield unit
    for child in unit.children:
        yield from _all_in(child)


class _Blocks:
    """Finds the ranges of blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.replace("\r\n", " \n").replace("\r", " ").split("\n")
        self._ends: dict[int, Span] = {}
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def raws(self) -> list[RawUnit]:
        text = self._text
        data = data_in(text)
        blocks = self._markdown(data)
        fences = [self._span(block) for block in blocks if block.kind == "fence"]
        data = [span for span in data if not any(low <= span[0] < high for low, high in _near(fences, span[0]))]
        elements = elements_in(text, sorted([*fences, *data]))
        raws = [RawUnit("data", *self._to_lines(start, stop), start) for start, stop in data]
        scopes: list[Span] = []
        for element in elements:
            start, stop = self._to_lines(element.start, element.stop)
            raws.append(RawUnit("element", start, stop, element.body))
            if (
                "\n" in text[element.start : element.stop]
                and text[element.close : element.stop] == text[element.close : stop].rstrip()
            ):
                scopes.append((element.start, element.close))
        headings = {at: heading for at, block in enumerate(blocks) if (heading := self._heading(block))}
        raws += sections_of(text, list(headings.values()), scopes)
        raws += self._of_markdown([block for at, block in enumerate(blocks) if at not in headings])
        return list(self._with_introductions(raws))

    def _markdown(self, data: Sequence[Span]) -> list[MarkdownBlock]:
        """What Markdown sees, with tags as breaks and data as words; a fence that is never closed is none."""
        lines = list(self._lines)
        for start, _ in tag_lines(self._text):
            number = self._line_of(start)
            lines[number] = _indent(lines[number]) + _BREAK
        for number, line in enumerate(lines):
            if "{%" in line and _STATEMENT_TAG.fullmatch(line):
                lines[number] = _indent(line) + _BREAK
        mark_cited(lines)
        mark_capitals(lines)
        for start, stop in data:
            first, last = self._line_of(start), self._line_of(stop - 1)
            if last > first:
                lines[first] = self._lines[first][: start - self._starts[first]] + "x"
                lines[first + 1 : last + 1] = ["x"] * (last - first)
        blocks = markdown_blocks(lines)
        fence = next((block for block in reversed(blocks) if block.kind == "fence"), None)
        if fence is not None and not fence.depth and not self._is_closed(fence):
            lines[fence.first] = "x"
            blocks = markdown_blocks(lines)
        return blocks

    def _is_closed(self, fence: MarkdownBlock) -> bool:
        return fence.stop - 1 > fence.first and _FENCE_END.match(self._lines[fence.stop - 1]) is not None

    def _line_of(self, at: int) -> int:
        return bisect_right(self._starts, at) - 1

    def _span(self, block: MarkdownBlock) -> Span:
        """The characters of a block's lines, blank ones at its end left out."""
        stop = min(block.stop, len(self._lines))
        while stop > block.first + 1 and not self._lines[stop - 1].strip():
            stop -= 1
        return self._starts[block.first], self._starts[stop - 1] + len(self._lines[stop - 1].rstrip())

    def _to_lines(self, start: int, stop: int) -> Span:
        """A range with its indent, and with all of its lines where it is alone on them."""
        first, last = self._line_of(start), self._line_of(stop - 1)
        alone = start <= self._shown(first)[0] and self._shown(last)[1] <= stop
        return (self._starts[first], self._starts[last] + len(self._lines[last].rstrip())) if alone else (start, stop)

    def _shown(self, number: int) -> Span:
        """Where what a line shows begins, and where it ends, signs between values left out."""
        if number not in self._ends:
            line = self._lines[number]
            start = self._starts[number]
            self._ends[number] = start + len(line) - len(line.lstrip()), start + len(line.rstrip(" \t\r,;"))
        return self._ends[number]

    def _heading(self, block: MarkdownBlock) -> Heading | None:
        if block.kind != "heading" or block.depth:
            return None
        if block.mark in ("-", "=") and (
            block.stop - block.first != 2
            or (block.mark == "-" and is_sentence(self._lines[block.first]))
            or words_in(self._lines[block.first]) > _WORDS_OF_A_HEADING
        ):
            return None  # a rule below a paragraph
        return Heading(*self._span(block), block.level)

    def _of_markdown(self, blocks: Sequence[MarkdownBlock]) -> list[RawUnit]:
        """The units of all blocks but headings of sections."""
        raws: list[RawUnit] = []
        cuts: list[
            tuple[int, int, int]
        ] = []  # of lists and quotes: start, where lines begin that are none of theirs, stop
        marked = 0  # where the content of the last item begins, if it has one line
        for block in blocks:
            if block.kind == "paragraph" and marked and self._starts[block.first] < marked:
                continue  # all of that item
            start, stop = self._span(block)
            if stop <= start or block.kind == "break":
                continue
            if block.kind == "heading" or block.kind == "paragraph":
                begin = min(self._behind_markers(start, block.depth), stop)
                raws.append(RawUnit("paragraph", begin, stop, begin))
                continue
            body, marked = start, 0
            if block.kind == "item":
                body = self._behind_markers(start, block.depth + 1)
                marked = body if block.stop == block.first + 1 else 0
            raws.append(RawUnit(block.kind, start, stop, min(body, stop)))
            if not block.depth and block.kind != "fence" and (cut := self._first_lazy_line(block)):
                cuts.append((start, cut, stop))
                raws.append(RawUnit("paragraph", cut, stop, cut))
        return [self._clipped(raw, cuts) for raw in raws] if cuts else raws

    def _first_lazy_line(self, block: MarkdownBlock) -> int | None:
        """Where lines begin at the end of a list or a quote that only Markdown takes for a part of its last item."""
        _, stop = self._span(block)
        base = len(_indent(self._lines[block.first]))
        if CITED.match(self._lines[block.first]) and (cited := self._below_cited(block)) is not None:
            return cited
        last = first = self._line_of(max(stop - 1, 0))
        while first > block.first and self._is_lazy(self._lines[first], base):
            first -= 1
        for number in range(first + 1, last + 1):
            if not goes_on(self._lines[number - 1], self._lines[number]):
                return self._starts[number]
        return None

    def _below_cited(self, block: MarkdownBlock) -> int | None:
        """Where the lines of a list's last cited item end, if all others have as many lines; 0 where they have other ones."""
        _, stop = self._span(block)
        end = self._line_of(max(stop - 1, 0)) + 1
        shown = [number for number in range(block.first, end) if self._lines[number].strip()]
        at = [index for index, number in enumerate(shown) if CITED.match(self._lines[number])]
        sizes = {behind - index for index, behind in pairwise(at)}
        if sizes <= {1}:
            return None
        last = at[-1] + max(sizes)
        return self._starts[shown[last]] if len(sizes) == 1 and last < len(shown) else 0

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

    def _behind_markers(self, start: int, depth: int) -> int:
        at = start
        for _ in range(depth):
            found = _MARKER.match(self._text, at)
            if found is None:
                break
            at = found.end()
        return at

    def _with_introductions(self, raws: Sequence[RawUnit]) -> Iterator[RawUnit]:
        """Paragraphs that end with an announcement of the block behind them, or with rows that go on there, are parted there."""
        ends: dict[int, RawUnit] = {}  # the largest block that begins on a line
        for raw in raws:
            line = self._line_of(raw.start)
            if raw.kind not in ("section", "item") and (line not in ends or raw.stop > ends[line].stop):
                ends[line] = raw
        for raw in raws:
            found = self._announced(raw, ends) if raw.kind == "paragraph" else None
            if found is None:
                yield raw
                continue
            yield found
            before = raw.start + len(self._text[raw.start : found.start].rstrip())
            if before > raw.start:
                yield raw._replace(stop=before)
            yield RawUnit("paragraph", found.start, raw.stop, found.start)

    def _announced(self, raw: RawUnit, ends: dict[int, RawUnit]) -> RawUnit | None:
        last = self._line_of(max(raw.stop - 1, raw.start))
        number = last + 1
        if number < len(self._lines) and not self._lines[number].strip():
            number += 1
        block = ends.get(number)
        if block is None or block.start < raw.stop:
            return None
        low = max(self._starts[last], raw.start)
        if introduces(self._text[low : raw.stop]) or (number == last + 1 and self._is_title(low, raw, block)):
            before = sentence_ends(self._text, low, raw.stop, ())
            several = block.kind == "paragraph" or block.kind in _SEVERAL
            stop = self._behind_the_like(block, ends) if several else block.stop
            return RawUnit("introduced", before[-1] if before else low, stop, block.start)
        if block.kind == "paragraph" and self._is_row(block.start):
            found = introduction(self._text, raw.start, raw.stop)
            if found is not None and self._is_row(found[1]):
                return RawUnit("introduced", found[0], self._behind_the_like(block, ends), found[1])
        return None

    def _is_title(self, low: int, raw: RawUnit, block: RawUnit) -> bool:
        """Whether the last line of a paragraph, right above a list, is the title of it."""
        begin = self._starts[self._line_of(raw.start)]
        if block.kind not in ("list", "numbered", "data", "fence") or self._text[begin : raw.start].strip():
            return False  # what an item says, its marker before it, is no title
        above = self._text[raw.start : low].rstrip().rpartition("\n")[2]
        return (not above or is_sentence(above)) and is_title(self._text[low : raw.stop])

    def _behind_the_like(self, block: RawUnit, ends: dict[int, RawUnit]) -> int:
        """The end of the blocks that one line announces: quotes, say, or paragraphs of rows, as a map of files has several."""
        stop = block.stop
        while block.kind in _SEVERAL or self._is_row(block.start):
            number = self._line_of(stop - 1) + 1
            if number < len(self._lines) and not self._lines[number].strip():
                number += 1
            following = ends.get(number)
            if following is None or following.kind != block.kind or not self._is_like(block, following):
                break
            block, stop = following, following.stop
        return stop

    def _is_like(self, block: RawUnit, other: RawUnit) -> bool:
        if block.kind == "element":
            one, another = self._text[block.start : block.body], self._text[other.start : other.body]
            return tag_name(one) == tag_name(another)
        return block.kind in _SEVERAL or self._is_row(other.start)

    def _is_row(self, at: int) -> bool:
        return ROW.match(self._lines[self._line_of(at)]) is not None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _near(spans: Sequence[Span], at: int) -> list[Span]:
    """The last of these spans, in order, that begins at `at` or before."""
    index = bisect_right(spans, at, key=lambda span: span[0])
    return list(spans[index - 1 : index])
