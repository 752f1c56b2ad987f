"""The smallest unit around a value that may stand somewhere else: nothing is torn apart, no rule goes away from the rules."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import takewhile
from os.path import commonprefix
from typing import NamedTuple

from kvtool.diagnose.word_lists import word_pattern
from kvtool.fixes.fix_thresholds import THRESHOLDS
from kvtool.fixes.moves.dangling_references import goes_with_previous
from kvtool.text.structure.masking import Span
from kvtool.text.structure.numbered_lines import RULE
from kvtool.text.structure.sentences import has_label, is_sentence, words_in
from kvtool.text.structure.structure import structure_of
from kvtool.text.structure.text_unit import SEALED, TextUnit, UnitKind

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

_WORDS_OF_A_RULE = 4
IN_A_RULE = "its sentence contains more than the value"
AMONG_RULES = "the rules around it would move too"
FIRST = "it is in data that must come first"
ALL_OF_IT = "the whole text is one piece of data"
IN_MANY = "many sentences or lines contain it"

_DUTY = re.compile(r"\byou\b[^.!?]{0,200}\b(?:must|never|always|shall|may not|do not|don't)\b", re.IGNORECASE)
_CONTAINERS = frozenset({"introduced", "list", "numbered", "element", "section"})
_BLOCKS = frozenset({"introduced", "list", "numbered", "element", "section", "table", "fence", "data", "rows", "quote"})
_NAMED = re.compile(r"[ \t]*(?:[-*+•][ \t]+)?[*_`\"']{0,3}[^\W\d_][^:：\n]{0,40}[:：]")
_NUMBER = re.compile(rf"\A[ \t]*{RULE}[.:)、]")
"""`Rule 3:` is no label of what it says."""
_CLOSING = re.compile(r"\s*(?:</[^<>]{1,62}>|\[/[A-Z_]{1,42}\])?\s*\Z")


class Movable(NamedTuple):
    """Characters `[start, stop)` that may move, and what they are."""

    start: int
    stop: int
    kind: UnitKind

    @property
    def is_block(self) -> bool:
        """Return whether it is more than a sentence or a line."""
        return self.kind in _BLOCKS


def movable_unit(
    text: str,
    start: int,
    stop: int,
    values: Sequence[Span],
    *,
    known: bool = True,
    common: Collection[str] | None = None,
) -> Movable | str:
    """Return what has to move with the value at `[start, stop)`, or why it cannot; `values` are all that vary in the text, in
    order.

    Where it is not `known` what varies in that range, it is a line of which the value is a part. `common` are the lines that
    other requests have, too: no other one is a rule (None: any may be one).
    """
    plain = str.__str__(text)
    path = structure_of(plain).path(start, stop, values if known else _with(values, (start, stop)))
    return _Climb(plain, path, values, common).found(known)


def _with(values: Sequence[Span], span: Span) -> Sequence[Span]:
    """Return values in order, and one more among them."""
    at = bisect_left(values, span)
    return values if at < len(values) and values[at] == span else [*values[:at], span, *values[at:]]


@lru_cache(maxsize=16)  # one text is asked for each value in it
def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines of a text without the spaces at their ends."""
    return tuple(line.rstrip() for line in text.split("\n"))


@lru_cache(maxsize=32)  # of the few units of one text, each for each value in it
def _worded_lines_in(text: str, start: int, stop: int) -> tuple[str, ...]:
    return tuple(line for line in lines_of(text[start:stop]) if words_in(line))


@lru_cache(maxsize=32)
def _sentences_in(text: str, start: int, stop: int) -> tuple[tuple[int, int, str], ...]:
    """Return where the lines of a part of a text are that say something by themselves, and the lines."""
    found: list[tuple[int, int, str]] = []
    for line in text[start:stop].split("\n"):
        if is_sentence(_NUMBER.sub("", line)):
            found.append((start, start + len(line), line.rstrip()))
        start += len(line) + 1
    return tuple(found)


