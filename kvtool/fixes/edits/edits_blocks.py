"""Jinja blocks of which all that they wrote moves: pieces that stay together are one piece, from the first tag to the last."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from kvtool.fixes.edits.edits_pieces import Piece, PiecePlace
from kvtool.fixes.edits.edits_template import Range, Shape

_KEPT = re.compile(r"\{%[-+]?\s*(?:macro|call|set)\b")
"""Blocks that write nothing where they are: others use what they define."""
ShapeOf = Callable[[PiecePlace], Shape]


def join_blocks(
    before: Sequence[Piece], afters: Sequence[Sequence[Piece]], shape_of: ShapeOf
) -> tuple[list[Piece], list[list[Piece]]]:
    """Return a text before a change, and all texts after it, with one piece for each Jinja block that has the same pieces in
    both; the others as they are."""
    joined = list(before)
    found = [list(text) for text in afters]
    for start, stop, block in reversed(list(_runs(before, shape_of))):
        pieces = list(before[start:stop])
        places = [(number, at) for number, text in enumerate(found) for at in _places_of(pieces, text)]
        if len(places) != 1:
            continue
        number, at = places[0]
        first = pieces[0]
        whole = Piece(first.label, first.spot, *block, "".join(piece.text for piece in pieces))
        joined[start:stop] = [whole]
        found[number][at : at + len(pieces)] = [whole]
    return joined, found


def _runs(pieces: Sequence[Piece], shape_of: ShapeOf) -> Iterator[tuple[int, int, Range]]:
    """Yield where pieces of one Jinja block begin and end, at least two, with its range in the template."""
    index = 0
    while index < len(pieces):
        block = _block_of(pieces[index], shape_of)
        stop = index + 1
        if block is not None:
            for at in range(index + 1, len(pieces)):
                if pieces[at].spot == pieces[index].spot:
                    if _block_of(pieces[at], shape_of) != block:
                        break
                    stop = at + 1
            if stop > index + 1:
                yield index, stop, block
        index = stop


def _block_of(piece: Piece, shape_of: ShapeOf) -> Range | None:
    """Return the block around a piece in its template; None where there is none but the expression that wrote it."""
    if piece.spot is None or not piece.spot.rendered:
        return None
    solid = shape_of(piece.spot).solid
    index = bisect_right(solid, (piece.start, len(piece.spot.text) + 1)) - 1
    if index < 0 or piece.stop > solid[index][1] or solid[index] == (piece.start, piece.stop):
        return None
    return None if _KEPT.match(piece.spot.text, solid[index][0]) else solid[index]


def _places_of(pieces: Sequence[Piece], text: Sequence[Piece]) -> Iterator[int]:
    first, count = pieces[0], len(pieces)
    return (at for at, piece in enumerate(text) if piece == first and list(text[at : at + count]) == list(pieces))
