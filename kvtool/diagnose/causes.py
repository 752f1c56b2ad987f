"""What stands at the place where prompts of a group first differ although the same text follows: the causes of blocked tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from kvtool.diagnose.classify import OTHER, Kind, classify, classify_in
from kvtool.ledger.ledger import Gap
from kvtool.prompt import Prompt
from kvtool.text import Origin, Traced, line_around

_MOST_VALUES = 100_000
_EXCERPT = 160


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the source of prompts that varies: a template variable, a line of a file, or a line of a logged message."""

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


@dataclass(slots=True)
class Cause:
    """A slot and what it blocks in one group. `excerpt` is its line in a prompt, with the range of the value in it."""

    group: str
    slot: Slot
    kind: Kind
    origin: Origin | None
    offset: int
    excerpt: str
    value_start: int
    value_stop: int
    first_token: int
    requests: int = 0
    blocked: int = 0
    values: set[int] = field(default_factory=set)

    @property
    def distinct(self) -> int:
        """How many values it took (counted up to 100,000)."""
        return len(self.values)


class CauseBook:
    """Collects causes; holds one example and a count of each, never prompts."""

    def __init__(self) -> None:
        self._causes: dict[tuple[str, Slot], Cause] = {}

    def add(self, group: str, prompt: Prompt, gap: Gap) -> None:
        """Enter a gap of a prompt that has text."""
        text = prompt.text
        found = prompt.char_range(min(gap.start, len(prompt) - 1))
        if text is None or found is None:
            return
        start = found[0]
        last = prompt.char_range(gap.stop - 1) if gap.stop > gap.start else None
        kind, low, high, origin, offset = _value_at(text, start, max(last[1] if last else start, start))
        slot = _slot(text, origin, offset, low, kind)
        cause = self._causes.get((group, slot))
        if cause is None:
            line_start, line_stop = line_around(text, low)
            line_start = max(line_start, low - _EXCERPT // 2)
            excerpt = str.__getitem__(text, slice(line_start, min(line_stop, line_start + _EXCERPT))).rstrip("\r\n")
            cause = self._causes[group, slot] = Cause(
                group, slot, kind, origin, offset, excerpt, low - line_start, high - line_start, gap.start
            )
        cause.requests += 1
        cause.blocked += gap.blocked
        cause.first_token = min(cause.first_token, gap.start)
        if len(cause.values) < _MOST_VALUES:
            cause.values.add(hash(str.__getitem__(text, slice(low, high))))

    def of_group(self, group: str) -> list[Cause]:
        """The causes of a group, the costliest first."""
        causes = [cause for cause in self._causes.values() if cause.group == group]
        return sorted(causes, key=lambda cause: (-cause.blocked, cause.first_token))

    def __iter__(self) -> Iterator[Cause]:
        return iter(self._causes.values())


def _value_at(text: Traced, start: int, stop: int) -> tuple[Kind, int, int, Origin | None, int]:
    """The varying value around `text[start:stop]`: its kind, its range, and where it comes from.

    What a template variable produced is one value. Elsewhere the detectors find its range; as text behind it may differ too, what
    they find at the first differing character counts where the whole difference has no name.
    """
    origin, offset = None, 0
    at = 0
    for length, source, begins in text.marks:
        if at >= max(stop, start + 1):
            break
        if at + length > start and source is not None:
            if source.variable is not None:
                value = str.__getitem__(text, slice(at, at + length))
                return classify(value), at, at + length, source, begins
            if origin is None:
                origin, offset = source, begins + max(start - at, 0)
        at += length
    kind, low, high = classify_in(text, start, stop)
    if kind is OTHER:
        kind, low, high = classify_in(text, start, start)
    return kind, low, high, origin, max(offset - (start - low), 0)


def _slot(text: Traced, origin: Origin | None, offset: int, low: int, kind: Kind) -> Slot:
    if origin is None:
        return Slot("", 0, 0, part="chat template", line_in_text=text.count("\n", 0, low), kind=kind.key)
    if origin.variable is not None:
        return Slot(origin.path, origin.line, origin.column, variable=origin.variable, part=origin.part)
    if origin.pointer or not origin.verbatim:
        line = origin.text.count("\n", 0, offset)
        part = content_part(origin)
        return Slot("", 0, 0, part=origin.part, line_in_text=line, kind=kind.key, logged=True, content_part=part)
    line, _ = origin.position(offset)
    return Slot(origin.path, line, 1, part=origin.part)


def content_part(origin: Origin) -> int | None:
    """The index that leads to a text in a message's list of parts."""
    return next((at for name, at in pairwise(origin.pointer) if name == "content" and isinstance(at, int)), None)
