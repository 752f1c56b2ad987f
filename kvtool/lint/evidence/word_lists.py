"""Words by which lint tells what a name or a text means, as `word_lists.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


def words(module: str, name: str) -> frozenset[str]:
    """Return the words of one list of a module."""
    return frozenset(_lists()[module][name].split())


@cache
def _lists() -> Mapping[str, Mapping[str, str]]:
    """Read the file once; a program that never lints never does."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
