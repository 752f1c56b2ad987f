"""Differences that a reader does not see: line endings, spaces, Unicode forms, look-alike letters, a byte order mark."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.text.look_alike import FORMAT, JOINERS, KINDS_OF_SPACE, as_latin, ascii_signs, compatible

_INVISIBLE = re.compile(f"[{FORMAT}{JOINERS}]")
_SPACES = re.compile(f"[{KINDS_OF_SPACE}\t]")


@dataclass(frozen=True, slots=True)
class Normalizer:
    """One difference that readers do not see, the function that removes it, and how the result is described."""

    kind: DifferenceKind
    result: str
    apply: Callable[[str], str]


def _no_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip(" \t") for line in text.split("\n"))


NORMALIZERS: list[Normalizer] = [  # the mildest first
    Normalizer(
        DifferenceKind("bom", "byte order mark", KV121.code),
        "without the byte order mark",
        lambda text: text.removeprefix("\ufeff"),
    ),
    Normalizer(
        DifferenceKind("line_endings", "line endings", KV121.code),
        "with one kind of line ending",
        lambda text: text.replace("\r\n", "\n").replace("\r", "\n"),
    ),
    Normalizer(
        DifferenceKind("final_newline", "newlines at the end", KV121.code),
        "without newlines at the end",
        lambda text: text.rstrip("\r\n"),
    ),
    Normalizer(
        DifferenceKind("trailing_space", "spaces at line ends", KV121.code),
        "without spaces at line ends",
        _no_trailing_space,
    ),
    Normalizer(
        DifferenceKind("unicode_form", "Unicode form", KV121.code),
        "in one Unicode form (NFC)",
        lambda text: unicodedata.normalize("NFC", text),
    ),
    Normalizer(
        DifferenceKind("invisible", "invisible characters", KV121.code),
        "without invisible characters",
        lambda text: _INVISIBLE.sub("", text),
    ),
    Normalizer(
        DifferenceKind("compatible", "compatibility forms of letters", KV121.code),
        "without compatibility forms of letters",
        compatible,
    ),
    Normalizer(
        DifferenceKind("look_alike", "look-alike letters", KV121.code),
        "with letters of one script",
        as_latin,
    ),
    Normalizer(
        DifferenceKind("signs", "forms of quotes and dashes", KV121.code),
        "with one form of quotes and dashes",
        ascii_signs,
    ),
    Normalizer(
        DifferenceKind("space_kind", "kinds of space", KV121.code),
        "with one kind of space",
        lambda text: _SPACES.sub(" ", text),
    ),
    Normalizer(
        DifferenceKind("whitespace", "whitespace", KV121.code),
        "with the same whitespace",
        lambda text: " ".join(text.split()),
    ),
]


def cosmetic(a: str, b: str) -> list[Normalizer]:
    """Return the mildest normalizers that together make two different texts equal; empty where none do."""
    needed = list(NORMALIZERS)
    if a == b or normalized(a, needed) != normalized(b, needed):
        return []
    for one in reversed(NORMALIZERS):
        fewer = [other for other in needed if other is not one]
        if normalized(a, fewer) == normalized(b, fewer):
            needed = fewer
    return needed


def normalized(text: str, normalizers: Sequence[Normalizer]) -> str:
    """Return the text with each normalizer applied in turn."""
    text = str.__str__(text)
    for one in normalizers:
        text = one.apply(text)
    return text


def first_word(text: str) -> str:
    """Return the first word that anybody sees, normalized; texts that look the same begin with the same one."""
    rest = text.split(None, 1)
    while rest:
        seen = rest[:1] if rest[0].isascii() else normalized(rest[0], NORMALIZERS).split()
        if seen:
            return seen[0]
        rest = rest[1].split(None, 1) if len(rest) > 1 else []
    return ""
