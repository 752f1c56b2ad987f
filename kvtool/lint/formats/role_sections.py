"""One request in sections: a mapping with a `system` and a `user` entry, each a text, or texts by names of their own.

So is a mapping with entries for parts that are no request alone, such as an introduction and principles, in its own order.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode

_SYSTEM = ("system", "system_prompt", "system_message", "developer")
_USER = ("user", "user_prompt", "user_message", "human")
_PARTS = frozenset(
    (
        "introduction",
        "intro",
        "preamble",
        "principles",
        "guidelines",
        "rules",
        "constraints",
        "examples",
        "demonstrations",
    )
)
"""What is no request alone."""
_WHOLES = frozenset(
    ("system", "system_prompt", "task", "instruction", "instructions", "generation", "context", "input", "question")
)
"""What the parts stand beside."""
_LEAST_PARTS = 2
_MOST_DEEP = 4


def role_sections(node: Mapping) -> list[Scalar]:
    """Its texts in the order in which a request has them, the system's before the user's; none where it is no such mapping."""
    system, user = _under(node, _SYSTEM), _under(node, _USER)
    if not system or not user:
        return _parts(node)
    return [*system, *user]


def _parts(node: Mapping) -> list[Scalar]:
    """The parts of a request and what they stand beside, where a mapping holds several parts."""
    found = [
        value
        for key, value in node.values.items()
        if key.lower() in _PARTS | _WHOLES and isinstance(value, Scalar) and value.kind == "str" and value.value
    ]
    named = {key.lower() for key in node.values}
    return found if len(named & _PARTS) >= _LEAST_PARTS and named & _WHOLES else []


def _under(node: Mapping, keys: tuple[str, ...]) -> list[Scalar]:
    return [text for key in keys if key in node.values for text in _texts(node.values[key], _MOST_DEEP)]


def _texts(node: YamlNode, deep: int) -> Iterator[Scalar]:
    """The texts of an entry, in the order of the file."""
    if isinstance(node, Scalar):
        if node.kind == "str" and node.value:
            yield node
    elif deep:
        below = node.values.values() if isinstance(node, Mapping) else node.items if isinstance(node, Sequence) else ()
        for one in below:
            yield from _texts(one, deep - 1)
