"""Slots: places in the source of prompts that vary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.compare.units import common_prefix, common_suffix
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import DETECTORS, classify, value_span
from kvtool.diagnose.values.detectors import Form
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.text.traced import Origin, Traced

MOST_SLOT_SETS = 4096
_KEEP = MOST_SLOT_SETS // 2
_SIDE = 80
"""Characters of either side that are kept."""
_LONGEST_VALUE = 512
_WIDER = 24
"""Characters by which one value may begin before, or end after, another one of the same line: `Ms. Ada` and `Ada`."""
WHOLE_LINE = "line"
"""The `kind` of a slot on a logged line whose value no detector can find again."""

_WORD = re.compile(r"[^\W\d_]{2,32}")
_WORDS_WITHIN = 64
_MOST_WORDS = 3
_LONGEST_LINE = 1 << 16
_LONGEST_MOVED = 4096


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the source of prompts that varies: a template variable, a line of a file, or a line of a logged message.

    `kind` is the key of what a logged value looks like, or of the structural change (its slot has no line). A logged slot is one
    line (`line_in_text`) of one message while the message has a fixed place, up to the first one of the user; messages after it
    shift from turn to turn, so there `part` ends with the role alone (`messages (tool)`) and `words`, the constant words around
    the value, are for the line.
    """

    path: str
    line: int
    column: int
    variable: str | None = None
    part: str = ""
    line_in_text: int = 0
    kind: str = OTHER.key
    logged: bool = False
    content_part: int | None = None
    """Which part of a logged message's content it is in, where that is a list."""
    words: str | None = None
    """The words beside the value on its line, where no line number tells it; None where `line_in_text` does."""
    frame: Frame | None = field(default=None, compare=False)
    """What is beside a logged value, as far as all values seen have it in common."""
    mixed: bool = field(default=False, compare=False)
    """Whether values of other forms than `kind` were found in the frame: it tells them then, and no detector."""

    @property
    def place(self) -> tuple[str, int, int | None, str | None]:
        """Return where a logged value stands, whatever it looks like."""
        return self.part, self.line_in_text, self.content_part, self.words


def content_part(origin: Origin) -> int | None:
    """Return the index that leads to a text in a message's list of parts."""
    return next((at for name, at in pairwise(origin.pointer) if name == "content" and isinstance(at, int)), None)


def structural_slot(part: str, kind: DifferenceKind, words: str | None = None) -> Slot:
    """Return the slot of a change of structure: one for all its occurrences in a part, wherever they stand.

    A section that is there or not is told from others by the `words` that it begins with.
    """
    return Slot("", 0, 0, part=part, kind=kind.key, logged=True, words=words)


def source_variable(origin: Origin | None, value: str) -> bool:
    """Return whether text is the value of a template variable: of a prompt's template or, in a chat template, one that is for
    a value (a date) and not for messages or tools, which are known by themselves.
    """
    if origin is None or origin.variable is None:
        return False
    if origin.part != "chat template":
        return True
    return kind_of_name(origin.variable) is not None or classify(value).key not in (OTHER.key, "number")


def variable_place(origin: Origin) -> tuple[str, int, int]:
    """Return file, line and column of a template variable; in one of many files its name alone tells it."""
    return ("", 0, 0) if origin.one_of_many else (origin.path, origin.line, origin.column)


def source_slot(origin: Origin, kind: DifferenceKind) -> Slot | None:
    """Return the slot of a change of structure in text that a template variable or a file brought; None for text of a log."""
    if origin.variable is not None:
        return Slot(*variable_place(origin), variable=origin.variable, part=origin.part, kind=kind.key)
    if not origin.shared:
        return None
    return Slot(origin.path, origin.line, 1, part=origin.part, kind=kind.key)


def value_slot(
    text: str, origin: Origin | None, offset: int, low: int, high: int, kind: DifferenceKind, *, shifting: str | None
) -> Slot:
    """Return the slot of the value `text[low:high]`, whose first character is at `offset` of its origin's text.

    `shifting` names the part where it is on other lines, or in another message, in other turns; None for a fixed place.
    """
    if origin is not None and origin.variable is not None:
        return Slot(*variable_place(origin), variable=origin.variable, part=origin.part)
    if origin is not None and origin.shared:
        line, _ = origin.position(offset)
        return Slot(origin.path, line, 1, part=origin.part)
    frame = None
    if origin is not None and origin.text:
        start = max(low - offset, 0)
        frame = Frame.around(text, low, high, start, start + len(origin.text))
    if shifting is not None:
        words = "" if kind is OTHER else words_around(text, low, high)
        return Slot("", 0, 0, part=shifting, kind=kind.key, logged=True, words=words, frame=frame)
    if origin is None:
        return Slot("", 0, 0, part="chat template", line_in_text=text.count("\n", 0, low), kind=kind.key)
    line = origin.lines.number(offset) - 1
    part = content_part(origin)
    key = WHOLE_LINE if kind is OTHER else kind.key
    return Slot("", 0, 0, part=origin.part, line_in_text=line, kind=key, logged=True, content_part=part, frame=frame)


