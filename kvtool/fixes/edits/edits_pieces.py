"""A rendered prompt as pieces of the texts it was rendered from, so that what was done to it can be done to them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvtool.fixes.edits.edits_template import NotEditableError, Range, Shape, is_template, shape_of
from kvtool.text.files.yaml_document import Path
from kvtool.text.traced import Origin, Traced


@dataclass(frozen=True, slots=True)
class PiecePlace:
    """A text that prompts are rendered from: the file `path`, or the value at `at` in the workload file.

    `text` is what Jinja gets, `origin` where its first character stands. `raw` ones are taken as they are; `shared` ones are one
    of many files of a `glob`.
    """

    path: str
    at: Path | None
    text: str = field(compare=False, repr=False)
    origin: Origin = field(compare=False, repr=False)
    raw: bool = field(default=False, compare=False)
    shared: bool = field(default=False, compare=False)

    @property
    def rendered(self) -> bool:
        """Return whether Jinja has a part in what the prompt says."""
        return not self.raw and is_template(self.text)

    def shape(self) -> Shape:
        return Shape() if self.raw else shape_of(self.text)


class Piece(NamedTuple):
    """`text` of a prompt is what `[start, stop)` of a spot gives; without a spot (joins, inserted newlines) it is glue."""

    label: str
    spot: PiecePlace | None
    start: int
    stop: int
    text: str


Key = tuple[str, PiecePlace | None, int, int]


def key_of(piece: Piece) -> Key:
    return piece.label, piece.spot, piece.start, piece.stop


class Reader:
    """Splits rendered texts of one turn into pieces; the turn as it was before the change has to be read first."""

    def __init__(self, spot_of: Callable[[str, str], PiecePlace | None]) -> None:
        """`spot_of` finds spots by the part and path that origins name."""
        self._spot_of = spot_of
        self._shapes: dict[PiecePlace, Shape] = {}
        self._expressions: dict[int, tuple[Origin, Range, set[str]]] = {}

    def shape(self, spot: PiecePlace) -> Shape:
        if spot not in self._shapes:
            self._shapes[spot] = spot.shape()
        return self._shapes[spot]

    def before(self, text: str) -> list[Piece]:
        return list(self._joined(self._pieces(text, known=False)))

    def after(self, text: str) -> list[Piece]:
        return list(self._joined(self._pieces(text, known=True)))

    def order(self, labels: Sequence[str], before: str, after: str, join: str) -> list[int] | None:
        """Return which of the joined parts `labels` comes to each place, where nothing else happened than that parts changed
        places.
        """
        parts: dict[str, list[str]] = {label: [] for label in labels}
        for piece in self.before(before):
            if piece.spot is not None:
                parts[piece.label].append(piece.text)
        moved = dict.fromkeys(piece.label for piece in self.after(after) if piece.spot is not None)
        order = [labels.index(label) for label in moved]
        texts = ["".join(parts[label]) for label in moved]
        whole = len(order) == len(labels) and join.join(map("".join, parts.values())) == before
        return order if whole and join.join(texts) == after else None

    def _pieces(self, text: str, *, known: bool) -> Iterator[Piece]:
        traced = Traced(text)
        plain = str.__str__(traced)
        at = 0
        last: dict[PiecePlace, int] = {}
        for length, origin, offset in traced.marks:
            shown = plain[at : at + length]
            at += length
            spot = None if origin is None else self._spot_of(origin.part, origin.path)
            if origin is None or spot is None:
                yield Piece("", None, 0, 0, shown)
            elif origin.text:
                if origin.text != spot.text:
                    raise NotEditableError(f"`{spot.path}` has changed since it was read")
                for piece in _literal(origin.part, spot, offset, shown):
                    last[spot] = piece.stop if piece.spot else last.get(spot, 0)
                    yield piece
            else:
                start, stop = self._expression(spot, origin, offset, shown, last.get(spot, 0), known=known)
                last[spot] = stop
                yield Piece(origin.part, spot, start, stop, shown)

    def _expression(
        self, spot: PiecePlace, origin: Origin, offset: int, shown: str, after: int, *, known: bool
    ) -> Range:
        """Return where the expression is in its template that gave a value."""
        found = self._expressions.get(id(origin))
        if known:
            if found is None or offset or shown not in found[2]:
                raise NotEditableError("it changes part of the value of a template variable, which is in no file")
            return found[1]
        if found is None:
            span = self._find(spot, origin, after)
            found = self._expressions[id(origin)] = (origin, span, set())
        found[2].add(shown)
        return found[1]

    def _find(self, spot: PiecePlace, origin: Origin, after: int) -> Range:
        spans = self.shape(spot).expressions
        if spot.origin.verbatim:
            here = [span for span in spans if spot.origin.position(span[0]) == (origin.line, origin.column)]
        else:  # all of them have the place of the whole text
            here = [span for span in spans if span[0] >= after and _names(spot.text[slice(*span)], origin.variable)]
        if not here:
            raise NotEditableError("several expressions of the template may write the value")
        return here[0]

    def _joined(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Join line ends that Jinja has made of CRLF to the text that they are in."""
        last: Piece | None = None
        for piece in pieces:
            rest = piece.text
            while piece.spot is None and last is not None and last.spot is not None and rest.startswith("\n"):
                at = self._text_after_tags(last.spot, last.stop)
                if not last.spot.rendered or not last.spot.text.startswith("\r\n", at):
                    break
                last = Piece(last.label, last.spot, at, at + 2, "\n")
                rest = rest[1:]
                yield last
            if piece.spot is not None or rest:
                last = piece if rest == piece.text else piece._replace(text=rest)
                yield last

    def _text_after_tags(self, spot: PiecePlace, at: int) -> int:
        """Return the place after the comments and blocks that are at `at` and have given nothing."""
        for start, stop in self.shape(spot).solid:
            at = stop if start == at else at
        return at


