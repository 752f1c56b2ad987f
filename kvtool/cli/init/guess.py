"""Values for the variables of templates that were found, guessed from their names: something that varies as such a thing does."""

from __future__ import annotations

import json
import re

_QUESTIONS = (
    "Where is my order?",
    "How do I change the address of a delivery?",
    "The parcel came damaged. What can I do?",
    "Can I pay by invoice?",
    "Which of the two models is quieter?",
)
_DOCUMENTS = (
    "Orders leave the warehouse within one working day. A parcel takes two to four days after that.",
    "Goods can be sent back within thirty days. The label for that is in the parcel.",
    "Support answers on working days from eight to six, by telephone and by letter.",
)
_NAMES = ("Ada", "Ben", "Chloe", "Dmitri", "Esra")
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:^|_)(?:{words})(?:_|$)"), value, why)
    for words, value, why in (
        ("now|date|time|today|timestamp|datetime|clock|at", "{datetime: 1m}", "a clock, one minute a request"),
        ("uuid|guid|id|nonce|token", "{uuid: 4}", "a random id"),
        ("n|num|number|count|index|turn|step|i", "{counter: 1}", "1, 2, 3…"),
        ("question|query|input|message|request|task|prompt|text|msg|q", "questions", "put real ones here"),
        (
            "context|documents?|docs?|passages?|article|examples?|history|content|code|data",
            "documents",
            "put real ones here",
        ),
        ("company|brand|product|app|agent|assistant|bot|model|team|version", '{text: "Acme"}', "always the same"),
        ("user|name|customer|username|person|author|email", "names", "put real ones here"),
        ("language|locale|lang", '{choice: ["English", "German", "French"]}', "one of these"),
    )
)


def generator(variable: str) -> tuple[str, str]:
    """The generator of a workload's variable as YAML, and what it is in a few words."""
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", variable).lower()
    for pattern, value, why in _RULES:
        if pattern.search(word):
            return _written(value), why
    return '{choice: ["one value", "another value"]}', "put real values here"


def example(variable: str) -> str:
    """A text that such a generator may give, to try a template with."""
    value, _ = generator(variable)
    return "1" if value.startswith(("{counter", "{datetime", "{uuid")) else f"a {variable}"


def _written(value: str) -> str:
    texts = {"questions": _QUESTIONS, "documents": _DOCUMENTS, "names": _NAMES}.get(value)
    return value if texts is None else f"{{choice: {json.dumps(texts)}}}"