def _by_themselves(lines: Sequence[str]) -> list[str]:
    """Return the lines without those that say one of a few values after a label that others bear: `Verdict: pass` of each
    example.
    """
    labels = [_NAMED.match(line) for line in lines]
    often = Counter(found[0] for found in labels if found is not None)
    return [line for line, found in zip(lines, labels, strict=True) if found is None or often[found[0]] == 1]


class _Climb:
    """From the smallest unit around a value up to one that says by itself what it says."""

    def __init__(self, text: str, path: list[TextUnit], values: Sequence[Span], common: Collection[str] | None) -> None:
        self._common = common
        self._text = text
        self._path = path
        self._values = values

    def found(self, known: bool) -> Movable | str:
        at = next((index for index, unit in enumerate(self._path) if unit.kind in SEALED), len(self._path) - 1)
        last = self._path[at]
        if at == len(self._path) - 1 and last.kind == "statement" and (refused := self._refused(last, known)):
            return refused
        at = self._climbed(self._data_around(at))
        if (emptied := self._emptied(at)) is not None:
            at = self._climbed(emptied)
        unit = self._path[at]
        if unit.kind == "document":
            return ALL_OF_IT
        if any(each.kind in SEALED and self._is_whole(each) for each in self._path):
            return ALL_OF_IT
        if unit.kind == "data" and not unit.start and self._text.startswith("---"):
            return FIRST
        if self._is_rules(unit):
            return AMONG_RULES
        if unit.kind == "statement":
            return self._with_its_pair(at)
        alone = unit.kind == "paragraph" and "\n" not in self._text[unit.start : unit.stop]
        kind = self._all_of(unit).kind
        return Movable(unit.start, unit.stop, "statement" if alone else kind if kind in SEALED else unit.kind)

    def _climbed(self, at: int) -> int:
        """Return the unit at `at`, or the one above it that must move in its place."""
        while (higher := self._higher(at)) is not None:
            at = higher
        return at

    def _emptied(self, at: int) -> int | None:
        """Return the item of a list of which the sentences at `at` are all, or all of the line that its marker is on; else
        None.
        """
        if self._path[at].kind != "statement":
            return None
        moved = self._with_its_pair(at)
        for index in range(at - 1, 0, -1):
            item = self._path[index]
            if item.kind == "item":
                before = self._text[min(item.body, moved.start) : moved.start].strip()
                left = self._text[moved.stop : item.stop]
                all_of_it = not left.strip() and self._path[index - 1].kind == "numbered"
                first_line = left.lstrip(" \t\r").startswith("\n")
                return index if not before and (all_of_it or first_line) else None
        return None

    def _all_of(self, unit: TextUnit) -> TextUnit:
        """Return what a paragraph is, where it is nothing but a table, say."""
        same = [each for each in self._path if each[1:3] == unit[1:3] and each.kind in _BLOCKS]
        return same[0] if unit.kind == "paragraph" and same else unit

    def _data_around(self, at: int) -> int:
        """Return what holds the unit at `at`, and values and hardly anything else; `at` where there is no such unit.

        An element may have a sentence; of a section, and of what a line introduces, other requests have the heading at most.
        """
        for index in range(at - 1, 0, -1):
            held = self._path[index]
            if held.kind not in ("element", "section", "introduced") or self._is_whole(held):
                continue
            if held.kind != "element":
                said = _worded_lines_in(self._text, held.body, held.stop)
                if len(said) > 1 and self._is_own(said):
                    return index
                continue
            lines = sum(1 for line in self._text[held.body : held.stop].split("\n") if line.strip())
            if lines > THRESHOLDS.data_lines and THRESHOLDS.lines_of_a_rule * self._rules_in(held) <= lines:
                return index
        return next((index for index in range(1, at) if self._are_fields(self._path[index])), at)

    def _is_own(self, lines: Sequence[str]) -> bool:
        """Return whether other requests have none of the lines but such as stand under one label several times, and lack one at
        least.
        """
        if self._common is None or all(line in self._common for line in lines):
            return False
        return not any(line in self._common for line in _by_themselves(lines))

    def _are_fields(self, unit: TextUnit) -> bool:
        """Return whether a unit is a paragraph of labels with values, no line of which most other requests have."""
        if unit.kind != "paragraph" or self._common is None:
            return False
        lines = lines_of(self._text[unit.start : unit.stop])
        return len(lines) > 1 and all(has_label(line.strip()) and line not in self._common for line in lines)

    def _is_whole(self, unit: TextUnit) -> bool:
        return not self._text[: unit.start].strip() and not self._text[unit.stop :].strip()

    def _refused(self, unit: TextUnit, known: bool) -> str | None:
        shown = self._text[unit.start : unit.stop]
        if not is_sentence(shown):
            return None
        if not known:  # some of its words are the value
            return IN_A_RULE if words_in(shown) >= 2 * THRESHOLDS.role_words and _pattern("role").match(shown) else None
        words = words_in(self._without_values(unit.start, unit.stop))
        if words >= THRESHOLDS.duty_words and _DUTY.search(shown):
            return IN_A_RULE
        if words > THRESHOLDS.fact_words or (words >= THRESHOLDS.role_words and _pattern("role").match(shown)):
            return IN_A_RULE
        return None

    def _higher(self, at: int) -> int | None:
        """Return the unit that must move in place of the one at `at`; None where that may."""
        if not at:
            return None
        unit, parent = self._path[at], self._path[at - 1]
        if self._is_all_of(parent, unit) and parent.kind != "document":
            return at - 1
        if unit.kind == "row" or (
            unit.kind in SEALED and parent.kind in ("statement", "introduced", "paragraph", "item")
        ):
            return None if parent.kind == "paragraph" else at - 1
        if unit.kind in ("list", "numbered", "introduced") and parent.kind == "introduced":
            return at - 1  # a folder of a listing is a part of it
        if unit.kind in ("list", "numbered") and parent.kind == "item":
            return at - 1  # it says what the item is about
        nested = unit.kind == "item" and self._path[at + 1 : at + 2] and self._path[at + 1].kind in ("list", "numbered")
        if unit.kind == "item" and (parent.kind == "numbered" or not (nested or self._says(unit))):
            return at - 1
        if unit.kind == "paragraph" and parent.kind == "section" and not words_in(self._without_values(*unit[1:3])):
            return at - 1  # a bare value says nothing without its heading
        if unit.kind == "element" or (unit.kind == "statement" and not self._says(unit)):
            return self._of_fragments(at)
        return None

    def _of_fragments(self, at: int) -> int | None:
        """Return what holds a line that is no sentence, where it holds nothing but such lines, or the line is nothing but the
        value.
        """
        above = next((index for index in range(at - 1, 0, -1) if self._path[index].kind in _CONTAINERS), None)
        if above is None:
            return None
        bare = not words_in(self._without_values(*self._path[at][1:3]))
        held = self._path[above]
        whole = not self._text[: held.start].strip() and not self._text[held.stop :].strip()
        return above if bare or not (whole or self._rules_in(held)) else None

    def _says(self, unit: TextUnit) -> bool:
        return is_sentence(self._text[unit.body : unit.stop])

    def _is_all_of(self, parent: TextUnit, unit: TextUnit) -> bool:
        """Return whether nothing but a heading, a marker or tags would be left of the parent."""
        low = min(parent.body, unit.start)
        return (
            not self._text[low : unit.start].strip() and _CLOSING.match(self._text[unit.stop : parent.stop]) is not None
        )

    def _is_rules(self, unit: TextUnit) -> bool:
        """Return whether more of a unit than the value tells a model what to do."""
        unit = self._all_of(unit)
        if unit.kind in SEALED or unit.kind not in _BLOCKS:
            return False
        listed = any(each.kind in ("list", "numbered") and each.holds(unit.body, unit.body) for each in self._path)
        return self._rules_in(unit) > (THRESHOLDS.listed_rules if listed else THRESHOLDS.rules)

    def _rules_in(self, unit: TextUnit) -> int:
        """Count sentences in a unit in which no value stands, and that other requests have, too."""
        count = 0
        for start, stop, line in _sentences_in(self._text, unit.body, unit.stop):
            at = bisect_left(self._values, (start,))
            free = at == len(self._values) or self._values[at][0] >= stop
            count += free and (self._common is None or line in self._common)
        return count

    def _without_values(self, start: int, stop: int) -> str:
        pieces: list[str] = []
        at = start
        for low, high in self._values:
            if low < stop and start < high:
                pieces.append(self._text[at : max(low, at)])
                at = max(high, at)
        return " ".join([*pieces, self._text[at:stop]])

    def _with_its_pair(self, at: int) -> Movable:
        """Return a sentence with those of its line that refer to it, and that it refers to."""
        unit = self._path[at]
        start, stop = unit.start, unit.stop
        children = self._path[at - 1].children
        index = bisect_left(children, start, key=lambda child: child.start)
        while index < len(children) and children[index].start == start and children[index].kind != "statement":
            index += 1
        if index == len(children) or children[index].start != start:
            return Movable(start, stop, "statement")
        on_line = self._on_line(children, index)
        if on_line and all(has_label(self._text[child.start : child.stop]) for child in on_line):
            return Movable(on_line[0].start, on_line[-1].stop, "statement")
        for before in _statements(children, range(index - 1, -1, -1)):
            if not goes_with_previous(self._text[start:stop]) or "\n" in self._text[before.stop : start]:
                break
            start = before.start
        for behind in _statements(children, range(index + 1, len(children))):
            if (
                not goes_with_previous(self._text[behind.start : behind.stop])
                or self._text[stop : behind.start].count("\n") > 1
            ):
                break
            stop = behind.stop
        return self._with_its_heading(at, start, stop)

    def _on_line(self, children: Sequence[TextUnit], index: int) -> list[TextUnit]:
        """Return the sentences of the line that one of them is on; none where it has several lines."""
        own = children[index]
        if "\n" in self._text[own.start : own.stop]:
            return []
        low = self._text.rfind("\n", 0, own.start) + 1
        end = self._text.find("\n", own.stop)
        high = len(self._text) if end < 0 else end
        before = takewhile(lambda each: each.start >= low, _statements(children, range(index - 1, -1, -1)))
        behind = takewhile(lambda each: each.stop <= high, _statements(children, range(index + 1, len(children))))
        return [*reversed(list(before)), own, *behind]

    def _with_its_heading(self, at: int, start: int, stop: int) -> Movable:
        """Return sentences with the heading that would contain nothing without them."""
        found = Movable(start, stop, "statement")
        for above in reversed(self._path[:at]):
            low = min(above.body, start)
            if above.kind == "document" or (self._text[low:start] + self._text[stop : above.stop]).strip():
                break
            found = Movable(above.start, above.stop, above.kind if above.kind in _BLOCKS else found.kind)
        return found


