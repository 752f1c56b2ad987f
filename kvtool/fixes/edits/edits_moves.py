"""Edits of source texts that do to a request what a change did to its rendered texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import NamedTuple

from kvtool.fixes.edits.edits_blocks import join_blocks
from kvtool.fixes.edits.edits_pieces import Key, Piece, PiecePlace, Reader, check_movable, key_of, split_alike
from kvtool.fixes.edits.edits_template import NotEditableError, Range, is_template


class ValueEdit(NamedTuple):
    """Replace `[start, stop)` of a spot's text."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """One text of a request (a message, or a whole prompt of several segments): the labels of its parts and what joins them.

    A message that is new has no parts.
    """

    labels: tuple[str, ...]
    before: str
    after: str
    join: str = ""
    glob_last: bool = False
    """Whether its last part is one of many files, so that what is added at the end becomes a part of its own."""
    spots: tuple[PiecePlace | None, ...] = ()
    """The spot of each part where there is only one that it can come from."""


@dataclass(slots=True)
class FoundEdits:
    """Edits of spots, parts of a field (field, part) that go away, and new last parts of a field."""

    edits: dict[PiecePlace, list[ValueEdit]] = field(default_factory=dict)
    removed: list[tuple[int, int]] = field(default_factory=list)
    added: list[tuple[int, str]] = field(default_factory=list)


def found_edits(reader: Reader, fields: Sequence[Field]) -> FoundEdits:
    """Return the edits that make of each field's text before the one after. NotEditableError where there are none."""
    befores = [reader.before(each.before) for each in fields]
    afters = [reader.after(each.after) for each in fields]
    pieces = split_alike(*befores, *afters)
    befores, afters = [_of_files(text) for text in pieces[: len(fields)]], pieces[len(fields) :]
    for number, text in enumerate(befores):
        befores[number], afters = join_blocks(text, afters, reader.shape)
    places: dict[Key, tuple[int, int]] = {}
    for number, text in enumerate(befores):
        for index, piece in enumerate(text):
            places.setdefault(key_of(piece), (number, index))
    found = FoundEdits()
    for number, each in enumerate(fields):
        if each.before != each.after:
            _FieldEdits(reader, number, each, befores, afters[number], places, found).find()
    for edits in found.edits.values():
        edits.sort(key=lambda edit: edit[:2])
    return found


def _of_files(text: Iterable[Piece]) -> list[Piece]:
    return [piece for piece in text if piece.spot is not None]


