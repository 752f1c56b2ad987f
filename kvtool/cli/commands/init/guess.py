"""Placeholders for the variables of templates that were found: by its name, something that varies as such a thing does.

What a service is asked stands in no template, so nothing here pretends to be it: each value says that it is a placeholder, and so
does the comment behind it.
"""

from __future__ import annotations

import json
import re

PLACEHOLDER = "placeholder"
"""The word that marks what is to be replaced, in values and in comments: a workload that has it has placeholders."""
_VALUES = 5
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:^|_)(?:{words})(?:_|$)"), value, why)
    for words, value, why in (
        ("now|date|time|today|timestamp|datetime|clock|at", "{datetime: 1m}", "a clock, one minute a request"),
        ("uuid|guid|id|nonce|token", "{uuid: 4}", "a random id"),
        ("n|num|number|count|index|turn|step|i", "{counter: 1}", "1, 2, 3…"),
        ("company|brand|product|app|agent|assistant|bot|model|team|version", "one", "always the same"),
    )
)


def generator(variable: str) -> tuple[str, str]:
    """The generator of a workload's variable as YAML, and the comment behind it."""
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", variable).lower()
    for pattern, value, why in _RULES:
        if pattern.search(word):
            value = f"{{text: {_text(f'{PLACEHOLDER}: {variable}')}}}" if value == "one" else value
            return value, f"{PLACEHOLDER}: {why}"
    values = [f"{PLACEHOLDER}: {variable} {number}" for number in range(1, _VALUES + 1)]
    return f"{{choice: {_text(values)}}}", f"{PLACEHOLDER}: put real ones here"


def example(variable: str) -> str:
    """A text that such a generator may give, to try a template with."""
    value, _ = generator(variable)
    return "1" if value.startswith(("{counter", "{datetime", "{uuid")) else f"a {variable}"


def _text(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)
