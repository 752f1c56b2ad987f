"""Texts beside a list of their variables: `parameters: [question]`, and a text with `{{question}}` in it, whatever its key is."""

from __future__ import annotations

import re

from kvtool.lint.skeleton import JINJA_MARK
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode

_DECLARES = frozenset(
    (
        "parameters",
        "params",
        "variables",
        "input_variables",
        "inputs",
        "placeholders",
        "arguments",
        "required_variables",
        "fields",
    )
)
_ABOUT = frozenset(
    ("description", "summary", "title", "name", "comment", "comments", "notes", "help", "doc", "example", "source")
)
"""Keys of texts that tell people of the prompt."""
_NAMES = frozenset(("name", "id", "key"))


def declared_texts(node: Mapping) -> frozenset[str]:
    """The keys of its texts that hold a placeholder of a variable that it declares."""
    names = {name for key, value in node.values.items() if key.lower() in _DECLARES for name in _names(value)}
    if not names:
        return frozenset()
    held = re.compile(rf"\{{{{?[-~]?\s{{0,8}}(?:{'|'.join(map(re.escape, sorted(names)))})\s{{0,8}}[}}|.!:\[]")
    return frozenset(
        key
        for key, value in node.values.items()
        if key.lower() not in _ABOUT | _DECLARES
        and isinstance(value, Scalar)
        and value.kind == "str"
        and (held.search(value.value) is not None or _has_condition(value.value, names))
    )


def _has_condition(text: str, names: set[str]) -> bool:
    """Whether a tag of Jinja asks for one of the names."""
    return JINJA_MARK.search(text) is not None and any(
        re.search(rf"\{{%[^%\n]{{0,80}}\b{re.escape(name)}\b", text) for name in names
    )


def _names(node: YamlNode) -> list[str]:
    """The names that a list or a mapping of variables holds."""
    if isinstance(node, Mapping):
        return [name for name in node.values if name.isidentifier()]
    found: list[str] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Scalar):
            found.append(item.value)
        elif isinstance(item, Mapping):
            found += [one.value for key, one in item.values.items() if key in _NAMES and isinstance(one, Scalar)]
    return [name for name in found if name.isidentifier()]
