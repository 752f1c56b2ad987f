"""A file that holds prompts: its values with their places, and the prompts that a format finds in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from kvtool.lint.skeleton import style_of
from kvtool.text.files.json_nodes import parse_json_nodes
from kvtool.text.files.yaml_characters import WrittenCharacters
from kvtool.text.files.yaml_document import parse_yaml_data
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode
from kvtool.text.traced import Origin, Traced

Style = Literal["", "jinja", "format", "marks", "dollar", "mustache"]
"""How placeholders are written; empty where there are none, whatever braces there are."""
_GITHUB = re.compile(r"\$\{\{")


@dataclass(frozen=True, slots=True)
class PromptText:
    """A part of a prompt, each character with its place. `strict`: it is an error where it cannot be read in this style."""

    text: Traced
    style: Style
    strict: bool = True


Prompt = tuple[PromptText, ...]
"""The texts of one request, in their order."""


@dataclass(frozen=True, slots=True)
class FilePrompts:
    """The prompts that a format found, and the files that it names, as written and relative to its own folder."""

    prompts: tuple[Prompt, ...]
    files: tuple[str, ...] = ()


@dataclass
class DataFile:
    """A file and its text; what it holds is parsed when it is asked for. KvtoolError where it is not what its suffix says."""

    path: str
    text: str
    _characters: WrittenCharacters | None = field(default=None, repr=False)

    @property
    def suffix(self) -> str:
        return Path(self.path).suffix.lower()

    @cached_property
    def root(self) -> YamlNode:
        return (parse_json_nodes if self.suffix == ".json" else parse_yaml_data)(self.text, self.path)

    @property
    def mapping(self) -> Mapping | None:
        return self.root if isinstance(self.root, Mapping) else None

    def traced(self, scalar: Scalar) -> Traced:
        """The value with the place of each character."""
        if self._characters is None:
            self._characters = WrittenCharacters(self.path, self.text)
        return self._characters.traced(scalar)

    def whole(self, start: int = 0, stop: int | None = None) -> Traced:
        """A part of the file as it is."""
        return self._traced[start : len(self.text) if stop is None else stop]

    @cached_property
    def _traced(self) -> Traced:
        """The file as it is; one, so that its lines are found once."""
        return Traced.of(self.text, Origin(self.path, text=self.text))

    def part(self, scalar: Scalar, style: Style | None, *, strict: bool = True) -> PromptText:
        """A value as a text of this style; None: of the style that it is written in."""
        if style is None:
            return PromptText(self.traced(scalar), found_style(scalar.value), strict=False)
        return PromptText(self.traced(scalar), style, strict)


Reader = Callable[[DataFile], FilePrompts | None]


def found_style(text: str) -> Style:
    """Return the style of placeholders in a text of no declared style."""
    if _GITHUB.search(text):
        return ""
    style = style_of(text)
    return "" if style == "dollar" else style


def texts(node: YamlNode | None, *keys: str) -> list[Scalar]:
    """The values of these keys that are texts."""
    if not isinstance(node, Mapping):
        return []
    found = (node.values.get(key) for key in keys)
    return [value for value in found if isinstance(value, Scalar) and value.kind == "str" and value.value]


def text_at(node: YamlNode | None, key: str) -> Scalar | None:
    found = texts(node, key)
    return found[0] if found else None


def word_at(node: YamlNode | None, key: str) -> str:
    """A value as a word in lower case; empty where it is none."""
    found = text_at(node, key)
    return found.value.strip().lower() if found is not None else ""


def at(node: YamlNode | None, key: str) -> YamlNode | None:
    return node.values.get(key) if isinstance(node, Mapping) else None


def items(node: YamlNode | None) -> list[YamlNode]:
    return node.items if isinstance(node, Sequence) else []


def nodes_below(root: YamlNode) -> Iterator[YamlNode]:
    """It and everything in it, in the order of the file; what several aliases name comes once."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Mapping):
            waiting += reversed(node.values.values())
        elif isinstance(node, Sequence):
            waiting += reversed(node.items)


_ROLES = frozenset(("system", "developer", "user", "human", "assistant", "ai", "model", "tool"))


def read_messages(file: DataFile) -> FilePrompts | None:
    """A file that is one chat, or has one under `messages`; None where no message has a placeholder: then it is one of a log."""
    messages = items(file.root) or items(at(file.root, "messages"))
    found = chat(file, messages)
    if not found or not any(part.style for part in found):
        return None
    return FilePrompts((found,))


def chat(file: DataFile, messages: list[YamlNode]) -> Prompt:
    """The texts of messages; empty where these are none."""
    found: list[Prompt] = []
    for message in messages:
        if not isinstance(message, Mapping) or word_at(message, "role") not in _ROLES:
            return ()
        parts = texts(message, "content") or texts(message, "template", "text", "prompt")
        parts += [text for part in items(at(message, "content")) if (text := text_at(part, "text")) is not None]
        found.append(tuple(file.part(part, None) for part in parts))
    return tuple(part for parts in found for part in parts)
