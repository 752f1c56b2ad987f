"""Targets of a move: the places of a slot's values in a text, and the sections that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.diagnose.codes.values.kv107 import KV107, OPTIONAL
from kvtool.diagnose.slots import Slot, in_frame, nth_line, places_in_log, variable_place, words_around
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import DETECTORS, value_span
from kvtool.fixes.moves.inserted_content import WrittenAt, values_of
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.moves.optional_lines import LinesWithout
from kvtool.fixes.turn_texts import role_of_part, texts_of
from kvtool.text.structure.framed_blocks import framed_blocks
from kvtool.text.traced import Traced, line_around, marks_of
from kvtool.workload.turn import Turn

_MOST = 131_072
"""Texts whose units are remembered, some 150 bytes each; those that come later are read again each time."""


class UnitMemo:
    """The units that can move of texts that were asked for, by all that they depend on: text, role, and where it was written."""

    __slots__ = ("_alike", "_known")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Movable, ...]] = {}
        self._alike: dict[tuple[Movable, ...], tuple[Movable, ...]] = {}
        """The same units, each once: most texts of one template have theirs at the same few places."""

    def __len__(self) -> int:
        return len(self._known)

    def since(self, count: int) -> list[tuple[int, tuple[Movable, ...]]]:
        """Return what was learned after so many texts."""
        return list(islice(self._known.items(), count, None))

    def learn(self, found: list[tuple[int, tuple[Movable, ...]]]) -> None:
        """Add what a copy of this process has learned."""
        for key, units in found[: max(_MOST - len(self._known), 0)]:
            self._known[key] = self._once(units)

    def _once(self, units: tuple[Movable, ...]) -> tuple[Movable, ...]:
        return self._alike.setdefault(units, units)

    def of(self, text: str, role: str, find: Callable[[], Iterable[Movable | str]]) -> tuple[Movable, ...]:
        """Return the units of a text; `find` gives them, and reasons for others, where they are not known."""
        marks = tuple((*mark, "" if mark.origin is None else mark.origin.text) for mark in marks_of(text))
        key = hash((str.__str__(text), role, marks))
        units = self._known.get(key)
        if units is None:
            units = tuple(unit for unit in find() if isinstance(unit, Movable))
            if len(self._known) < _MOST:
                self._known[key] = self._once(units)
        return units


BLOCK_CODES = (KV106.code, KV107.code)
"""Codes of causes that vary by whole blocks of lines."""

_MOST_LINES = 20_000
_MOST_BEFORE = 80
_LOOKED_AT = 8
_LEAST_COMPARED = 4
_COMPARED = 32
_MOST_PREFIXES = 8
_MOST_TEXTS = 256
_MOST_SECTIONS = 16


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """The target of a move: the units around the values of a slot, or whole sections.

    `steady` are lines that most requests have: a block of paths ends there (None: there is no such block). `sections` are
    texts of whole lines that are in some requests and not in others; they are looked for in place of the slot, with the whole
    blocks that the lines `heads` introduce. `before` is what is before a logged value on its line (None: anything): once the
    value is gone, another one must not be taken for it.
    """

    slot: Slot
    steady: frozenset[str] | None = None
    sections: tuple[str, ...] = ()
    heads: frozenset[str] = frozenset()
    before: frozenset[str] | None = None
    beside: tuple[str, str] = ("", "")
    common: frozenset[str] | None = None
    """The lines that two of three of a few requests have; None where nothing is known of other requests."""
    constant: frozenset[WrittenAt] = frozenset()
    """Where templates write values that are the same in all requests: units may move past them."""
    without: LinesWithout | None = None
    """The lines of requests without the value; None where all have it."""
    held: UnitMemo = field(default_factory=UnitMemo, init=False, repr=False, compare=False)


def target_of(cause: SlotCause, samples: Sequence[Turn]) -> MoveTarget:
    """Return what of a cause is to be moved, as far as requests of its group show it."""
    slot = cause.slot
    if cause.kind.key == OPTIONAL.key and slot.variable is None:
        sections, common = _sections(cause, samples), _common(samples)
        if sections or (slot := _slot_within(cause)) == cause.slot:
            return MoveTarget(slot, sections=sections, heads=_heads(cause, samples, sections, common), common=common)
    before = _all_before(slot, samples) if slot.logged else None
    constant = frozenset[WrittenAt]() if slot.logged else _constant(samples)
    target = MoveTarget(
        slot,
        before=before,
        beside=_beside(cause, samples),
        common=_common(samples),
        constant=constant,
        without=_lines_without(cause, slot, samples),
    )
    if cause.kind.code not in BLOCK_CODES or len(samples) < 2:
        return target
    texts = [
        dict.fromkeys(str.__str__(at.text).split("\n"))  # no set: its order differs from run to run
        for turn in samples
        for at in texts_of(turn)
        if _may_hold(at.role, cause)
    ]
    counts = Counter(line for lines in texts for line in lines)
    steady = (line for line, count in counts.most_common(_MOST_LINES) if 2 * count > len(texts))
    return replace(target, steady=frozenset(steady))


def _slot_within(cause: SlotCause) -> Slot:
    """Return the slot of the value that a detector finds in an optional line beside its words; the line's own where none does.

    No request has the same line where a value in it changes, so there is no section to look for.
    """
    line = plain_signs(cause.excerpt)
    found = ((kind, value_span(value)) for kind, pattern in DETECTORS for value in pattern.finditer(line))
    kinds = (kind.key for kind, span in found if words_around(cause.excerpt, *span) == cause.slot.words)
    return replace(cause.slot, kind=next(kinds, cause.slot.kind))


def _lines_without(cause: SlotCause, slot: Slot, samples: Sequence[Turn]) -> LinesWithout | None:
    """Return the lines of the texts of a cause's role that do not have its value."""
    texts = dict.fromkeys(Traced(at.text) for turn in samples for at in texts_of(turn) if _may_hold(at.role, cause))
    without = [text for text in islice(texts, _MOST_TEXTS) if next(places_of(text, slot), None) is None]
    return LinesWithout(without) if without else None


