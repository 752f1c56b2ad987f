"""Move volatile text behind the shared text: a line, a sentence, a block of lines or a whole optional section (tier P2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.diagnose.causes import SlotCause
from kvtool.diagnose.classify import DETECTORS
from kvtool.diagnose.codes.kv106 import KV106
from kvtool.diagnose.codes.kv107 import KV107
from kvtool.diagnose.slots import Slot, nth_line, places_in_log
from kvtool.fixes.turn_texts import role_of_part, texts_of
from kvtool.text.message import Message, role_of
from kvtool.text.rearranged import rearranged
from kvtool.text.traced import Traced, concat, line_around
from kvtool.workload.turn import Turn

LONG_LINE = 240
"""Characters beyond which only the sentence around the value is moved, not its whole line."""

_SAID_THERE = ("user", "tool")
_STAYS_THERE = (*_SAID_THERE, "assistant")
_SENTENCE_END = re.compile(r"[.!?]\s+")
_ROW = re.compile(r"[ \t]*[│├└─|`+*-]|[ MADRCU?!]{2} \S|(?:modified|new file|deleted|renamed|On branch)\b")
_BLOCK_CODES = (KV106.code, KV107.code)
_MOST_LINES = 20_000
_LONGEST_BLOCK = 500
_HEADING = 80
_MOST_BEFORE = 80
_MOST_PREFIXES = 8
_MOST_TEXTS = 256
_MOST_SECTIONS = 16
_MOST_PLACES = 200
Range = tuple[int, int]
_OPENING = re.compile(r"<([\w.-]{1,40})(?: [^<>\n]{0,200})?>")


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """What is to be moved: the lines of a slot, grown to the block around them, or whole sections.

    `steady` are lines that most requests have: a block ends there (None: the lines of the value alone are meant). `sections` are
    texts of whole lines that stand in some requests and not in others; they are looked for in place of the slot. `before` is what
    stands before a logged value on its line (None: anything): once the value is gone, another one must not be taken for it.
    """

    slot: Slot
    steady: frozenset[str] | None = None
    sections: tuple[str, ...] = ()
    before: frozenset[str] | None = None


def target_of(cause: SlotCause, samples: Sequence[Turn]) -> MoveTarget:
    """What of a cause is to be moved, as far as requests of its group show it."""
    if cause.kind.code == KV107.code and cause.slot.variable is None:
        return MoveTarget(cause.slot, sections=_sections(cause, samples))
    target = MoveTarget(cause.slot, before=_all_before(cause.slot, samples) if cause.slot.logged else None)
    if cause.kind.code not in _BLOCK_CODES or len(samples) < 2:
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


def _all_before(slot: Slot, samples: Sequence[Turn]) -> frozenset[str] | None:
    """What stands before the slot's values on their lines; None where that varies too much to be told."""
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
    """The runs of lines that at least two requests have word for word and another has not, the longest first."""
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


def move_targets(turn: Turn, targets: Sequence[MoveTarget], *, within: bool = False) -> Turn:
    """The turn with what the targets name at the end of its last message; the very turn where that changes nothing.

    What a user, a tool or the model said stays in the message in which it was said, and goes to the end of that. `within` does so
    with everything: nothing changes its role.
    """
    if turn.text is not None:
        end = _body_end(turn.text)
        kept, last_lines = _parted(turn.text, targets, "", end)
        if not last_lines:
            return turn
        text = _with_its_lines_last(turn.text, kept, last_lines, end)
        return turn if _same(turn.text, text, targets) else turn.with_text(text)
    messages = [dict(message) for message in turn.messages or ()]
    last = next((each for each in reversed(messages) if role_of(each) in _SAID_THERE), messages[-1] if messages else {})
    lines: list[Traced] = []
    for message in messages:
        stays = within or role_of(message) in _STAYS_THERE
        tail = _take_line_ends(message) if stays or message is last else Traced("")
        moved = _take_from_message(message, targets)
        if moved and stays:
            _append(message, moved, tail)
        elif moved:
            lines += moved
        if lines and message is last:
            _append(message, lines, tail)
            lines = []
        _append_text(message, tail)
    if lines:  # of messages behind that
        tail = _take_line_ends(last)
        _append(last, lines, tail)
        _append_text(last, tail)
    for index, (was, now) in enumerate(zip(turn.messages or (), messages, strict=True)):
        before, after = was.get("content"), now.get("content")
        if isinstance(before, str) and isinstance(after, str) and _same(before, after, targets):
            messages[index] = was
    return turn if messages == (turn.messages or []) else replace(turn, messages=messages)


def _same(before: str, after: str, targets: Sequence[MoveTarget]) -> bool:
    """Whether nothing was moved: a section that stands at the end already stays there, with the blank lines before it."""
    if before == after or not any(target.sections for target in targets):
        return before == after
    said = [[line for line in str.__str__(text).split("\n") if line.strip()] for text in (before, after)]
    return said[0] == said[1]


