"""Parts of a paragraph: listings with their introduction, tables and lists that Markdown does not see, sentences."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from kvtool.text.structure.masking import Span
from kvtool.text.structure.numbered_lines import RULE
from kvtool.text.structure.raw_unit import RawUnit, unit_of
from kvtool.text.structure.sentences import (
    closes,
    goes_on,
    has_stop,
    introduces,
    is_one,
    is_sentence,
    is_title,
    may_go_on,
    rule_of,
    sentence_ends,
)
from kvtool.text.structure.text_unit import TextUnit, UnitKind

_NUMBERED = re.compile(
    r"[ \t]*(?:\d{1,3}[、．](?=\S)|(?:[-*•][ \t]*)?(?:\(?\d{1,3}[.):][)]?"
    r"|[(（]\d{1,3}[)）]|\[\d{1,3}\]|[①-⑳]|[一二三四五六七八九十]{1,3}[、.．]|\(?[A-Za-z][.)]|\(?[ivxl]{1,7}[.)]"
    rf"|{RULE}[.:)、]?)"
    r"(?=\s|[^\x00-\x7f]))",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[ \t]*(?:[-*+•‣◦▪●·▸►✓✔✗→][ \t]+|[•●▪・])(?=\S)")
_DELIMITER = re.compile(r"[ \t]*\|?(?:[ \t]*:?-{1,60}:?[ \t]*(?:\||\Z))+[ \t\r]*\Z")
ROW = re.compile(
    r"[ \t]*(?:[│├└─|`+]|[*-](?![ \t*-]))\S{0,40}|[ MADRCU?!]{2} \S|(?:modified|new file|deleted|renamed|On branch)\b"
    r"|[ \t]*(?:\.{0,2}/)?(?:[\w.@+-]{1,80}/){1,20}[\w.@+-]{0,80}[ \t]*:?[ \t\r]*\Z|[ \t]*[dl-](?:[rwxsStT-]{9})[ \t.@+]"
)
"""A line of a tree of files, of what a version control system says of them, or a path by itself."""
_LISTS: tuple[tuple[UnitKind, re.Pattern[str]], ...] = (("numbered", _NUMBERED), ("list", _BULLET))
_LINES_OF: dict[UnitKind, re.Pattern[str]] = {**dict(_LISTS), "rows": ROW}
_END = r"\Z"
_FRAMED = re.compile(
    r"[ \t]*(?:\+[-=+:]+\+|[┌├└╔╠╚╟┏┣┗╭╰][─═━┄┬┴┼╦╩╬┳┻╋╤╧╪╥╨╫]+[┐┤┘╗╣╝╢┓┫┛╮╯]|\|[^\n]*\||│[^\n]*│|║[^\n]*║|┃[^\n]*┃)[ \t\r]*\Z"
)
"""A line of a table with a frame around it."""
_IN_TABLES = re.compile(r"[|\t,+┌├└╔╠╚╟┏┣┗╭╰│║┃]|  ")
"""What no table is without."""
_COLUMN = re.compile(r"[ \t]*\S(?:[^\s]| (?! ))*(?: {2,}|\t+)(?=\S)")
"""The first of two columns that are parted by spaces."""
_LEAST_FIELDS = 2
_LEAST_ALIGNED = 3
_LOOKED_AT = 32
"""Times that a line may be looked at as one that another announces: lines that all announce others are nested no deeper."""


class _Line(NamedTuple):
    """A line, its indent included; an `apart` one is all of a solid span, and goes on nowhere."""

    start: int
    stop: int
    text: str
    indent: int
    apart: bool = False


def single_line(text: str, start: int, stop: int) -> tuple[TextUnit, ...] | None:
    """Return the unit of a paragraph of one line that does not end like a sentence; None for any other."""
    if not is_one(text, start, stop):
        return None
    if start < stop and not (text[start].isspace() or text[stop - 1].isspace()):
        return (unit_of("statement", start, stop, start, ()),)
    shown = text[start:stop]
    first, last = start + len(shown) - len(shown.lstrip()), start + len(shown.rstrip())
    return (TextUnit("statement", first, last, first),) if last > first else ()


def prose_units(text: str, start: int, stop: int, solid: Sequence[Span] = ()) -> list[RawUnit]:
    """The units of a paragraph; nothing ends inside of a `solid` span (in order)."""
    lines = _lines(text, start, stop, solid)
    shown = "\n".join([line.text for line in lines])
    raws: list[RawUnit] = []
    taken = _tables(lines) if _IN_TABLES.search(shown) else []
    for first, last in taken:
        raws.append(RawUnit("table", lines[first].start, lines[last - 1].stop, lines[first].start))
        raws += [RawUnit("row", line.start, line.stop, line.start) for line in lines[first:last]]
    runs = [*taken]
    for kind, pattern in _LISTS:
        if not _anywhere(kind).search(shown):
            continue
        for first, last, marks in _marked(lines, pattern, runs):
            runs.append((first, last))
            raws.append(RawUnit(kind, lines[first].start, lines[last - 1].stop, lines[first].start))
            raws += [
                RawUnit("item", lines[low].start, lines[high - 1].stop, lines[low].start + marked)
                for low, high, marked in marks
            ]
    for first, last in _rows(lines, runs) if _anywhere("rows").search(shown) else ():
        runs.append((first, last))
        raws.append(RawUnit("rows", lines[first].start, lines[last - 1].stop, lines[first].start))
    runs.sort()
    raws += _introduced(text, lines, runs, solid)
    in_table = {index for first, last in taken for index in range(first, last)}
    raws += _statements(text, lines, in_table, {raw.start: raw.body for raw in raws if raw.kind == "item"}, solid)
    return raws


@lru_cache(maxsize=len(_LINES_OF))
def _anywhere(kind: UnitKind) -> re.Pattern[str]:
    """Search several lines, none of which ends with white space, if the pattern of a kind matches one of them."""
    pattern = _LINES_OF[kind]
    return re.compile(f"^(?:{pattern.pattern.replace(_END, '$')})", pattern.flags | re.MULTILINE)


def _lines(text: str, start: int, stop: int, solid: Sequence[Span]) -> list[_Line]:
    """The lines that are not blank; those that a solid span joins are one."""
    if solid:
        return list(_joined(text, start, stop, solid))
    lines: list[_Line] = []
    new = tuple.__new__  # in half of the time of `_Line(…)`
    at = start
    for shown in text[start:stop].split("\n"):
        if bare := shown.rstrip():
            lines.append(new(_Line, (at, at + len(bare), bare, len(bare) - len(bare.lstrip()), False)))
        at += len(shown) + 1
    return lines


def _joined(text: str, start: int, stop: int, solid: Sequence[Span]) -> Iterator[_Line]:
    at = start
    index = 0
    while at < stop:
        end = text.find("\n", at, stop)
        end = stop if end < 0 else end
        while index < len(solid) and solid[index][1] <= end:
            index += 1
        while (
            end < stop and index < len(solid) and solid[index][0] < end < solid[index][1]
        ):  # one may go on behind `stop`
            end = text.find("\n", min(solid[index][1], stop), stop)
            end = stop if end < 0 else end
            while index < len(solid) and solid[index][1] <= end:
                index += 1
        shown = text[at:end]
        if shown.strip():
            stands = bisect_left(solid, (at + 1, 0)) - 1
            indent = len(shown) - len(shown.lstrip())
            begin = at + indent
            apart = any(
                low <= begin and at + len(shown.rstrip()) <= high for low, high in solid[max(stands, 0) : stands + 4]
            )
            yield _Line(at, at + len(shown.rstrip()), shown.rstrip(), indent, apart)
        at = end + 1


def _tables(lines: Sequence[_Line]) -> list[Span]:
    """Runs of lines with bars, or with the same number of tabs."""
    found: list[Span] = []
    index = 0
    while index < len(lines):
        stop = index
        if index + 1 < len(lines) and "|" in lines[index].text and _DELIMITER.match(lines[index + 1].text):
            stop = index + 2
            while stop < len(lines) and "|" in lines[stop].text:
                stop += 1
        elif _FRAMED.match(lines[index].text) and not lines[index].text.lstrip().startswith("|"):
            while stop < len(lines) and _FRAMED.match(lines[stop].text):
                stop += 1
        elif lines[index].text.lstrip().startswith("|"):
            while (
                stop < len(lines)
                and lines[stop].text.lstrip().startswith("|")
                and lines[stop].text.count("|") >= _LEAST_FIELDS
            ):
                stop += 1
        elif fields := _fields(lines[index].text):
            while stop < len(lines) and _fields(lines[stop].text) == fields:
                stop += 1
            stop = stop if stop - index > _LEAST_FIELDS or fields[0] == "\t" else index
        elif column := _second_column(lines[index].text):
            while stop < len(lines) and _second_column(lines[stop].text) == column:
                stop += 1
            stop = stop if stop - index >= _LEAST_ALIGNED else index
        if stop - index >= _LEAST_FIELDS:
            found.append((index, stop))
        index = max(stop, index + 1)
    return found


def _fields(line: str) -> tuple[str, int] | None:
    """Count the fields of a table line without bars: between tabs, or commas without a space after."""
    if tabs := line.strip("\t").count("\t"):
        return "\t", tabs
    commas = line.count(",")
    return (",", commas) if commas >= _LEAST_FIELDS and ", " not in line and " ," not in line else None


def _second_column(line: str) -> int | None:
    """Return the start of a line's second column, spaces before it; None where there is none."""
    if "  " not in line and "\t" not in line:
        return None
    found = _COLUMN.match(line)
    return None if found is None or is_sentence(line) else found.end()


