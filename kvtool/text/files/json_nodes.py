"""JSON as a tree whose every node knows where it is: the nodes of YAML, read at the speed of JSON."""

from __future__ import annotations

import json
import re

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.yaml_nodes import MAX_DEPTH, Kind, Mapping, Scalar, Sequence, YamlNode
from kvtool.text.line_index import ANY_BREAK, LineIndex
from kvtool.text.traced import Origin, Traced

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_DECODER = json.JSONDecoder(strict=False)
_KINDS: dict[str, Kind] = {"true": "bool", "false": "bool", "null": "null"}


def parse_json_nodes(source: str, path: str) -> YamlNode:
    """The one value of a JSON text; KvtoolError, with the place, where it is none or nested deeper than YAML may be."""
    return _Reader(source, path).read()


class _Reader:
    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path
        self._lines = LineIndex(source, ANY_BREAK)

    def read(self) -> YamlNode:
        node, at = self._value(self._space(0), 1)
        if (at := self._space(at)) < len(self._source):
            raise self._error("more text after the JSON value", at)
        return node

    def _value(self, at: int, depth: int) -> tuple[YamlNode, int]:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", at)
        mark = self._source[at : at + 1]
        if mark == "{":
            return self._mapping(at, depth)
        if mark == "[":
            return self._sequence(at, depth)
        if mark == '"':
            return self._string(at)
        found = _WORD.match(self._source, at)
        if found is None:
            raise self._error("not valid JSON: a value is missing here", at)
        kind = _KINDS.get(found[0], "float")
        return self._scalar(at, found.end(), found[0], kind, ""), found.end()

    def _mapping(self, start: int, depth: int) -> tuple[Mapping, int]:
        keys: dict[str, Scalar] = {}
        values: dict[str, YamlNode] = {}
        at = self._space(start + 1)
        while self._source[at : at + 1] != "}":
            key, at = self._string(at)
            at = self._expect(self._space(at), ":")
            value, at = self._value(self._space(at), depth + 1)
            keys[key.value], values[key.value] = key, value
            at = self._next(at, "}")
        line, column = self._lines.position(start)
        nodes = values.values()
        size = 1 + sum(node.size for node in nodes)
        height = 1 + max((node.height for node in nodes), default=0)
        characters = sum(node.characters for node in nodes)
        return Mapping(start, at + 1, line, column, size, characters, height, keys, values), at + 1

    def _sequence(self, start: int, depth: int) -> tuple[Sequence, int]:
        items: list[YamlNode] = []
        at = self._space(start + 1)
        while self._source[at : at + 1] != "]":
            item, at = self._value(at, depth + 1)
            items.append(item)
            at = self._next(at, "]")
        line, column = self._lines.position(start)
        size = 1 + sum(node.size for node in items)
        height = 1 + max((node.height for node in items), default=0)
        characters = sum(node.characters for node in items)
        return Sequence(start, at + 1, line, column, size, characters, height, items), at + 1

    def _string(self, at: int) -> tuple[Scalar, int]:
        found = _STRING.match(self._source, at)
        if found is None:
            raise self._error("not valid JSON: a quoted string is missing here", at)
        try:
            value = found[0][1:-1] if "\\" not in found[0] else _DECODER.decode(found[0])
        except ValueError as error:
            raise self._error("not valid JSON: unknown escape", at) from error
        return self._scalar(at, found.end(), value, "str", '"'), found.end()

    def _scalar(self, start: int, stop: int, value: str, kind: Kind, style: str) -> Scalar:
        line, column = self._lines.position(start)
        quote = len(style)
        origin = Origin(
            self._path, line, column + quote, 1, self._source[start + quote : stop - quote] == value, text=value
        )
        return Scalar(start, stop, line, column, 1, len(value), 1, value, kind, style, Traced.of(value, origin))

    def _next(self, at: int, end: str) -> int:
        """The start of the next element, or of the end."""
        at = self._space(at)
        if self._source[at : at + 1] == end:
            return at
        at = self._space(self._expect(at, ","))
        if self._source[at : at + 1] == end:
            raise self._error("not valid JSON: a comma before the end", at)
        return at

    def _expect(self, at: int, mark: str) -> int:
        if self._source[at : at + 1] != mark:
            raise self._error(f"not valid JSON: `{mark}` is missing here", at)
        return at + 1

    def _space(self, at: int) -> int:
        found = _SPACE.match(self._source, at)
        return found.end() if found else at

    def _error(self, message: str, at: int) -> KvtoolError:
        line, column = self._lines.position(min(at, len(self._source)))
        excerpt = self._lines.content(line).rstrip("\r\n")
        return KvtoolError(message, place=Place(self._path, line, column, excerpt if len(excerpt) <= 400 else None))