def merged(units: Sequence[Movable]) -> Iterator[Movable]:
    """Yield the units in order, those that touch as one."""
    last: Movable | None = None
    for unit in sorted(units):
        if last is not None and unit.start < last.stop:
            last = Movable(last.start, max(unit.stop, last.stop), unit.kind if unit.is_block else last.kind)
            continue
        if last is not None:
            yield last
        last = unit
    if last is not None:
        yield last


def _statements(children: Sequence[TextUnit], numbers: Iterable[int]) -> Iterator[TextUnit]:
    return (children[number] for number in numbers if children[number].kind == "statement")


def are_other_rules(values: Sequence[str]) -> bool:
    """Return whether most values are whole sentences: other rules, not other values in one."""
    said = [value for value in values if value.strip()]
    if len(said) > 1 and 2 * _same_end(said) >= min(map(len, said)):
        return False  # one sentence with another value at its beginning
    whole = (is_sentence(value.rpartition(":")[2]) and words_in(value) >= _WORDS_OF_A_RULE for value in said)
    return 2 * sum(whole) > len(said)


def _same_end(texts: Sequence[str]) -> int:
    """Count characters in which all texts end alike."""
    return len(commonprefix([text[::-1] for text in texts]))  # noqa: RUF071 - of texts, character by character
