"""Pieces of text that were encoded before. What is seen once is forgotten soon: in most logs that is most of the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtool.text.tokens.prompt import Ids

_RECENT = 1_000_000
"""Characters seen once after which those seen before them are forgotten."""
_KEPT = 100_000_000
"""Characters seen more than once; beyond that, all are forgotten."""
_MARKS = 1 << 22


class PieceMemo:
    """Remembers the ids of pieces that come back, and those of the latest pieces. Memory is bounded by characters.

    Of a piece that was forgotten a mark stays: when it comes again (a workload is read several times), it is kept. A mark may
    be that of another piece; then one is kept that need not be.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], list[Ids]], *, recent: int = _RECENT, kept: int = _KEPT
    ) -> None:
        """`encode` gives the ids of pieces, each of which is asked for once at a time."""
        self._encode = encode
        self._most_recent, self._most_kept = recent, kept
        self._kept: dict[str, Ids] = {}
        self._kept_characters = 0
        self._young: dict[str, Ids] = {}
        self._young_characters = 0
        self._old: dict[str, Ids] = {}
        self._marks = bytearray(_MARKS)
        self._marked = 0

    def __call__(self, pieces: Sequence[str]) -> list[Ids]:
        """The ids of each piece."""
        kept = self._kept
        try:
            return [kept[piece] for piece in pieces]
        except KeyError:
            here = self._learn(dict.fromkeys(piece for piece in pieces if piece not in kept))
        found = [here[piece] if piece in here else kept[piece] for piece in pieces]
        if self._kept_characters > self._most_kept:
            self._kept, self._kept_characters = {}, 0
        return found

    def find(self, piece: str) -> Ids | None:
        """The ids of a piece that is remembered; None where it is not."""
        for memo in (self._kept, self._young, self._old):
            ids = memo.get(piece)
            if ids is not None:
                return ids
        return None

    def _learn(self, pieces: dict[str, None]) -> dict[str, Ids]:
        """The ids of pieces that are not kept; those that came before are, from now on."""
        here: dict[str, Ids] = {}
        for piece in pieces:
            ids = self._young.get(piece)
            if ids is None:
                ids = self._old.pop(piece, None)
            else:
                del self._young[piece]
                self._young_characters -= len(piece)
            if ids is not None:
                here[piece] = ids
                self._keep(piece, ids)
        new = [piece for piece in pieces if piece not in here]
        for piece, ids in zip(new, self._encode(new), strict=True):
            here[piece] = ids
            if self._marks[hash(piece) % _MARKS]:
                self._keep(piece, ids)
            else:
                self._young[piece] = ids
                self._young_characters += len(piece)
        if self._young_characters > self._most_recent:
            self._forget()
        return here

    def _keep(self, piece: str, ids: Ids) -> None:
        self._kept[piece] = ids
        self._kept_characters += len(piece)

    def _forget(self) -> None:
        """Leave a mark of each piece that grew old, and let the young ones grow old."""
        if self._marked + len(self._old) > _MARKS // 4:
            self._marks, self._marked = bytearray(_MARKS), 0
        for piece in self._old:
            self._marks[hash(piece) % _MARKS] = 1
        self._marked += len(self._old)
        self._old, self._young, self._young_characters = self._young, {}, 0
