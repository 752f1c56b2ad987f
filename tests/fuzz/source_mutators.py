"""Changes of values in YAML and TOML."""

from __future__ import annotations

import json
import random
import re

import yaml

from tests.fuzz import words
from tests.fuzz.mutators import NUMBERS, TEXTS, change_lines, change_value

_TOML_VALUE = re.compile(rb"= *(.+)")
_TOML_VALUES = (
    *map(json.dumps, TEXTS),
    *map(str, NUMBERS),
    *words.TOML,
    "[1, 2]",
    "{a = 1}",
    '["x", ["y"]]',
    "[[[[]]]]",
)


def change_yaml(rng: random.Random, data: bytes) -> bytes:
    """One to three values; what can be parsed no more is changed as lines."""
    try:
        document = yaml.safe_load(data.decode("utf-8", "replace"))
        for _ in range(rng.choice((1, 1, 2, 3))):
            document = change_value(rng, document)
        style = rng.choice((None, False))
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=rng.random() < 0.5, default_flow_style=style)
    except (yaml.YAMLError, AttributeError, TypeError, RecursionError):
        return change_lines(rng, data)
    return text.encode("utf-8", "surrogatepass")


def change_toml(rng: random.Random, data: bytes) -> bytes:
    """One value."""
    found = list(_TOML_VALUE.finditer(data))
    if not found:
        return change_lines(rng, data)
    match = rng.choice(found)
    new = rng.choice(_TOML_VALUES).encode("utf-8", "surrogatepass")
    return data[: match.start(1)] + new + data[match.end(1) :]