def destination(slot: Slot, *, within: bool = False) -> str:
    """In words, where `move_targets` brings the slot's line."""
    if within or slot.part.endswith(tuple(f"({role})" for role in _STAYS_THERE)):
        return "the end of its message"
    in_message = slot.part == "system" or slot.part.endswith(")")
    return "the end of the last message" if in_message else "the end of the prompt"


def _take_from_message(message: Message, targets: Sequence[MoveTarget]) -> list[Traced]:
    content = message.get("content")
    if isinstance(content, str):
        message["content"], moved = _take(content, targets, role_of(message))
        return moved
    moved = []
    if isinstance(content, list):
        parts = [dict(part) if isinstance(part, dict) else part for part in content]
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                part["text"], taken = _take(part["text"], targets, role_of(message))
                moved += taken
        message["content"] = parts
    return moved


def _append(message: Message, lines: list[Traced], tail: str) -> None:
    _set_last_text(message, _with_lines(_last_text(message) or "", lines, tail))


def _append_text(message: Message, text: str) -> None:
    if text:
        _set_last_text(message, concat([_last_text(message) or "", text]))


def _take_line_ends(message: Message) -> Traced:
    """Take the line ends at the end of a message: they stay its end, whatever is put before them."""
    text = _last_text(message)
    if text is None or (end := _body_end(text)) == len(text):
        return Traced("")
    traced = text if isinstance(text, Traced) else Traced(text)
    _set_last_text(message, traced[:end])
    return traced[end:]


def _body_end(text: str) -> int:
    """Where the line ends at the end of a text begin."""
    return len(str.__str__(text).rstrip("\r\n"))


def _last_text(message: Message) -> str | None:
    """The text that lines are put behind; None where a new part is needed for them."""
    content = message.get("content")
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    last = content[-1] if content else None
    text = last.get("text") if isinstance(last, dict) else None
    return text if isinstance(text, str) else None


def _set_last_text(message: Message, text: str) -> None:
    content = message.get("content")
    if not isinstance(content, list):
        message["content"] = text
    elif _last_text(message) is None:
        message["content"] = [*content, {"type": "text", "text": text}]
    else:
        message["content"] = [*content[:-1], {**content[-1], "text": text}]


def _with_lines(text: str, lines: list[Traced], tail: str) -> Traced:
    """The text and then the lines, before the line ends of `tail`; what stood at the end already is not set apart any further."""
    end = "\r\n" if tail.startswith("\r\n") else "\n"
    gap = end if text and not text.endswith("\n") else ""
    return concat([text, gap, Traced("\n").join(lines)])


def _take(text: str, targets: Sequence[MoveTarget], role: str) -> tuple[Traced, list[Traced]]:
    """The text without what the targets name, and that."""
    traced = text if isinstance(text, Traced) else Traced(text)
    kept, moved = _parted(traced, targets, role)
    return (rearranged(traced, kept) if moved else traced), [traced[low:high] for low, high in moved]


def _parted(
    text: str, targets: Sequence[MoveTarget], role: str, end: int | None = None
) -> tuple[list[Range], list[Range]]:
    """What stays of a text up to `end` (None: all of it), and what the targets name, without its line ends."""
    traced = text if isinstance(text, Traced) else Traced(text)
    units: list[Range] = []
    for start, stop in sorted(place for target in targets for place in _units(traced, target, role)):
        if units and start < units[-1][1]:
            units[-1] = units[-1][0], max(stop, units[-1][1])
        else:
            units.append((start, stop))
    kept: list[Range] = []
    moved: list[Range] = []
    at = 0
    end = len(traced) if end is None else end
    plain = str.__str__(traced) if units else ""
    for low, high in ((low, min(high, end)) for low, high in units if low < end):
        kept.append((at, low))
        unit = plain[low:high]
        first = low + len(unit) - len(unit.lstrip("\r\n"))
        moved.append((first, max(first, low + len(unit.rstrip("\r\n")))))
        at = high
    return [*kept, (at, end)], moved


def _with_its_lines_last(text: Traced, kept: list[Range], moved: list[Range], end: int) -> Traced:
    """`_with_lines` of ranges of one text, whose last line ends begin at `end`."""
    last = next((stop for start, stop in reversed(kept) if start < stop), 0)
    parts: list[Range | str] = list(kept)
    if last and not str.endswith(text, "\n", 0, last):
        parts.append("\r\n" if str.startswith(text, "\r\n", end) else "\n")
    for number, lines in enumerate(moved):
        parts += ["\n", lines] if number else [lines]
    return rearranged(text, [*parts, (end, len(text))])


def _units(text: Traced, target: MoveTarget, role: str) -> Iterator[tuple[int, int]]:
    if target.sections:
        if not role or role == role_of_part(target.slot.part):
            yield from _places_of_sections(str.__str__(text), target.sections)
        return
    for start, stop in places_at(text, target):
        low, high = unit_around(text, start, stop)
        if target.steady is not None:
            low, high = _framed(text, *_grown(text, low, high, target.steady))
        yield low, high


