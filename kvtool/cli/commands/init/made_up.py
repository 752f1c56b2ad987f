"""Values that `init` makes up for the variables of prompts, as YAML of a workload."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from math import ceil, floor

from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.values.variable_names import kind_of_name
from kvtool.lint.prompt_copies import (
    Constant,
    PassedList,
    SentTools,
    TemplateCalls,
    ValueKind,
    is_known_to_vary,
    is_limit,
)
from kvtool.text.templates.shapes import MAPPING_METHODS, ValueShape, unify
from kvtool.workload.yaml.made_up_values import MADE_UP, MARK, copied_comment

_VALUES = 5
_DEEPEST = 8
_MANY_ORDERS = 24
"""So many orders are those of a list that hardly gets one of them twice; of fewer some come again."""
_ORDERS = {"fixed": 0, "process": 4, "request": 1000}
"""Orders of a list in a workload: one, that of each of some processes, or a new one in each request."""
_ITEMS = 4
"""Items of a list of which only is known that its order changes."""
_KEYS = 2
"""Keys of a mapping that a template runs over."""
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORDS_OF_YAML = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_CLOCK = "{datetime: 1m}", "a clock, one minute a request"
_ID = "{uuid: 4}", "a random id"
_COUNTER = "{counter: 1}", "1, 2, 3…"
_KINDS: dict[ValueKind, tuple[str, str]] = {
    "clock": _CLOCK,
    "date": ("{datetime: 1m, format: date}", "a date"),
    "id": _ID,
    "counter": _COUNTER,
    "constant": ("one", "always the same"),
    "order": _COUNTER,
}
"""Generators of values of which code says the kind."""
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:^|_)(?:{words})(?:_|$)"), value, why)
    for words, value, why in (
        ("now|date|time|today|timestamp|datetime|clock|at", *_CLOCK),
        ("uuid|guid|id|nonce|token", *_ID),
        ("num|number|count|index|turn|step", *_COUNTER),
        ("company|brand|product|app|agent|assistant|bot|model|team|version", "one", "always the same"),
    )
)


def variable_lines(name: str, shape: ValueShape, passed: TemplateCalls) -> list[str]:
    """Return the lines of a variable under `vars:`. `passed` is what code passes, by the path of the value."""
    return list(_Writer(passed).lines(name, shape, name, 1))


def tools_lines(tools: SentTools, path: str) -> list[str]:
    """Return the lines of the tools of a group, which the code in `path` sends."""
    orders = _ORDERS[tools.order]
    partly = f"  {MARK}: what the code does not say is left out" if tools.partly else ""
    lines = [f"    {copied_comment(f'{path}:{tools.place.line}')}", f"    tools:{partly}"]
    lines += [f"      orders: {orders}  {MARK}: another order in each {tools.order}", "      items:"] if orders else []
    pad = "        " if orders else "      "
    return [*lines, *(f"{pad}- {schema}" for schema in tools.schemas)]


class _Writer:
    """Writes one variable; a shape that contains itself ends with an empty list."""

    def __init__(self, passed: TemplateCalls) -> None:
        self._passed = passed
        self._open: list[ValueShape] = []

    def lines(self, key: str, shape: ValueShape, path: str, depth: int, *, item: bool = False) -> Iterator[str]:
        """Yield the lines of an entry of a mapping or, with `item`, of a list."""
        root = shape.root
        pad = "  " * depth
        head = f"{pad}-" if item else f"{pad}{key}:"
        kind = root.kind()
        if root in self._open or len(self._open) > _DEEPEST:
            empty = '{list: "", count: 0}' if kind in ("list", "tuple") else '{text: ""}'
            yield f"{head} {empty}  {MARK}: empty, as it contains itself"
            return
        if kind not in ("function", "object", "list", "tuple"):
            if (constants := self._passed.constants.get(path)) and (given := _given(constants, kind)) is not None:
                yield f"{head} {given}"
                return
            value, why = _scalar(root, kind, path, self._passed.kinds.get(path))
            yield f"{head} {value}  {MARK}: {why}"
            return
        self._open.append(root)
        yield head
        if item:
            depth += 1
            pad = "  " * depth
        yield from self._parts(root, kind, path, depth, pad)
        self._open.pop()

    def _parts(self, root: ValueShape, kind: str, path: str, depth: int, pad: str) -> Iterator[str]:
        if kind == "function":
            yield from self.lines("function", root.returned(), path, depth + 1)
        elif kind == "list" and root.element().root in self._open:
            yield f'{pad}  list: ""'
            yield f"{pad}  count: 0  {MARK}: empty, as an item contains it"
        elif kind == "list" and (lines := self._passed_list(root, path, depth)):
            yield from lines
        elif kind == "list":
            yield from self.lines("list", root.element(), _one_of(path), depth + 1)
            yield f"{pad}  count: {_count(root, path)}"
        elif kind == "tuple":
            yield f"{pad}  items:"
            for number in range(max(root.positions) + 1):
                yield from self.lines("", root.position(number), f"{path}.{number}", depth + 2, item=True)
        else:
            yield f"{pad}  object:"
            for name, field in self._fields(root, path).items():
                yield from self.lines(_key(name), field, f"{path}.{name}", depth + 2)

    def _passed_list(self, root: ValueShape, path: str, depth: int) -> list[str]:
        """Return the lines of a list that code passes, none where neither its elements nor its order are known."""
        passed = self._passed.lists.get(path, PassedList())
        pad = "  " * (depth + 1)
        element = root.element()
        known = bool(passed.elements) and all(_fits(json.loads(each), element) for each in passed.elements)
        orders = _ORDERS[passed.order]
        lines: list[str] = []
        if orders:
            lines.append(f"{pad}orders: {orders}  {MARK}: another order in each {passed.order}")
        if known:
            lines += [f"{pad}items:", *(f"{pad}  - {{choice: [{each}]}}" for each in passed.elements)]
        elif orders:
            lines.append(f"{pad}items:")
            for number in range(1, _ITEMS + 1):
                lines += self.lines("", element, f"{_one_of(path)} {number}", depth + 2, item=True)
        return lines

    def _fields(self, root: ValueShape, path: str) -> dict[str, ValueShape]:
        """Return the fields of an object; keys are made up where a template runs over them."""
        fields = {name: field for name, field in root.fields.items() if name not in root.called & MAPPING_METHODS}
        value = root.value
        iterated = "iterated" in root.hints or (root.item is not None and not root.item.is_structured())
        if value is None and not fields:
            value = ValueShape("maybe text")
        if value is not None and iterated and fields:
            unify(value, *fields.values())
        if value is not None and iterated and not fields:
            name = path.rpartition(".")[2]
            fields = {f"{name} {number}": value for number in range(1, _KEYS + 1)}
        if value is not None and ("keyed" in root.hints or not fields):
            fields["*"] = value
        return fields


def _given(constants: Sequence[Constant], kind: str) -> str | None:
    """Return the generator of constants as YAML; None where they are not what the templates use."""
    kinds = {type(constant) for constant in constants}
    if kinds == {bool}:
        return f"{{bool: {'0.5' if len(constants) > 1 else int(constants[0])}}}"
    if kinds == {int}:
        return f"{{range: [{min(constants)}, {max(constants)}]}}"
    if kinds != {str} or kind in ("date", "number", "bool"):
        return None
    return (
        f"{{text: {_as_json(str(constants[0]))}}}"
        if len(constants) == 1
        else f"{{choice: {_as_json(list(map(str, constants)))}}}"
    )


def _fits(data: object, shape: ValueShape) -> bool:
    """Return whether data is what templates use."""
    root = shape.root
    if isinstance(data, dict):
        fields = {name: field for name, field in root.fields.items() if name not in root.called & MAPPING_METHODS}
        return all(name in data and _fits(data[name], field) for name, field in fields.items())
    if isinstance(data, list):
        return root.kind() == "list" and all(_fits(each, root.element()) for each in data)
    return root.kind() not in ("function", "object", "list", "tuple", "date", "number", "bool")


def _one_of(path: str) -> str:
    """Return a name for an item: `doc` of `docs`, `entry` of `entries`."""
    if path.endswith("ies") and len(path) > 4:
        return f"{path[:-3]}y"
    return path[:-1] if path.endswith("s") and not path.endswith("ss") and len(path) > 2 else path


def _count(root: ValueShape, path: str) -> str:
    low, high = 1, 3
    if root.lengths:
        low, high = max(floor(min(root.lengths)) - 1, 0), max(ceil(max(root.lengths)), 0) + 1
    elif not is_known_to_vary(path):
        return f"{min(max(2, root.least), 1000)}  {MARK}: always as many"
    low = max(low, root.least)
    return f"[{min(low, 1000)}, {min(max(high, low), 1000)}]  {MARK}: the least and the most"


def _scalar(root: ValueShape, kind: str, path: str, known: ValueKind | None) -> tuple[str, str]:
    """Return the generator of a value as YAML, and what it is; `known` is the kind that code says."""
    if kind == "date":
        form, why = ("date-object", "a date") if known == "date" else ("object", _CLOCK[1])
        return f"{{datetime: 1m, format: {form}}}", why
    if kind == "bool":
        return "{bool: 0.5}", "true or false"
    if kind == "number" and known == "counter":
        return _COUNTER
    if kind == "number":
        if not root.numbers:
            return (
                ("{range: [1, 9]}", "a whole number")
                if is_known_to_vary(path)
                else ("{range: [2, 2]}", "always the same")
            )
        low, high = floor(min(root.numbers)), ceil(max(root.numbers))
        return f"{{range: [{low - 1 if low < 0 else max(low - 1, 0)}, {high + 1}]}}", "a whole number"
    if root.texts:
        texts = list(dict.fromkeys(root.texts))
        texts += [] if len(texts) > 1 or root.literal else [f"{MADE_UP}: {path}"]
        if known == "order":
            pick = "cycle" if len(texts) >= _MANY_ORDERS else "random"
            return f"{{choice: {_as_json(texts)}, pick: {pick}}}", "another order of the list in each request"
        return f"{{choice: {_as_json(texts)}}}", "the values that the templates compare it with"
    is_text = bool(root.fields) or bool(root.hints & {"text", "added"})
    return generator(path, known, is_text=is_text)


def generator(path: str, known: ValueKind | None = None, *, is_text: bool = False) -> tuple[str, str]:
    """Return the generator of a plain value as YAML, and what it is.

    A value changes only where its kind or its name says so: no line is blamed for a guess.
    """
    if known is not None:
        value, why = _KINDS[known]
        return _one(path) if value == "one" else (value, why)
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", path.rpartition(".")[2]).lower()
    for pattern, value, why in _RULES:
        if pattern.search(word) and not (is_text and "counter" in value):
            return _one(path) if value == "one" else (value, why)
    if word in ("n", "i"):
        return _COUNTER
    if is_limit(word.split("_")) and not is_text:
        return "{range: [5, 5]}", "a number, always the same"
    if not is_known_to_vary(path):
        return _one(path)
    if kind_of_name(path) is FLAG:
        values = [f"{MADE_UP}: {path} {number}" for number in range(1, _VALUES + 1)]
        return f"{{choice: {_as_json(values)}}}", "one of a few"
    return f"{{counter: 1, format: {_as_json(f'{MADE_UP}: {path} {{}}')}}}", "another text in each request"


def _one(path: str) -> tuple[str, str]:
    return f"{{text: {_as_json(f'{MADE_UP}: {path}')}}}", "always the same"


def names_line(key: str, names: set[str]) -> list[str]:
    """Return the line that declares filters or tests of the application."""
    what = "each gives its value unchanged" if key == "filters" else "each is true of a value that is not empty"
    return [f"{key}: [{', '.join(sorted(names))}]  {MARK}: {what}"] if names else []


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS_OF_YAML else _as_json(name)


def _as_json(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)