def _common(samples: Sequence[Turn]) -> frozenset[str] | None:
    """Return the lines that two of three of a few requests have, the spaces at their ends left out."""
    if len(samples) < _LEAST_COMPARED:
        return None
    looked = samples[:: max(len(samples) // _LOOKED_AT, 1)][:_LOOKED_AT]
    counts = Counter(
        line
        for turn in looked
        for line in {line.rstrip() for at in texts_of(turn) for line in str.__str__(at.text).split("\n", _MOST_LINES)}
    )
    return frozenset(line for line, count in counts.items() if 3 * count >= 2 * len(looked))


def _constant(samples: Sequence[Turn]) -> frozenset[WrittenAt]:
    """Return where templates write the same values in each of a few requests."""
    known: dict[WrittenAt, list[str]] = {}
    changing: set[WrittenAt] = set()
    for turn in samples[:: max(len(samples) // _COMPARED, 1)]:
        found: dict[WrittenAt, list[str]] = {}
        for at in texts_of(turn):
            text = Traced(at.text)
            for start, stop, place in values_of(text):
                found.setdefault(place, []).append(text[start:stop])
        changing.update(place for place, values in found.items() if known.setdefault(place, values) != values)
    return frozenset(known.keys() - changing) if len(samples) > 1 else frozenset()


def _beside(cause: SlotCause, samples: Sequence[Turn]) -> tuple[str, str]:
    """Return what is beside the value on its line, where that is so in most of a few requests: else more of the line varies."""
    beside = cause.excerpt[: cause.value_start], cause.excerpt[cause.value_stop :]
    target = MoveTarget(cause.slot, beside=beside)
    seen = narrowed = 0
    for turn in with_value(samples, target):
        for at in texts_of(turn):
            text = Traced(at.text)
            for start, stop in places_of(text, cause.slot):
                seen += 1
                narrowed += value_in(text, start, stop, target) != (start, stop)
    return beside if 2 * narrowed >= seen else ("", "")


def _all_before(slot: Slot, samples: Sequence[Turn]) -> frozenset[str] | None:
    """Return what is before the slot's values on their lines; None where that varies too much to be told."""
    found: set[str] = set()
    for turn in samples:
        for at in texts_of(turn):
            text = Traced(at.text)
            found.update(_before(text, start) for start, _ in places_of(text, slot))
        if len(found) > _MOST_PREFIXES:
            return None
    return frozenset(found) or None


def _may_hold(role: str, cause: SlotCause) -> bool:
    return role == role_of_part(cause.slot.part) or (not role and not cause.slot.part.endswith(")"))


def _sections(cause: SlotCause, samples: Sequence[Turn]) -> tuple[str, ...]:
    """Return the runs of lines that at least two requests have word for word and another has not, the longest first."""
    found: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    for turn in samples:
        texts.update(str.__str__(at.text) for at in texts_of(turn) if _may_hold(at.role, cause))
    kept = list(texts.items())[:_MOST_TEXTS]
    total = sum(times for _, times in kept)
    counts: Counter[str] = Counter()
    for text, times in kept:
        counts.update(dict.fromkeys(text.split("\n"), times))
    for text, times in kept:
        run: list[str] = []
        for line in [*text.split("\n"), None]:
            if line is not None and (1 < counts[line] < total or (run and not line.strip())):
                run.append(line)
                continue
            while run and not run[-1].strip():
                run.pop()
            if run:
                found["\n".join(run)] += times
            run = []
    often = [text for text, count in found.items() if count > 1]
    return tuple(sorted(often, key=lambda text: (-len(text), text))[:_MOST_SECTIONS])


def _heads(
    cause: SlotCause, samples: Sequence[Turn], sections: Sequence[str], common: frozenset[str] | None
) -> frozenset[str]:
    """Return the first lines of blocks that contain a section, and no line that most requests have: notes that grow, say. A section
    is then what two requests happen to share of such a block, which is one unit.
    """
    if common is None:
        return frozenset()
    found: set[str] = set()
    steady: set[str] = set()
    texts = (str.__str__(at.text) for turn in samples for at in texts_of(turn) if _may_hold(at.role, cause))
    for text in islice(dict.fromkeys(texts), _MOST_TEXTS):
        for block in framed_blocks(text):
            said = text[block.start : block.stop]
            lines = [line.rstrip() for line in said.split("\n")[1:]]
            if any(line in common and line.strip() and not line.lstrip().startswith("</") for line in lines):
                steady.add(block.head)
            elif any(section in said for section in sections):
                found.add(block.head)
    return frozenset(found - steady)


def with_value(samples: Iterable[Turn], target: MoveTarget, most: int = _LOOKED_AT) -> list[Turn]:
    """Return the first few samples that have the value of a target, however many without it are before and among them."""
    return list(islice((turn for turn in samples if has_value(turn, target)), most))


def has_value(turn: Turn, target: MoveTarget) -> bool:
    """Return whether a request has the value of a target, or one of its sections."""
    return any(
        next(places_at(Traced(at.text), target), None) is not None
        or any(section in str.__str__(at.text) for section in target.sections)
        for at in texts_of(turn)
    )


def places_at(text: Traced, target: MoveTarget) -> Iterator[tuple[int, int]]:
    """Yield where the values of the target's slot begin and end."""
    for start, stop in places_of(text, target.slot):
        if target.before is None or _before(text, start) in target.before:
            yield start, stop


def _before(text: Traced, start: int) -> str:
    return str.__getitem__(text, slice(max(line_around(text, start)[0], start - _MOST_BEFORE), start))


def places_of(text: Traced, slot: Slot) -> Iterator[tuple[int, int]]:
    """Yield where the slot's values begin and end; where it is a line of a file, the whole line is meant."""
    if slot.logged:
        yield from places_in_log(text, slot)
        return
    plain = str.__str__(text)
    at = 0
    for length, origin, offset in text.marks:
        if origin is not None and origin.variable is not None:
            here = (slot.path, slot.line, slot.column) == variable_place(origin)
            if here and origin.variable == slot.variable and (slot.path or origin.part == slot.part):
                yield at, at + length
        elif origin is not None and origin.path == slot.path and origin.shared and slot.variable is None:
            found = nth_line(plain, at, at + length, slot.line - origin.position(offset)[0])
            if found is not None:
                yield found
        at += length


def value_in(text: str, start: int, stop: int, target: MoveTarget) -> tuple[int, int]:
    """Return the value on a line that is a slot as a whole, as far as what was beside it in other requests tells."""
    before, behind = target.beside
    line = str.__getitem__(text, slice(start, stop))
    narrower = (before or behind) and len(before) + len(behind) < len(line)
    if narrower and line.startswith(before) and line.endswith(behind):
        return start + len(before), stop - len(behind)
    framed = in_frame(line, target.slot) if target.slot.logged else None
    return (start, stop) if framed is None else (start + framed[0], start + framed[1])
