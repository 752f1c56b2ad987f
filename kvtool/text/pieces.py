"""Places of the pieces of a text in a larger text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_MISSES = 8
"""Times the length of a prompt that may be searched for texts which the chat template left out or changed."""


def found_in_order(pieces: Iterable[str], text: str, at: int = 0) -> Iterator[tuple[int, int] | None]:
    """Find each piece in a rendered prompt, after those before it; None for one that the template left out or changed. The search
    begins at a character.

    Space around a piece does not count, as templates may strip it; a piece of nothing else has no place.
    """
    budget = _MISSES * len(text)
    for piece in pieces:
        wanted = piece.strip()
        found = text.find(wanted, at) if wanted and budget > 0 else -1
        if found >= 0:
            at = found + len(wanted)
            yield found, at
            continue
        budget -= len(text) - at if wanted else 0
        yield None
