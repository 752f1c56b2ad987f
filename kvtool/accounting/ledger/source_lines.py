"""The line of source, or the part of a logged record, that each token of a prompt comes from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Mark, Origin

UNKNOWN = "(no source)"
"""Tokens of prompts without text, and text without a known origin."""


def source_lines(prompt: Prompt) -> Iterator[tuple[int, str]]:
    """Return the end of each range of tokens and its source `path:line`; for logged values, their part of the record.

    A token belongs to the line in which it begins. Only pieces of text in which one line ends and another begins are encoded
    again.
    """
    text = prompt.text
    at = 0
    if text and prompt.char_starts and prompt.token_starts is not None:
        tokens = _TokenPlaces(prompt)
        last = ""
        for char, key in _char_lines(text.marks, str.__str__(text)):
            if last and key != last:
                stop = tokens.beginning_at(char)
                if stop > at:
                    yield stop, last
                    at = stop
            last = key
        if last and at < len(prompt):
            yield len(prompt), last
    elif len(prompt):
        yield len(prompt), UNKNOWN


class _TokenPlaces:
    """Find tokens by their first characters; queries are in the order of the text."""

    def __init__(self, prompt: Prompt) -> None:
        assert prompt.text is not None
        assert prompt.char_starts is not None
        assert prompt.token_starts is not None
        self._prompt, self._chars, self._tokens = prompt, prompt.char_starts, prompt.token_starts
        self._piece = -1
        self._token_starts: list[int] = []

    def beginning_at(self, char: int) -> int:
        """Return the first token that begins at or after a character."""
        piece = bisect_right(self._chars, char) - 1
        start = self._chars[piece]
        if char == start:
            return self._tokens[piece]
        if piece != self._piece:
            self._piece = piece
            self._token_starts = self._prompt.piece_ranges(piece)[:, 0].tolist()
        return self._tokens[piece] + bisect_left(self._token_starts, char - start)


def _char_lines(marks: tuple[Mark, ...], text: str) -> Iterator[tuple[int, str]]:
    """Return the first character of each stretch of text with the name of its line; neighbours may have one name."""
    at = 0
    for length, origin, offset in marks:
        if origin is None or origin.pointer or origin.variable is not None or not origin.verbatim:
            yield at, _source_line(origin)
        else:
            line = origin.line + origin.lines.number(offset) - 1
            start, stop = at, at + length
            while start < stop:
                yield start, f"{origin.path}:{line}"
                newline = text.find("\n", start, stop)
                start = stop if newline < 0 else newline + 1
                line += newline >= 0
        at += length


def _source_line(origin: Origin | None) -> str:
    """Return the name of a stretch that answers as a whole."""
    if origin is None:
        return UNKNOWN
    return origin.part or origin.path if origin.pointer else f"{origin.path}:{origin.line}"