def _names(expression: str, variable: str | None) -> bool:
    return variable is None or re.search(rf"\b{re.escape(variable)}\b", expression) is not None


def _literal(label: str, spot: PiecePlace, offset: int, shown: str) -> Iterator[Piece]:
    """Yield the stretches of `shown` that are in the spot from `offset` on; what does not was put in place of a character
    there.
    """
    at = 0
    if shown and spot.text.startswith(shown, offset):  # nearly all are whole
        yield Piece(label, spot, offset, offset + len(shown), shown)
        return
    while at < len(shown):
        same = _agree(shown, at, spot.text, offset + at)
        if same:
            yield Piece(label, spot, offset + at, offset + at + same, shown[at : at + same])
            at += same
        else:
            yield Piece("", None, 0, 0, shown[at])
            at += 1


def _agree(a: str, at: int, b: str, from_: int) -> int:
    """Return how many characters of `a` from `at` on are those of `b` from `from_` on."""
    same, step = 0, 64
    while step:
        if same < len(a) - at and a[at + same : at + same + step] == b[from_ + same : from_ + same + step]:
            same = min(same + step, len(a) - at)
            step *= 2
        else:
            step //= 2
    return same


def split_alike(*texts: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces cut at all borders that any of the texts has, so that equal stretches are equal pieces."""
    borders: dict[tuple[str, PiecePlace], set[int]] = {}
    for piece in (piece for text in texts for piece in text):
        if piece.spot is not None:
            borders.setdefault((piece.label, piece.spot), set()).update((piece.start, piece.stop))
    ordered = {place: sorted(found) for place, found in borders.items()}
    return [[part for piece in text for part in _split(piece, ordered)] for text in texts]


def _split(piece: Piece, borders: dict[tuple[str, PiecePlace], list[int]]) -> Iterator[Piece]:
    if piece.spot is None or piece.spot.text[piece.start : piece.stop] != piece.text:
        yield piece  # a value, or a line end: neither has an inside
        return
    own = borders[piece.label, piece.spot]
    if own[bisect_left(own, piece.start) + 1] == piece.stop:
        yield piece
        return
    for start, stop in _between(own, piece.start, piece.stop):
        yield Piece(piece.label, piece.spot, start, stop, piece.text[start - piece.start : stop - piece.start])


def _between(borders: list[int], start: int, stop: int) -> Iterator[Range]:
    low = bisect_left(borders, start)
    while borders[low] < stop:
        yield borders[low], borders[low + 1]
        low += 1


def check_movable(text: str, source: PiecePlace, target: PiecePlace) -> None:
    """Raise NotEditableError where a text means something else to Jinja at the place it is moved to."""
    if is_template(text) and source.raw != target.raw:
        why = "its new place has `raw: true`" if target.raw else "its new place is in a template, and the text is not"
        raise NotEditableError(why)
