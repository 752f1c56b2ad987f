"""Scalar fields of a record: what requests may differ in beside their prompts, with no value that could be a secret."""

from __future__ import annotations

import re
from hashlib import blake2b

from kvtool.workload.logs.groups.field_paths import joined_path
from kvtool.workload.logs.records.record import RESPONSES
from kvtool.workload.logs.records.usage import COSTS, FLAT

_MOST_FIELDS = 64
_DEPTH = 4
_LONGEST = 200
"""Characters of a value or a path; longer ones are texts."""
_WORD = re.compile(r"[a-z][a-z_-]{1,19}")
"""Values that are shown: words like those of an enumeration. Others may be secrets or text of prompts."""
_CONSEQUENCES = frozenset(
    (
        *(
            "usage",
            "usageMetadata",
            "usage_metadata",
            "usage_object",
            "diagnostics",
            "prompt_cache_diagnostics",
            "timings",
        ),
        *(*FLAT, "output_tokens", "completion_tokens", "total_tokens"),
        *COSTS,
    )
)
"""What a miss changes itself: it is no cause."""
_TEXTS = frozenset(
    (
        *("messages", "prompt", "text", "text_input", "input", "inputs", "instructions", "system", "question"),
        *("content", "choices", "candidates", "tools"),
    )
)


def scalar_fields(record: object) -> tuple[tuple[str, str], ...]:
    """Return paths, as `--group-by` takes them, with a word or a digest of each value: no texts of prompts, no tokens, no costs."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, object, int, bool]] = [("", record, 0, False)]
    while waiting and len(found) < _MOST_FIELDS:
        path, value, depth, answered = waiting.pop()
        if len(path) > _LONGEST:
            continue
        if isinstance(value, dict) and depth < _DEPTH:
            inner = reversed([item for item in value.items() if item[0] not in _CONSEQUENCES and item[0] not in _TEXTS])
            waiting += [(joined_path(path, key), each, depth + 1, answered or key in RESPONSES) for key, each in inner]
        elif isinstance(value, bool):
            found.append((path, "true" if value else "false"))
        elif isinstance(value, str) and len(value) <= _LONGEST:
            found.append((path, value if _WORD.fullmatch(value) else _digest(str.__str__(value))))
        elif isinstance(value, int | float) and not answered:  # numbers of an answer follow from the miss
            found.append((path, _digest(repr(value))))
    return tuple(found)


def _digest(text: str) -> str:
    return f"#{blake2b(text.encode(errors='replace'), digest_size=4).hexdigest()}"
