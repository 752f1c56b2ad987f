"""Words and patterns of natural languages: TOML files beside the modules that use them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read_words(module: str) -> dict[str, Any]:
    """Read the TOML file beside a module, given the `__file__` of the module; each file once, and only when it is needed."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def word_set(module: str, key: str) -> frozenset[str]:
    """Return the words of a key, which are separated by white space."""
    return frozenset(read_words(module)[key].split())


@cache
def word_pattern(module: str, key: str) -> re.Pattern[str]:
    """Compile the pattern of a key: one text, or a list of its pieces. Its flags are at its front."""
    return re.compile("".join(read_words(module)[key]))