class _FieldEdits:
    """The edits of one field."""

    def __init__(
        self,
        reader: Reader,
        number: int,
        about: Field,
        befores: list[list[Piece]],
        after: list[Piece],
        places: dict[Key, tuple[int, int]],
        found: FoundEdits,
    ) -> None:
        self._reader = reader
        self._number = number
        self._about = about
        self._before = befores[number]
        self._befores = befores
        self._after = after
        self._places = places
        self._found = found

    def find(self) -> None:
        kept = _kept(self._before, self._after)
        low, at = -1, -1
        for index, position in [*kept, (len(self._before), len(self._after))]:
            removed, inserted = self._before[low + 1 : index], self._after[at + 1 : position]
            left = self._before[low] if low >= 0 else None
            right = self._before[index] if index < len(self._before) else None
            self._between(left, right, removed, inserted)
            low, at = index, position

    def _part(self, piece: Piece | None, default: int) -> int:
        return default if piece is None else self._about.labels.index(piece.label)

    def _between(self, left: Piece | None, right: Piece | None, removed: list[Piece], inserted: list[Piece]) -> None:
        """Add the edits between two pieces that stayed; None is the beginning or the end of the field."""
        last = len(self._about.labels) - 1
        low, high = self._part(left, -1), self._part(right, last + 1)
        if low == high or (left is None and high == 0) or (right is None and low == last) or not last:
            self._splice(left, right, removed, inserted)
            return
        joins = high - low - (left is None) - (right is None)
        by_part = {part: [piece for piece in removed if self._part(piece, -1) == part] for part in range(last + 1)}
        emptied = [part for part in range(low + 1, high) if by_part[part]]
        glue = "".join(piece.text for piece in inserted)
        have = next((n for n in range(joins + 1) if glue == self._about.join * n), None)
        if have is None or any(piece.spot is not None for piece in inserted):
            raise NotEditableError("the text would come between two segments, where no file has a place")
        gone = emptied[: joins - have]
        ends = left is not None and len(gone) < joins - have
        if len(gone) + ends != joins - have:
            raise NotEditableError("two segments would become one")
        self._found.removed += [(self._number, part) for part in gone]
        for part in range(max(low, 0), min(high, last) + 1):
            if by_part[part] and part not in gone and not (ends and part == low):
                self._cut(by_part[part], "")
        if ends:
            assert left is not None
            self._cut_with_join(left, by_part[low])

    def _cut_with_join(self, left: Piece, removed: list[Piece]) -> None:
        """Cut a line at the end of a segment with the join after it: the newline before it becomes the join."""
        join, spot = self._about.join, left.spot
        assert spot is not None
        start = left.stop - len(join)
        if not left.text.endswith(join) or spot.text[start : left.stop] != join:
            raise NotEditableError("two segments would become one")
        stop = removed[-1].stop if removed else left.stop
        self._reader.shape(spot).check_cut(start, stop)
        self._edit(spot, ValueEdit(start, stop, ""))

    def _splice(self, left: Piece | None, right: Piece | None, removed: list[Piece], inserted: list[Piece]) -> None:
        """Replace the removed pieces of one part by the inserted ones."""
        if not removed and not inserted:
            return
        spot = next((piece.spot for piece in (*removed, left, right) if piece is not None and piece.spot), None)
        if right is None and (self._about.glob_last or not self._about.labels) and inserted and not removed:
            self._add_part(inserted)
            return
        if removed:
            assert spot is not None
            self._cut(removed, self._source(inserted, spot))
            return
        spot = spot or (self._about.spots[-1] if self._about.spots else None)
        if spot is None:
            raise NotEditableError("it is not clear in which file the text would go")
        text = self._source(inserted, spot)
        if not text:
            return
        home = next((piece.spot for piece in inserted if piece.spot is not None), None)
        last = home if home is not None and self._reader.shape(spot).extends else spot
        places = [(last, len(last.text))] if right is None else []
        places += [(left.spot, left.stop)] if right is not None and left is not None and left.spot is not None else []
        places += [(right.spot, right.start)] if right is not None and right.spot is not None else []
        places.sort(key=lambda at: at[0] != home)  # a file that others include stays as it is
        for of_spot, place in places:
            if not self._reader.shape(of_spot).splits(place):
                self._edit(of_spot, ValueEdit(place, place, self._source(inserted, of_spot)))
                return
        raise NotEditableError("the new place is inside a Jinja block, so choose one before or after the block")

    def _add_part(self, inserted: list[Piece]) -> None:
        glue = inserted[0].text if inserted[0].spot is None else ""
        if self._about.labels and not (self._about.join and glue.startswith(self._about.join)):
            raise NotEditableError("the text before its new place comes from many files (`glob`)")
        first = inserted[0]._replace(text=glue[len(self._about.join) :])
        source = next((piece.spot for piece in inserted if piece.spot is not None), None)
        if source is None or source.raw:
            raise NotEditableError("the text before its new place comes from many files (`glob`)")
        self._found.added.append((self._number, self._source([first, *inserted[1:]], source)))

    def _cut(self, removed: list[Piece], text: str) -> None:
        """Replace a run of pieces of one spot, with what is between them in the template."""
        spot = removed[0].spot
        assert spot is not None
        of_spot = list(takewhile(lambda piece: piece.spot == spot, removed))
        if any(behind.start < one.stop for one, behind in pairwise(piece for piece in removed if piece.spot == spot)):
            raise NotEditableError("Jinja writes this text several times, as in a loop: move the whole loop")
        start, stop = self._whole(of_spot[0], of_spot[-1])
        self._edit(spot, ValueEdit(start, stop, text))
        if len(of_spot) < len(removed):
            self._cut(removed[len(of_spot) :], "")

    def _edit(self, spot: PiecePlace, edit: ValueEdit) -> None:
        if spot.shared and edit.start == edit.stop:
            raise NotEditableError("the text it would be moved to comes from many files (`glob`)")
        edits = self._found.edits.setdefault(spot, [])
        if edit not in edits:
            edits.append(edit)

    def _source(self, pieces: list[Piece], target: PiecePlace) -> str:
        """Return what pieces were rendered from: neighbours with what is between them."""
        texts: list[str] = []
        index = 0
        while index < len(pieces):
            first = last = pieces[index]
            index += 1
            if first.spot is None:
                if is_template(first.text):
                    raise NotEditableError("Jinja would read the new text differently")
                texts.append(first.text)
                continue
            while index < len(pieces) and self._follows(last, pieces[index]):
                last = pieces[index]
                index += 1
            source = first.spot.text[slice(*self._whole(first, last))]
            check_movable(source, first.spot, target)
            texts.append(source)
        return "".join(texts).replace("\r\n", "\n")

    def _whole(self, first: Piece, last: Piece) -> Range:
        """Return the range of pieces in their template, with the tags of blocks that hold nothing else."""
        assert first.spot is not None
        start, stop = first.start, last.stop
        number, index = self._places.get(key_of(first), (0, 0))
        before = self._befores[number][index - 1] if index else None
        number, index = self._places.get(key_of(last), (0, -1))
        behind = self._befores[number][index + 1] if index + 1 < len(self._befores[number]) else None
        low = before.stop if before is not None and before.spot == first.spot else 0
        high = behind.start if behind is not None and behind.spot == first.spot else len(first.spot.text)
        shape = self._reader.shape(first.spot)
        for begin, end in shape.solid:
            if begin < stop and start < end and low <= begin and end <= high:
                start, stop = min(start, begin), max(stop, end)
        shape.check_cut(start, stop)
        return start, stop

    def _follows(self, piece: Piece, other: Piece) -> bool:
        if other.spot != piece.spot or other.start < piece.stop:
            return False
        number, index = self._places.get(key_of(piece), (-1, -1))
        return self._places.get(key_of(other)) == (number, index + 1)


