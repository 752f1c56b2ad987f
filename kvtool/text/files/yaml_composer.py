"""The tree of a YAML text, composed from PyYAML's events."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.yaml_nodes import MAX_DEPTH, Kind, Mapping, Scalar, Sequence, YamlNode, place_of, syntax_error
from kvtool.text.line_index import ANY_BREAK, LineIndex
from kvtool.text.traced import Origin, Traced

MAX_NODES = 100_000
MAX_CHARACTERS = 64 * 1024 * 1024

_CORE: list[tuple[Kind, re.Pattern[str]]] = [
    ("null", re.compile(r"(?:~|null|Null|NULL)?")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    (
        "float",
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
    ),
]
_NOT_YAML_12_BREAKS = "\x85\u2028\u2029"
"""PyYAML, which reads YAML 1.1, takes these for line breaks; they are ordinary characters of a prompt."""


class _Spot(NamedTuple):
    """An offset in the source, with line and column from 0."""

    offset: int
    line: int
    column: int


def _start(event: yaml.Event) -> _Spot:
    mark = event.start_mark
    assert mark is not None
    return _Spot(mark.index, mark.line, mark.column)


def _end(event: yaml.Event) -> int:
    assert event.end_mark is not None
    return event.end_mark.index


class Composer:
    """Builds the tree from events, without trusting its size: bounds are checked while it grows."""

    def __init__(self, source: str, path: str, *, foreign: bool = False) -> None:
        self.source = source
        self.path = path
        self._foreign = foreign
        self.problems: list[KvtoolError] = []
        self._anchors: dict[str, YamlNode | None] = {}
        self._substitutes = _substitutes(source)
        self._lines = LineIndex(source, ANY_BREAK)
        self._events: Iterator[yaml.Event] = iter(())

    def compose(self, parser: type[yaml.SafeLoader | yaml.CSafeLoader] = yaml.SafeLoader) -> YamlNode:
        loader = parser(self.source.translate(self._substitutes))
        self._events = iter(loader.get_event, None)
        root: YamlNode | None = None
        others: list[YamlNode] = []
        try:
            for event in self._events:
                if isinstance(event, yaml.DocumentStartEvent):
                    if root is not None and self._foreign:
                        others.append(self._node(next(self._events), 2))
                        continue
                    if root is not None:
                        raise self._error(
                            "several documents in one file", event, "keep one; `---` starts the second one here", 3
                        )
                    root = self._node(next(self._events), 1)
        except yaml.YAMLError as error:
            raise syntax_error(error, self.path, self.source) from None
        finally:
            loader.dispose()
        if root is None:
            raise KvtoolError(f"`{self.path}` is empty", hint="it contains only comments", place=Place(self.path, 1))
        if others:
            every = [root, *others]
            size, height = 1 + sum(node.size for node in every), 1 + max(node.height for node in every)
            characters = sum(node.characters for node in every)
            return Sequence(root.start, every[-1].end, root.line, root.column, size, characters, height, every)
        return root

    def _node(self, event: yaml.Event, depth: int) -> YamlNode:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        anchor = getattr(event, "anchor", None)
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event)
        if anchor is not None:
            self._anchors[anchor] = None
        node: YamlNode
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            assert isinstance(event, yaml.MappingStartEvent)
            node = self._mapping(event, depth)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, depth: int) -> YamlNode:
        name = event.anchor
        if name not in self._anchors:
            raise self._error(
                f"there is no anchor `&{name}` before this alias", event, "text that begins with `*` needs quotes"
            )
        node = self._anchors[name]
        if node is None:
            raise self._error(f"the alias `*{name}` is inside its own anchor", event)
        if depth + node.height - 1 > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event)
        return node

    def _sequence(self, event: yaml.SequenceStartEvent, depth: int) -> Sequence:
        self._check_tag(event, "tag:yaml.org,2002:seq")
        items: list[YamlNode] = []
        size, characters, height = 1, 0, 1
        while not isinstance(child := next(self._events), yaml.SequenceEndEvent):
            item = self._node(child, depth + 1)
            items.append(item)
            size, characters, height = self._grown(
                event, size + item.size, characters + item.characters, max(height, item.height + 1)
            )
        return Sequence(*self._span(event, child), size, characters, height, items)

    def _mapping(self, event: yaml.MappingStartEvent, depth: int) -> Mapping:
        self._check_tag(event, "tag:yaml.org,2002:map")
        keys: dict[str, Scalar] = {}
        values: dict[str, YamlNode] = {}
        size, characters, height = 1, 0, 1
        while not isinstance(child := next(self._events), yaml.MappingEndEvent):
            if not isinstance(child, yaml.ScalarEvent):
                raise self._bad_key(child)
            key = self._node(child, depth + 1)
            assert isinstance(key, Scalar)
            value = self._node(next(self._events), depth + 1)
            size, characters, height = self._grown(
                event, size + 1 + value.size, characters + value.characters, max(height, value.height + 1)
            )
            if key.value in keys:
                self.problems.append(
                    KvtoolError(
                        f"duplicate key `{key.value}`",
                        hint=f"the first one is on line {keys[key.value].line}",
                        place=place_of(key, self.path, self.source),
                    )
                )
                continue
            keys[key.value] = key
            values[key.value] = value
        return Mapping(*self._span(event, child), size, characters, height, keys, values)

    def _grown(self, event: yaml.Event, size: int, characters: int, height: int) -> tuple[int, int, int]:
        if size > MAX_NODES or characters > MAX_CHARACTERS:
            raise self._error(
                f"more than {MAX_NODES:,} values or {MAX_CHARACTERS:,} characters",
                event,
                "aliases (`*name`) copy their values",
            )
        return size, characters, height

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        tag = event.tag
        if tag not in (None, "!", "tag:yaml.org,2002:str") and not self._foreign:
            raise self._bad_tag(event)
        value = event.value.translate({stand_in: original for original, stand_in in self._substitutes.items()})
        value = _pair_surrogates(value)
        kind: Kind = "str"
        style = event.style or ""
        if not style and tag is None:
            kind = next((name for name, pattern in _CORE if pattern.fullmatch(value)), "str")
        text = Traced.of(value, self._origin(event, value, style))
        return Scalar(*self._span(event, event), 1, len(value), 1, value, kind, style, text)

    def _origin(self, event: yaml.ScalarEvent, value: str, style: str) -> Origin:
        start, line, column = _start(event)
        line, column = line + 1, column + 1
        if style in ("|", ">"):
            return self._block_origin(event, value, literal=style == "|")
        raw = self.source[start : _end(event)]
        if raw.startswith(("!", "&")):  # a plain scalar's event begins at its tag or anchor
            skipped = len(raw) - len(re.sub(r"^(?:[!&]\S*\s+)+", "", raw))
            start, raw = start + skipped, raw[skipped:]
            line, column = self._lines.position(start)
        if style:
            column += 1
            raw = raw[1:-1]
        return Origin(self.path, line, column, 1, raw == value, text=value)

    def _block_origin(self, event: yaml.ScalarEvent, value: str, *, literal: bool) -> Origin:
        """A literal's lines are in the file after an indent; where they do not (a folded one), only the first has a place."""
        header = re.compile(r"[|>]").search(self.source, _start(event).offset)
        assert header is not None
        first = self._lines.position(header.start())[0]  # 1-based header line = 0-based index of the line after it
        value_lines = value.split("\n")
        lines = [self._line(first + index) for index in range(len(value_lines))]
        written = next((index for index, line in enumerate(lines) if line.strip(" ")), None)
        if written is None:
            return Origin(self.path, first + 1, 1, 1, False, text=value)
        filled = next((line for line in value_lines if line.strip(" ")), "")
        indent = len(lines[written]) - len(lines[written].lstrip(" ")) - (len(filled) - len(filled.lstrip(" ")))
        if (
            literal
            and all(line[indent:] == expected for line, expected in zip(lines[:-1], value_lines, strict=False))
            and (not value_lines[-1] or lines[-1][indent:] == value_lines[-1])
        ):
            return Origin(self.path, first + 1, indent + 1, indent + 1, text=value)
        return Origin(self.path, first + 1 + written, indent + 1, indent + 1, False, text=value)

    def _line(self, index: int) -> str:
        """Line `index` (from 0) of the source without its end; empty past the last one."""
        return self._lines.content(index + 1).rstrip("\r\n")

    def _span(self, first: yaml.Event, last: yaml.Event) -> tuple[int, int, int, int]:
        index, line, column = _start(first)
        return index, _end(last), line + 1, column + 1

    def _check_tag(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, allowed: str) -> None:
        if event.tag not in (None, "!", allowed) and not self._foreign:
            raise self._bad_tag(event)

    def _bad_tag(self, event: yaml.Event) -> KvtoolError:
        return self._error("tags (`!…`) are not supported", event, "text that begins with `!` needs quotes")

    def _bad_key(self, event: yaml.Event) -> KvtoolError:
        if self.source.startswith("{", _start(event).offset):
            return self._error(
                "a value with `{{` needs quotes",
                event,
                'write "{{ name }}" in quotes; without quotes, `{` begins a YAML mapping',
                1,
            )
        return self._error("a key must be a simple word", event)

    def _error(self, message: str, event: yaml.Event, hint: str | None = None, width: int = 1) -> KvtoolError:
        line, column = self._lines.position(_start(event).offset)
        return KvtoolError(message, hint=hint, place=Place(self.path, line, column, self._line(line - 1), width))


def _substitutes(source: str) -> dict[int, int]:
    """For each of the characters that PyYAML would take for a line break, a private one that `source` does not use."""
    present = [character for character in _NOT_YAML_12_BREAKS if character in source]
    free = (code for code in range(0xE000, 0xF8FF) if chr(code) not in source)
    return {ord(character): next(free) for character in present}


def _pair_surrogates(value: str) -> str:
    r"""Escaped surrogate pairs (`"\ud83d\ude00"`, as JSON writes them) as the characters they mean."""
    if re.search("[\ud800-\udbff][\udc00-\udfff]", value):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return value


def compose_data(source: str, path: str) -> YamlNode:
    """The tree of YAML that is no workload; see `parse_yaml_data`."""
    if yaml.__with_libyaml__:  # ten times as fast; the words and places of what is wrong are those of the other
        with contextlib.suppress(yaml.YAMLError, KvtoolError):
            return Composer(source, path, foreign=True).compose(yaml.CSafeLoader)
    return Composer(source, path, foreign=True).compose()