def _marked(
    lines: Sequence[_Line], pattern: re.Pattern[str], taken: Sequence[Span]
) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Runs of items that begin with a marker: their lines, and of each item its lines and how long its marker is."""
    used = {index for first, last in taken for index in range(first, last)}
    index = 0
    while index < len(lines):
        mark = None if index in used else pattern.match(lines[index].text)
        if mark is None:
            index += 1
            continue
        first, indent, items = index, lines[index].indent, [(index, index + 1, mark.end())]
        index += 1
        while index < len(lines) and index not in used:
            mark = pattern.match(lines[index].text) if lines[index].indent == indent else None
            if mark is not None:
                items.append((index, index + 1, mark.end()))
            elif lines[index].indent > indent or goes_on(lines[index - 1].text, lines[index].text):
                items[-1] = (items[-1][0], index + 1, items[-1][2])
            else:
                break
            index += 1
        if len(items) > 1:
            yield first, index, items


def _rows(lines: Sequence[_Line], taken: Sequence[Span]) -> Iterator[Span]:
    used = {index for first, last in taken for index in range(first, last)}
    first: int | None = None
    for index in range(len(lines) + 1):
        is_row = index < len(lines) and index not in used and ROW.match(lines[index].text) is not None
        if is_row and first is None:
            first = index
        if not is_row and first is not None:
            if index - first > 1:
                yield first, index
            first = None


def introduction(text: str, start: int, stop: int) -> tuple[int, int] | None:
    """Find the introduction in a paragraph, and the lines that it announces, where these go on to the end of it."""
    lines = _lines(text, start, stop, ())
    return next(((raw.start, raw.body) for raw in _introduced(text, lines, [], ()) if raw.stop == lines[-1].stop), None)


def _introduced(text: str, lines: Sequence[_Line], runs: Sequence[Span], solid: Sequence[Span]) -> Iterator[RawUnit]:
    """Each line that announces others, with these."""
    run_at = dict(runs)
    inside = {index for first, last in runs for index in range(first, last)}
    flat = not run_at and not any(line.indent or line.apart for line in lines)  # no line stands below a title
    announces = [
        index not in inside and (introduces(line.text) or (not flat and _is_title(lines, index, run_at)))
        for index, line in enumerate(lines)
    ]
    if not any(announces):
        return
    ends = _Ends(lines, announces, has_stop(text, lines[0].start, lines[-1].stop))
    left = _LOOKED_AT * len(lines)
    for index, line in enumerate(lines[:-1]):
        if not announces[index] or left < 0:
            continue
        titled = _is_data(lines[index + 1]) and not introduces(line.text)
        stop = run_at.get(index + 1) or (index + 2 if titled else ends.behind(index))
        left -= stop - index
        if stop > index + 1:
            sentences = sentence_ends(text, line.start, line.stop, solid)
            start = sentences[-1] if sentences else line.start
            yield RawUnit("introduced", start, lines[stop - 1].stop, lines[index + 1].start)


def _is_title(lines: Sequence[_Line], index: int, run_at: dict[int, int]) -> bool:
    """Return whether a line without a colon is the title of the rows below it: of a run, or of lines with a larger indent."""
    line = lines[index]
    if line.apart or index + 1 >= len(lines):
        return False
    below = lines[index + 1]
    deeper = below.indent > line.indent and index + 2 < len(lines) and lines[index + 2].indent > line.indent
    if not (deeper or index + 1 in run_at or _is_data(below)):
        return False
    return is_title(line.text) and not goes_on(line.text, below.text)


def _is_data(line: _Line) -> bool:
    """Return whether a line is a value of several lines."""
    return line.apart and "\n" in line.text


class _Ends:
    """Ends of announced lines, each found once: by the indents, the announcements and the sentences below them."""

    def __init__(self, lines: Sequence[_Line], announces: Sequence[bool], stops: bool) -> None:
        """`stops`: whether there is a sign that a sentence may end with."""
        self._lines = lines
        self._announces = announces
        count = len(lines)
        self._says = [is_sentence(line.text) for line in lines] if stops else [False] * count
        self._less = [count] * count
        """The next line that is indented less; `_no_more`: less or as much."""
        self._no_more = [count] * count
        self._announced = [count] * count
        """The next line of the same indent that announces others, if none that is indented less is nearer; `_said`: a sentence."""
        self._said = [count] * (count + 1)
        same: dict[int, int] = {}
        if any(line.indent != lines[0].indent for line in lines):
            self._find_indents()
        for index in range(count - 1, -1, -1):
            indent = lines[index].indent
            self._announced[index] = same.get(indent, count)
            if announces[index]:
                same[indent] = index
            self._said[index] = index if self._says[index] else self._said[index + 1]

    def _find_indents(self) -> None:
        lines = self._lines
        above: list[int] = []  # lines that none indented less or as much was seen above of, the nearest last
        for index in range(len(lines) - 1, -1, -1):
            indent = lines[index].indent
            while above and lines[above[-1]].indent > indent:
                above.pop()
            if above:
                nearest = above[-1]
                self._no_more[index] = nearest
                self._less[index] = nearest if lines[nearest].indent < indent else self._less[nearest]
            above.append(index)

    def behind(self, index: int) -> int:
        """After the last line that line `index`, which is not the last, announces."""
        lines, first = self._lines, index + 1
        indent = lines[index].indent
        if lines[first].indent > indent:
            stop = self._no_more[index]
        else:
            stop = self._less[index]
            if not (self._announces[first] and lines[first].indent == indent):
                stop = min(stop, self._announced[index])
            if not self._says[first]:
                stop = min(stop, self._said[first])
        rule = rule_of(lines[index].text)
        if rule is not None:
            for other in range(first, min(stop + 1, len(lines))):
                if closes(rule, lines[other].text):
                    return other + 1
        return stop


def _statements(
    text: str, lines: Sequence[_Line], skipped: set[int], items: dict[int, int], solid: Sequence[Span]
) -> Iterator[RawUnit]:
    """Sentences, and lines that are none; a sentence may go on over several lines."""
    new = tuple.__new__  # in half of the time of `RawUnit(…)`
    stops = bool(lines) and has_stop(text, lines[0].start, lines[-1].stop)
    index, count = 0, len(lines)
    while index < count:
        if index in skipped:
            index += 1
            continue
        begin, last, shown, indent, apart = lines[index]
        start = items.get(begin, begin + indent)
        index += 1
        while not apart and index < count and may_go_on(shown, lines[index].text):
            following, end, below, _, apart = lines[index]
            if apart or index in skipped or following in items or not goes_on(shown, below):
                break
            last, shown = end, below
            index += 1
        ends = sentence_ends(text, start, last, solid) if stops else ()
        if not ends:
            if last > start:
                yield new(RawUnit, ("statement", start, last, start))
            continue
        for end in [*ends, last]:
            stop = start + len(text[start:end].rstrip())
            if stop > start:
                yield RawUnit("statement", start, stop, start)
            start = end