def words_around(text: str, low: int, high: int) -> str:
    """Return the last words before `text[low:high]` on its line, else the first ones after it."""
    if before := words_before(text, low):
        return before
    behind = str.__getitem__(text, slice(high, high + _WORDS_WITHIN))
    return " ".join(_WORD.findall(behind.split("\n", 1)[0])[:_MOST_WORDS])


def words_before(text: str, low: int) -> str:
    """Return the last words before `text[low:]` on its line."""
    before = str.__getitem__(text, slice(max(low - _WORDS_WITHIN, 0), low))
    return " ".join(_WORD.findall(before[before.rfind("\n") + 1 :])[-_MOST_WORDS:])


def places_in_log(text: Traced, slot: Slot) -> Iterator[tuple[int, int]]:
    """Yield where values of a logged slot begin and end in the text of a message; logs have no template that would say more.

    Lines are those of the log: a text from which other lines were taken still has the slot's line. Where the words
    before the value name it, and no detector, its whole line is meant, up to 4,096 characters.
    """
    plain = str.__str__(text)
    patterns = _patterns_of(slot.kind)
    at = 0
    for length, origin, offset in text.marks:
        start, at = at, at + length
        if origin is None:
            continue
        if slot.words is not None:
            if origin.part.endswith(slot.part.removeprefix("messages ")):
                yield from _places_by_words(plain, start, at, slot, slot.words, patterns)
        elif (origin.part, content_part(origin)) == (slot.part, slot.content_part):
            first = origin.lines.number(offset) - 1 if origin.text else plain.count("\n", 0, start)
            line = nth_line(plain, start, at, slot.line_in_text - first)
            found = None if line is None else _value_on(plain, *line, slot, patterns)
            if found is not None:
                yield found
                return


def is_found_again(slot: Slot) -> bool:
    """Return whether a detector finds the values of a logged slot on their line: words before them may alone have told what they
    are.
    """
    return slot.kind != WHOLE_LINE and bool(_patterns_of(slot.kind))


@lru_cache(maxsize=64)
def _patterns_of(key: str) -> list[Form]:
    """Return the detectors of a kind."""
    return [pattern for kind, pattern in DETECTORS if kind.key == key]


def _value_on(text: str, start: int, stop: int, slot: Slot, patterns: list[Form]) -> tuple[int, int] | None:
    """Return the first value on a line."""
    line = text[start : min(stop, start + _LONGEST_LINE)]
    framed = in_frame(line, slot)
    if slot.mixed and framed is not None:
        return start + framed[0], start + framed[1]
    plain = plain_signs(line)
    for pattern in patterns:
        spans = [value_span(value) for value in pattern.finditer(plain)]
        if spans:  # of several the one that varies, not the number of the line in its list
            inside = (span for span in spans if framed is not None and span[0] < framed[1] and framed[0] < span[1])
            low, high = next(inside, spans[0])
            return start + low, start + high
    named = slot.kind != OTHER.key
    return (start, stop) if named and not patterns and 0 < stop - start <= _LONGEST_MOVED else None


def in_frame(line: str, slot: Slot) -> tuple[int, int] | None:
    """Return the value of a slot on a line: what is between the words that are around all of its values."""
    found = None if slot.frame is None else slot.frame.value_in(f"\n{line}\n")
    return None if found is None else (found[0] - 1, found[1] - 1)


def _places_by_words(
    text: str, start: int, stop: int, slot: Slot, words: str, patterns: list[Form]
) -> Iterator[tuple[int, int]]:
    """Yield the values of a slot in `text[start:stop]` beside which these words stand."""
    first = words.split(" ", 1)[0]
    while start < stop:
        end = text.find("\n", start, stop)
        end = stop if end < 0 else end
        line = text[start : min(end, start + _LONGEST_LINE)]
        if first in line:
            plain = plain_signs(line)
            framed = in_frame(line, slot) if slot.mixed and words else None
            if framed is not None:
                yield start + framed[0], start + framed[1]
            for pattern in patterns if framed is None else ():
                spans = [value_span(value) for value in pattern.finditer(plain)]
                here = [span for span in spans if words_around(line, *span) == words]
                yield from ((start + low, start + high) for low, high in here)
                if here:
                    break
        start = end + 1


def nth_line(text: str, start: int, stop: int, number: int) -> tuple[int, int] | None:
    """Return line `number` (0 is the one that `start` is on) of `text[start:stop]`, without its newline; None where there is
    none.
    """
    for _ in range(number):
        start = text.find("\n", start, stop) + 1
        if not start:
            return None
    if number < 0 or start >= stop:
        return None
    end = text.find("\n", start, stop)
    return start, stop if end < 0 else end