def _places_of_sections(text: str, sections: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where the sections stand as whole lines; longer ones come first and keep what is theirs."""
    taken: list[tuple[int, int]] = []
    for section in sections:
        at = -1
        while (at := text.find(section, at + 1)) >= 0:
            stop = at + len(section)
            whole = (not at or text[at - 1] == "\n") and (stop == len(text) or text[stop] == "\n")
            if whole and all(stop <= low or high <= at for low, high in taken):
                taken.append((at, stop))
                yield _with_its_gap(text, at, stop)
                at = stop - 1
            if len(taken) >= _MOST_PLACES:
                return


def _with_its_gap(text: str, start: int, stop: int) -> tuple[int, int]:
    """A section with what parts it from the rest, so that what is left is what requests without the section have."""
    if not text[stop:].strip("\n"):
        while start and text[start - 1] == "\n":
            start -= 1
        return start, len(text)
    stop += 1
    while (not start or text[max(start - 2, 0) : start] in ("\n", "\n\n")) and text[stop] == "\n":
        stop += 1
    return start, stop


def places_at(text: Traced, target: MoveTarget) -> Iterator[tuple[int, int]]:
    """Where the values of the target's slot begin and end."""
    for start, stop in places_of(text, target.slot):
        if target.before is None or _before(text, start) in target.before:
            yield start, stop


def _before(text: Traced, start: int) -> str:
    return str.__getitem__(text, slice(max(line_around(text, start)[0], start - _MOST_BEFORE), start))


def places_of(text: Traced, slot: Slot) -> Iterator[tuple[int, int]]:
    """Where the slot's values begin and end; where it is a line of a file, the whole line is meant."""
    if slot.logged:
        yield from places_in_log(text, slot)
        return
    plain = str.__str__(text)
    at = 0
    for length, origin, offset in text.marks:
        if origin is not None and origin.path == slot.path:
            if slot.variable is not None:
                if (origin.variable, origin.line, origin.column) == (slot.variable, slot.line, slot.column):
                    yield at, at + length
            elif origin.verbatim and origin.variable is None:
                found = nth_line(plain, at, at + length, slot.line - origin.position(offset)[0])
                if found is not None:
                    yield found
        at += length


def unit_around(text: str, start: int, stop: int) -> tuple[int, int]:
    """What moves together: the lines around a value or, where they are long, the sentences."""
    low, high = line_around(text, start)[0], line_around(text, max(stop - 1, start))[1]
    if high - low <= LONG_LINE:
        return low, high
    plain = str.__getitem__(text, slice(low, high)).rstrip("\r\n")  # a part of a line leaves the line's end where it is
    first, last = 0, len(plain)
    for found in _SENTENCE_END.finditer(plain):
        if low + found.end() <= start:
            first = found.end()
        elif low + found.end() >= stop:
            last = found.end()
            break
    return (low, high) if (first, last) == (0, len(plain)) else (low + first, low + last)


def _grown(text: str, low: int, high: int, steady: frozenset[str]) -> tuple[int, int]:
    """Whole lines `[low, high)` and those around them that other requests do not have, blank lines between them included.

    What is no path, no commit and no row of a tree or a status varies for reasons of its own and is not of the block.
    """
    plain = str.__str__(text)
    if line_around(plain, low)[0] != low or (plain[high - 1 : high] != "\n" and high < len(plain)):
        return low, high  # a sentence of a long line
    best = high
    for _ in range(_LONGEST_BLOCK):
        end = line_around(plain, high)[1]
        line = plain[high:end].rstrip("\n")
        if end == high or (line.strip() and (line in steady or not _is_of_a_block(line))):
            break
        high = end
        best = high if line.strip() else best
    first = low
    for _ in range(_LONGEST_BLOCK):
        begin = plain.rfind("\n", 0, max(low - 1, 0)) + 1
        line = plain[begin : max(low - 1, 0)]
        if not low or (line.strip() and (line in steady or not _is_of_a_block(line))):
            break
        low = begin
        first = low if line.strip() else first
    return first, best


def _is_of_a_block(line: str) -> bool:
    head = line[:_HEADING]
    return _ROW.match(head) is not None or any(
        kind.code in _BLOCK_CODES and pattern.search(head) for kind, pattern in DETECTORS
    )


def _framed(text: str, low: int, high: int) -> tuple[int, int]:
    """The block with the tags around it, or with the heading of which it is all."""
    plain = str.__str__(text)
    begin = plain.rfind("\n", 0, max(low - 1, 0)) + 1
    before = plain[begin : max(low - 1, 0)].strip() if 0 < low - begin <= _HEADING + 200 else ""
    end = line_around(plain, high)[1]
    behind = plain[high:end].strip() if end - high <= _HEADING else "…"
    opening = _OPENING.fullmatch(before)
    if opening and behind == f"</{opening[1]}>":
        return begin, end
    return (begin, high) if before.endswith(":") and len(before) <= _HEADING and not behind else (low, high)