def _kept(before: list[Piece], after: list[Piece]) -> list[tuple[int, int]]:
    """Return pieces that stayed in order, as pairs of indices: what is left alone when the others move to the end, or to the
    front.
    """
    places: dict[Key, list[int]] = {}
    for index, piece in enumerate(before):
        places.setdefault(key_of(piece), []).append(index)
    forward = _increasing([(places.get(key_of(piece), []), at) for at, piece in enumerate(after) if piece.spot])
    mirrored = {key: [len(before) - 1 - index for index in reversed(found)] for key, found in places.items()}
    backward = _increasing(
        [
            (mirrored.get(key_of(piece), []), len(after) - 1 - at)
            for at, piece in reversed(list(enumerate(after)))
            if piece.spot
        ]
    )
    backward = [(len(before) - 1 - index, len(after) - 1 - at) for index, at in reversed(backward)]
    return forward if 2 * _weight(before, forward) >= _weight(before, backward) else backward


def _weight(before: list[Piece], kept: Iterable[tuple[int, int]]) -> int:
    """Count characters of kept pieces that vary in no request: what moves to the end is what varies."""
    pieces = (before[index] for index, _ in kept)
    return sum(len(piece.text) for piece in pieces if piece.stop - piece.start == len(piece.text))


def _increasing(candidates: list[tuple[list[int], int]]) -> list[tuple[int, int]]:
    """Return pieces greedily: each that is after the one taken last."""
    kept: list[tuple[int, int]] = []
    last = -1
    for indices, at in candidates:
        nth = bisect_right(indices, last)
        if nth < len(indices):
            last = indices[nth]
            kept.append((last, at))
    return kept
