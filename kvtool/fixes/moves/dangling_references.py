"""References that a move leaves dangling: "the date above", "the following list", "see below"."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from kvtool.diagnose.word_lists import word_pattern
from kvtool.fixes.turn_texts import TextAt, texts_of
from kvtool.workload.turn import Turn

_pattern = partial(word_pattern, __file__)
"""Return a pattern of the TOML file beside this module."""

_NEAR = 3
"""Lines that are not blank before what was moved, in which something may announce it."""
_SHORT = 10
_MOST_CHARS = 400_000
_MOST_LINES = 5000
_MOST_FOUND = 8
_LONGEST_LINE = 4000
_LONGEST_PHRASE = 48


def refers_back(text: str) -> bool:
    """Return whether a text speaks of something above it."""
    return _pattern("back").search(text[:_MOST_CHARS]) is not None


def refers_forward(text: str) -> bool:
    """Return whether a text speaks of something below it."""
    return _pattern("forward").search(text[:_MOST_CHARS]) is not None


def goes_with_previous(sentence: str) -> bool:
    """Return whether a sentence says nothing without the one before it."""
    return _pattern("goes_with").match(sentence) is not None


def dangling_references(before: Turn, after: Turn) -> list[str]:
    """Return what may refer to text that is elsewhere now, in words; of the prompt only the phrase itself is quoted.

    Looked at are the moved lines, the three lines before the place that they left, and the text that they jumped over.
    """
    old, new = _lines(before), _lines(after)
    moved = _moved(old, new)
    found: dict[str, None] = {}
    for start, stop, landed in moved:
        # Two stretches changed places; where both are short, nobody can say which of them was moved.
        low, middle, high = (start, stop, max(landed, stop)) if landed > start else (landed, start, stop)
        for line in old[low:middle]:
            for phrase in _phrases("forward", line):
                found[f"other text now follows “{phrase}”: does it still mean the same?"] = None
            for phrase in _phrases("back", line) if low == start or middle - low <= _SHORT else ():
                found[f"“{phrase}” now follows other text: does it still mean the same?"] = None
            if goes_with_previous(line) and line == next(iter(old[low:middle])) and start == low:
                found[f"“{_begin(line)} …” now follows other text: does it still mean the same?"] = None
        for line in [line for line in old[middle:high] if line][:1]:
            if goes_with_previous(line):
                found[f"“{_begin(line)}” comes right after moved text and may refer to it"] = None
        for line in old[middle:high]:
            for phrase in _phrases("back", line):
                found[f"“{phrase}” may refer to text that was above it and moved"] = None
        found.update(dict.fromkeys(_earlier_text_of(old, low, high)))
        for line in [line for line in old[max(low - 2 * _NEAR, 0) : low] if line][-_NEAR:]:
            for phrase in _phrases("forward", line):
                found[f"“{phrase}” comes right before moved text and may introduce it"] = None
        if len(found) >= _MOST_FOUND:
            break
    return list(found)[:_MOST_FOUND]


def _earlier_text_of(lines: Sequence[str], low: int, high: int) -> Iterator[str]:
    """Yield what counts from the front of a text whose first lines moved away."""
    if not any(lines[:low]):
        for line in lines[low:high]:
            for phrase in _phrases("first_place", line):
                yield f"“{phrase}” may refer to the first text, which moved"


def role_changes(before: Turn, after: Turn) -> list[tuple[str, str]]:
    """Return the roles that lost lines and those that got them, in pairs; empty where every line stayed with its role."""
    old, new = (
        [(role, str.__str__(text)) for role, text in _said(before)],
        [(role, str.__str__(text)) for role, text in _said(after)],
    )
    lost, got = _surplus(old, new), _surplus(new, old)
    return [(a, b) for a in lost for b in got if a != b]


def _surplus(these: Sequence[tuple[str, str]], those: Sequence[tuple[str, str]]) -> list[str]:
    """Return roles that have more characters in `these` than in `those`, blank ones aside."""
    sizes: dict[str, int] = {}
    for said, sign in ((these, 1), (those, -1)):
        for role, text in said:
            sizes[role] = sizes.get(role, 0) + sign * len("".join(text.split()))
    return [role for role, size in sizes.items() if size > 0]


def _said(turn: Turn) -> Iterator[tuple[str, str]]:
    yield from ((at.role, at.text) for at in texts_of(turn))


def _lines(turn: Turn) -> list[str]:
    """Return the lines of all texts in order, within bounds."""
    lines: list[str] = []
    left = _MOST_CHARS
    for at in _from_both_ends(list(texts_of(turn))):
        for line in str.__str__(at.text).split("\n"):
            if left < 0 or len(lines) > _MOST_LINES:
                return lines
            lines.append(line[:_LONGEST_LINE].strip())
            left -= len(line)
    return lines


def _from_both_ends(texts: list[TextAt]) -> list[TextAt]:
    """Return the beginning and the end of a very long conversation: text moves between these."""
    return texts if len(texts) <= 64 else [*texts[:32], *texts[-32:]]


def _moved(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield runs `[start, stop)` of old lines that the longest common order leaves out, and before which old line they landed."""
    from rapidfuzz.distance import LCSseq

    names: dict[str, int] = {}
    a = array("q", (names.setdefault(line, len(names)) for line in old))
    b = array("q", (names.setdefault(line, len(names)) for line in new))
    blocks = [block for block in LCSseq.editops(a, b).as_matching_blocks() if block.size]
    place_in_old: dict[int, int] = {}  # of each new line that is left over: where it stands among the old ones
    at_new = at_old = 0
    for block in blocks:
        place_in_old.update((index, at_old) for index in range(at_new, block.b))
        at_new, at_old = block.b + block.size, block.a + block.size
    place_in_old.update((index, len(old)) for index in range(at_new, len(new)))
    landed = {new[index]: place for index, place in place_in_old.items() if new[index]}
    kept = {index for block in blocks for index in range(block.a, block.a + block.size)}
    start: int | None = None
    for index in range(len(old) + 1):
        gone = index < len(old) and index not in kept
        if gone and start is None and old[index]:
            start = index
        if start is not None and not gone:
            yield start, index, landed.get(old[start], len(old))
            start = None


@lru_cache(maxsize=8192)
def _phrases(key: str, line: str) -> tuple[str, ...]:
    """Return the phrases of a line that a pattern finds; the requests of a group have most of their lines in common."""
    return tuple(" ".join(found[0].split())[:_LONGEST_PHRASE] for found in _pattern(key).finditer(line))


def _begin(line: str) -> str:
    """Return the first words of a line."""
    return " ".join(line[:_LONGEST_PHRASE].split()[:3])
