"""Python of a later version, written so that an earlier parser reads it: each character stays at its place.

Python 3.12 lets the fields of an f-string hold its own quotes and backslashes (PEP 701), and gives functions, classes and types
parameters (PEP 695). Strings within fields get the other quote, what no field could hold becomes `x`, parameters of types become
blanks: what is told of a file is the same. Files that need more than that, such as fields over several lines, are left as they are.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress

_TOKEN = re.compile(r"#[^\n]*|([A-Za-z]{0,3})('''|\"\"\"|'|\")|\\[\s\S]")
_GENERIC = re.compile(
    r"^([ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w+)"
    r"(\[[^\[\]\n]{0,400}(?:\[[^\[\]\n]{0,400}\][^\[\]\n]{0,400}){0,20}\])(?=[ \t]*[(:])",
    re.MULTILINE,
)
_TYPE = re.compile(r"^([ \t]*type)[ \t](?=\w+[ \t]*(?:\[[^\]\n]*\][ \t]*)?=(?!=))", re.MULTILINE)
_OTHER = {"'": '"', '"': "'"}
_DEEPEST = 8


class _NotFollowedError(Exception):
    """The text is none that this follows."""


def parsed(text: str) -> ast.Module:
    """The tree of a Python file, also of one for a later version where this can follow it; what `ast.parse` raises."""
    try:
        return ast.parse(text)
    except SyntaxError:
        earlier = for_earlier_parsers(text)
        if earlier == text:
            raise
        with suppress(SyntaxError):
            return ast.parse(earlier)
        raise


def for_earlier_parsers(text: str) -> str:
    """The text, as an earlier Python reads it, or as it is; as many characters, and as many bytes, in each line."""
    text = _GENERIC.sub(lambda found: found[1] + " " * len(found[2]), text)
    text = _TYPE.sub(lambda found: f"{found[1]}_", text)
    pieces: list[str] = []
    at = 0
    try:
        while (found := _TOKEN.search(text, at)) is not None:
            pieces.append(text[at : found.start()])
            at = found.end()
            if found[2] is None:
                pieces.append(found[0])
                continue
            stop, written = _string(text, found, "", 0)
            pieces.append(written)
            at = stop
    except (_NotFollowedError, IndexError):
        return text
    return "".join([*pieces, text[at:]])


def _string(text: str, start: re.Match[str], around: str, deep: int) -> tuple[int, str]:
    """The end of a string that begins with `start`, and the string for within others, whose quotes are the signs `around`."""
    if deep > _DEEPEST:
        raise _NotFollowedError
    prefix, quote = start[1].lower(), start[2]
    own = quote
    if around and (len(quote) > 1 or quote in around):
        own = next((sign for sign in "'\"" if sign not in around), "") if len(quote) == 1 else ""
    formatted = "f" in prefix
    written: list[str] = []
    at = start.end()
    while not text.startswith(quote, at):
        sign = text[at]
        if sign == "\\":
            written.append(text[at : at + 2] if not around else "xx")
            at += 2
        elif formatted and sign == "{" and text[at + 1] != "{":
            stop, field = _field(text, at, around + (own or quote)[0], deep)
            written.append(field)
            at = stop
        elif formatted and sign in "{}":
            written.append(text[at : at + 2])
            at += 2
        else:
            if sign == "\n" and (around or len(quote) == 1):
                raise _NotFollowedError
            written.append("x" if around and sign in "'\"" else sign)
            at += 1
    stop = at + len(quote)
    inside = "".join(written)
    if own:
        return stop, f"{start[1]}{own}{inside}{own}"
    if not text[start.start() : stop].isascii():
        raise _NotFollowedError
    return stop, "0".ljust(stop - start.start())  # there is no third quote: what the string says is not known


def _field(text: str, at: int, around: str, deep: int) -> tuple[int, str]:
    """The end of the field of an f-string that begins at `at`, and the field."""
    written: list[str] = []
    depth = 0
    while True:
        sign = text[at]
        found = _TOKEN.match(text, at)
        if found is not None and found[2] is not None:
            at, piece = _string(text, found, around, deep + 1)
            written.append(piece)
            continue
        if sign in "\n#\\":
            raise _NotFollowedError
        depth += (sign in "{[(") - (sign in "}])")
        written.append(sign)
        at += 1
        if not depth:
            return at, "".join(written)
