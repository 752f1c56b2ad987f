"""The budget of one rendering: every statement, call and result is paid from it before it happens.

One step means about 25 ns of a processor's time or 8 bytes of a result. Steps are counted, never timed, so that a template
ends with the same error on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from json.encoder import encode_basestring_ascii
from types import GeneratorType, MethodType, NoneType
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

from jinja2 import Undefined
from jinja2.exceptions import TemplateRuntimeError
from jinja2.utils import Namespace

from kvtool.text.traced import Traced

MAX_OUTPUT = 64 * 1024 * 1024
"""Bytes of one text or list that a template may build."""
MAX_WORK = 25_000_000
"""Steps of a rendering."""
MAX_BITS = 16_384
"""Of an integer: more than the 4,300 digits that Python writes."""
MAX_DEPTH = 500
"""How deeply lists may hold lists where they are written, compared or looked up."""

BYTES_OF_STEP = 8
MARK = 8
"""Steps for each mark of a text that is cut or joined."""
SHORT = 4096
"""Characters of a text whose size is not looked at closely."""
_PART = 65_536
_SCALARS = frozenset({int, float, bool, NoneType})
_PLAIN = frozenset({str, Traced, float, bool, NoneType})
_BYTES_OR_TEXT = (str, bytes)


class Weight(NamedTuple):
    """The size of a value, repeated parts counted twice: values, characters when written, and levels of lists."""

    values: int
    characters: int
    depth: int


class Work:
    """Counts down the steps of a rendering; every method raises TemplateRuntimeError where they do not suffice."""

    left: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.left = MAX_WORK
        self._depths: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def start(self, steps: int = MAX_WORK) -> None:
        """Begin a rendering: what it may do is counted from here on."""
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            self.exhausted()

    def exhausted(self) -> NoReturn:
        raise TemplateRuntimeError(f"it does not end within {MAX_WORK:,} steps (calls, loops, and what they build)")

    def build(self, size: int) -> None:
        """Pay for a result of `size` bytes that is about to be made."""
        if size > MAX_OUTPUT:
            raise TemplateRuntimeError(f"its output is larger than {MAX_OUTPUT // 2**20} MiB")
        self.left -= size >> 3
        if self.left < 0:
            self.exhausted()

    def build_items(self, count: int) -> None:
        """Pay for a list of `count` items that are there already."""
        self.build(BYTES_OF_STEP * count)

    def number(self, bits: int) -> None:
        """Pay for arithmetic whose largest integer has so many bits."""
        if bits > MAX_BITS:
            raise TemplateRuntimeError(f"it computes a number of more than {MAX_BITS:,} bits")
        if bits > 256:
            self.spend(bits * bits >> 15)

    def sizes(self, values: Iterable[object]) -> None:
        """Pay for arguments that may be widths or counts."""
        for value in values:
            if isinstance(value, int) and abs(value) > SHORT:
                self.build(abs(value))

    def plain(self, value: Any) -> Any:
        """The value, whose comparison or lookup is paid for."""
        kind = type(value)
        if kind not in _PLAIN and kind is not int:
            self.weigh(value)
        elif (kind is str or kind is Traced) and len(value) > SHORT:
            self.spend(len(value) >> 6)
        return value

    def weigh(self, value: object) -> Weight:
        """Measure the size of a value; pays for the walk, which ends where the steps do."""
        values = characters = depth = 0
        level: list[object] = [value]
        while level:
            depth += 1
            if depth > MAX_DEPTH:
                raise TemplateRuntimeError(f"its lists are nested deeper than {MAX_DEPTH} levels")
            values += len(level)
            below: list[object] = []
            for item in level:
                if isinstance(item, str | bytes):
                    self.spend(4 + (len(item) >> 3))
                    characters += 4 + quoted_size(item)
                elif isinstance(item, int):
                    bits = item.bit_length()
                    self.number(bits)
                    self.spend(4)
                    characters += 24 + (bits >> 1)
                elif (parts := _parts(item)) is not None:
                    self.spend(4 + 4 * len(parts))
                    characters += 24 + 4 * len(parts)
                    below.extend(parts)
                else:
                    characters += 64
                    self.spend(40)
            level = below
        return Weight(values, characters, depth)

    def written(self, value: object) -> int:
        """The bytes of `str(value)`, at most."""
        if isinstance(value, str):
            return size_of(value)
        if type(value) in _SCALARS:
            bits = value.bit_length() if isinstance(value, int) else 0
            self.number(bits)
            return 32 + (bits >> 1)
        return self.weigh(value).characters

    def text(self, value: object) -> str:
        """`str(value)`, paid for."""
        if isinstance(value, str):
            return value
        self.build(self.written(value))
        return str(value)

    def items(self, values: Any, steps: int) -> Any:
        """The values that something runs over, each paid for with `steps`."""
        if isinstance(values, Undefined):
            return values
        try:
            size = len(values)
        except TypeError:
            return self._each(values, steps)
        self.spend(size * steps)
        return values

    def pay_within(self, value: Any, values: Any) -> Any:
        """Pay for looking for a value in others; gives these, paid for as they are run over where nothing knows their length."""
        self.plain(value)
        if type(values) is dict:
            return values
        if isinstance(values, _BYTES_OR_TEXT):
            self.search(len(values), len(value) if isinstance(value, str | bytes) else 1)
        elif isinstance(values, list | tuple):
            self.plain(values)
        elif isinstance(values, range) and not isinstance(value, int):
            self.spend(2 * len(values))
        elif isinstance(values, Iterator):
            return map(self.plain, self._each(values, 4))
        return values

    def _each(self, values: Iterable[object], steps: int) -> Iterator[object]:
        for value in values:
            self.spend(steps)
            yield value

    def chained(self, values: object, made: Any) -> Any:
        """Yield a filter's values as they are asked for; such filters may not be nested too deep."""
        depth = self._depths.get(values, 0) + 1 if isinstance(values, GeneratorType) else 1
        if depth > MAX_DEPTH // 5:
            raise TemplateRuntimeError(f"more than {MAX_DEPTH // 5} nested filters")
        self._depths[made] = depth
        return made

    def search(self, length: int, wanted: int, *, backwards: bool = False) -> None:
        """Pay for looking for a text of `wanted` characters in one of `length`: at worst each is compared with each, unless both
        are long and the search runs forwards."""
        if length < 64:
            return
        if not backwards and (length > 30_000 or (length >= 2_500 and wanted >= 100)):
            wanted = min(wanted, 6)
        self.spend(length * max(min(wanted, length - wanted), 1) // 25)


def size_of(text: str | bytes) -> int:
    """Bytes that a text takes, roughly; a Traced one with its marks."""
    size = len(text)
    if size > SHORT and not text.isascii():
        size = sys.getsizeof(text)
    if isinstance(text, Traced) and len(text.marks) > 1:
        size += MARK * BYTES_OF_STEP * len(text.marks)
    return size


def quoted_size(text: str | bytes) -> int:
    """Bytes of a text with its escapes, as Python or JSON quotes it, at most."""
    size = len(text)
    if size <= SHORT or isinstance(text, bytes):
        return size * (6 if text.isascii() else 12)
    parts = (str.__getitem__(text, slice(at, at + _PART)) for at in range(0, size, _PART))
    return (
        sum(len(encode_basestring_ascii(part)) for part in parts) + str.count(text, "'") + 3 * str.count(text, "\x7f")
    )


def width_of(text: str | bytes) -> int:
    """Bytes of a character of the text, at most: 1, 2 or 4."""
    if isinstance(text, bytes) or text.isascii():
        return 1
    return 4 if len(text) <= SHORT else max(sys.getsizeof(text) // len(text), 1)


def _parts(value: object) -> Collection[object] | None:
    """The values that this one holds."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Namespace):
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, ItemsView | KeysView | ValuesView | set | frozenset):
        return value
    if isinstance(value, MethodType):
        return (value.__self__,)
    return None