class Frame(NamedTuple):
    """The text before and after a value on its line; a line end in it is where the line begins or ends."""

    before: str
    after: str

    @classmethod
    def around(cls, text: str, low: int, high: int, start: int, stop: int) -> Frame:
        """Return the frame of `text[low:high]` in a message that is `text[start:stop]`."""
        plain = str.__str__(text)
        first = plain.rfind("\n", max(low - _SIDE, start), low) + 1
        before = f"\n{plain[first:low]}" if first else plain[max(low - _SIDE, start) : low]
        if not first and low - _SIDE <= start:
            before = f"\n{before}"
        end = plain.find("\n", high, min(high + _SIDE, stop))
        after = f"{plain[high:end]}\n" if end >= 0 else plain[high : min(high + _SIDE, stop)]
        if end < 0 and high + _SIDE >= stop:
            after += "\n"
        return cls(before, after)

    def narrowed(self, other: Frame) -> Frame:
        """Return what two values of a slot have beside them alike."""
        if other.before.endswith(self.before) and other.after.startswith(self.after):
            return self
        return Frame(_before_both(self.before, other.before), _tokens_after_both(self.after, other.after))

    @property
    def is_specific(self) -> bool:
        """Return whether it says where a value begins and ends, and not of every line."""
        if not self.before or not self.after or not f"{self.before}{self.after}".strip():
            return False
        return all(side.strip() or "\n" in side for side in self)

    def value_in(self, line: str) -> tuple[int, int] | None:
        """Return where the value is in a line that has the frame; the line has a line end before and after it where it is
        whole.
        """
        if not self.is_specific:
            return None
        start = line.find(self.before)
        if start < 0:
            return None
        start += len(self.before)
        stop = line.find(self.after, start)
        return (start, stop) if start < stop <= start + _LONGEST_VALUE else None


def _before_both(one: str, other: str) -> str:
    """Return what is before two values: from the beginning of the line to the one that begins first, else what they end with
    alike.
    """
    short, long = sorted((one, other), key=len)
    if short.startswith("\n") and len(short) > 1 and long.startswith(short) and len(long) - len(short) <= _WIDER:
        return short
    return short[len(short) - common_suffix(short, long, len(short)) :]


def _tokens_after_both(one: str, other: str) -> str:
    """Return the same after two values."""
    short, long = sorted((one, other), key=len)
    if short.endswith("\n") and len(short) > 1 and long.endswith(short) and len(long) - len(short) <= _WIDER:
        return short
    return short[: common_prefix(short, long)]


SlotSet = tuple[Slot, ...]


class SlotSets:
    """Tokens by the distinct slots that are before them, in the order in which they are there; bounded.

    `tokens` are those that are blocked, `hits` those that a cache would give in whole blocks if the slots were closed.
    """

    def __init__(self) -> None:
        self.tokens: Counter[SlotSet] = Counter()
        self.hits: Counter[SlotSet] = Counter()

    def add(self, slot_set: SlotSet, tokens: int) -> None:
        """Count tokens after these slots."""
        self.tokens[slot_set] += tokens
        if len(self.tokens) > MOST_SLOT_SETS:
            self._merge()

    def promise(self, slot_set: SlotSet, hits: int) -> None:
        """Count what closing these slots would add to the hits of a request in which all but the last of them are closed."""
        self.hits[slot_set] += hits
        if len(self.hits) > MOST_SLOT_SETS:
            self._merge()

    def scale(self, weight: float) -> None:
        """Count every token as so many."""
        for counts in (self.tokens, self.hits):
            for slot_set in counts:
                counts[slot_set] = round(counts[slot_set] * weight)

    def predicted(self, slots: Collection[Slot]) -> int:
        """Count hits after nothing but these slots."""
        closed = frozenset(slots)
        return sum(hits for slot_set, hits in self.hits.items() if closed.issuperset(slot_set))

    def behind(self, slot: Slot) -> int:
        """Count tokens after a slot, whichever others are there, too."""
        return sum(tokens for slot_set, tokens in self.tokens.items() if slot in slot_set)

    def _merge(self) -> None:
        """Keep the weightiest half; what was after another slot_set counts after the longest kept one that it begins with.

        A slot_set without such a beginning goes to the slot that it begins with, so no token is lost.
        """
        kept = {slot_set for slot_set, _ in self.tokens.most_common(_KEEP)}
        self.tokens = _merged(self.tokens, kept)
        self.hits = _merged(self.hits, kept)


def _merged(counts: Counter[SlotSet], kept: Collection[SlotSet]) -> Counter[SlotSet]:
    merged: Counter[SlotSet] = Counter()
    for slot_set, count in counts.items():
        length = next((n for n in range(len(slot_set), 0, -1) if slot_set[:n] in kept), 1)
        merged[slot_set[:length]] += count
    return merged
