"""The nodes of a YAML or JSON text, each with its place; a scalar keeps its text as it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtool.errors import KvtoolError, Place
from kvtool.text.line_index import ANY_BREAK, LineIndex
from kvtool.text.traced import Traced

if TYPE_CHECKING:
    import yaml


Kind = Literal["str", "int", "float", "bool", "null"]

MAX_DEPTH = 48
_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, eq=False)
class YamlNode:
    """`start` and `end` are offsets in the document's source, `size` counts nodes and `characters` text, aliases expanded."""

    start: int
    end: int
    line: int
    column: int
    size: int
    characters: int
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(YamlNode):
    value: str
    kind: Kind
    style: str
    """`|`, `>`, `'`, `"`, or empty for a plain one."""
    text: Traced
    """The value as text, each character with its place in the file."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(YamlNode):
    items: list[YamlNode]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(YamlNode):
    keys: dict[str, Scalar]
    values: dict[str, YamlNode]


def place_of(node: YamlNode, path: str, source: str) -> Place:
    """A node's first line: a scalar is underlined, of a collection only the first key or item."""
    line_end = _BREAK.search(source, node.start)
    line_stop = line_end.start() if line_end else len(source)
    line_start = node.start - (node.column - 1)
    stop = min(node.end, line_stop)
    if isinstance(node, Mapping) and node.keys:
        first = next(iter(node.keys.values()))
        stop = min(first.end, line_stop) if first.line == node.line else stop
    return Place(path, node.line, node.column, source[line_start:line_stop], max(1, stop - node.start))


_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_BARE_TEMPLATE = re.compile(r"(?:^|[:\-,\[]\s+)\{[{%]")
_QUOTES_FOR_TEMPLATE = 'a template needs quotes: "{{ name }}"'
_QUOTES = "put the text in quotes, or write it as a block after `|`"

_WORDS: list[tuple[str, str, str]] = [
    # what PyYAML says, what we say, the hint
    (r"quoted scalar.*(end of stream|document separator)", "this quote is never closed", "add the closing quote"),
    (r"character '\\t' that cannot start", "a tab where YAML needs spaces", "indent with spaces"),
    (r"cannot start any token", "this character cannot begin a value", _QUOTES),
    (
        r"mapping values are not allowed",
        "`: ` is not allowed here",
        "put text with `: ` in quotes, or fix the indentation",
    ),
    (r"expected ',' or '\}'", "`,` or `}` is missing in this mapping", _QUOTES),
    (r"expected ',' or '\]'", "`,` or `]` is missing in this list", _QUOTES),
    (r"could not find expected ':'", "a key without `:`", "write `key: value`; text of several lines goes after `|`"),
    (
        r"sequence entries are not allowed",
        "a list item (`- `) is not allowed here",
        "start the list on a line of its own",
    ),
    (
        r"expected <block end>",
        "this line has another indentation than its neighbors",
        "align it with the lines of its block",
    ),
    (
        r"unknown escape character",
        "unknown escape in a double-quoted text",
        r"write `\\` for a backslash, or use single quotes",
    ),
    (
        r"expected chomping or indentation",
        "only `+`, `-` or a digit may follow `|` or `>`",
        "put the text on the next line",
    ),
    (r"expected a comment or a line break", "text after `|` or `>`", "put the text on the next line"),
    (r"duplicate anchor", "this anchor exists already", "give it another name"),
]


def syntax_error(error: yaml.YAMLError, path: str, source: str) -> KvtoolError:
    """A KvtoolError with the place and excerpt of what PyYAML refused."""
    from yaml import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return KvtoolError("not valid YAML", place=Place(path))
    said = f"{error.context or ''}: {error.problem or ''}"
    message, hint = f"not valid YAML: {error.problem or error.context}", None
    mark = error.problem_mark or error.context_mark
    for pattern, words, advice in _WORDS:
        if re.search(pattern, said):
            message, hint = words, advice
            if "never closed" in words or "is missing" in words:
                mark = error.context_mark or mark
            break
    place = place_at(mark.index if mark else 0, path, source)
    if place.excerpt is not None and _BARE_TEMPLATE.search(place.excerpt):
        hint = _QUOTES_FOR_TEMPLATE
    return KvtoolError(message, hint=hint, place=place)


def control_character(source: str, path: str) -> None:
    """Refuse what YAML does not allow in a file (it may be written as an escape)."""
    found = _CONTROL.search(source)
    if found is not None:
        code = ord(found[0])
        escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
        raise KvtoolError(
            f"control character U+{code:04X} in YAML",
            hint=f'write "{escape}" in double quotes, or keep the text in a file of its own',
            place=place_at(found.start(), path, source),
        )


def place_at(index: int, path: str, source: str) -> Place:
    """The line and column of a character of the source, with its line."""
    lines = LineIndex(source, ANY_BREAK)
    line, column = lines.position(min(index, len(source)))
    return Place(path, line, column, lines.content(line).rstrip("\r\n"))
