"""Blocks of lines that move although no mark tells where they end: sections that come and go, lines of paths and statuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.diagnose.values.classify import DETECTORS
from kvtool.fixes.moves.move_target import BLOCK_CODES
from kvtool.text.structure.prose import ROW
from kvtool.text.traced import line_around

_LONGEST_BLOCK = 500
_HEADING = 80
_MOST_PLACES = 200


def places_of_sections(text: str, sections: Sequence[str]) -> Iterator[tuple[int, int]]:
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


def grown_block(text: str, low: int, high: int, steady: frozenset[str]) -> tuple[int, int]:
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
    return ROW.match(head) is not None or any(
        kind.code in BLOCK_CODES and pattern.search(head) for kind, pattern in DETECTORS
    )
