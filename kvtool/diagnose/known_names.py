"""Given and family names that many people have, in all languages.

They are those of Faker's lists; `tests/diagnose/given_names.py` packs them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("people.zst")


class KnownNames(NamedTuple):
    """Names of one word, lower case."""

    given: frozenset[str]
    family: frozenset[str]


@cache
def known_names() -> KnownNames:
    """All names that are known."""
    from zstandard import ZstdDecompressor

    given, family = ZstdDecompressor().decompress(FILE.read_bytes()).decode().split("\n")
    return KnownNames(frozenset(given.split(" ")), frozenset(family.split(" ")))
