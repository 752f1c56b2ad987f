"""Prices of the methods of text, lists and numbers that a template may call, and of keys of objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from markupsafe import Markup

from kvtool.text.templates.format_prices import ESCAPES
from kvtool.text.templates.work import BYTES_OF_STEP, MARK, Work, size_of, width_of
from kvtool.text.traced import Traced

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]

_SPACES = (*map(chr, range(9, 14)), *map(chr, range(28, 33)), "\x85", "\xa0")
_WIDE_SPACES = ("\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028", "\u2029", "\u202f", "\u205f", "\u3000")
_BREAKS = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_PIECE = 16
_TRACED_PIECE = 60
_ENTRY = 12
_LINEAR_CODECS = frozenset(
    {"utf8", "ascii", "latin1", "iso88591", "utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be"}
)


def price_method(work: Work, owner: Any, name: str, args: Args, kwargs: Kwargs) -> Args:
    """Pay for `owner.name(*args, **kwargs)`; gives the arguments, those that had to be looked at as lists."""
    if isinstance(owner, str | bytes):
        price = _TEXT_METHODS.get(name, _any_text)
        if price not in _READING:
            price_marks(work, owner)
        return price(work, owner, args, kwargs) or args
    if isinstance(owner, dict) and name in _LOOKUPS:
        for value in args:
            work.plain(value)
    else:
        for value in (owner, *args, *kwargs.values()):
            work.plain(value)
        work.sizes((*args, *kwargs.values()))
        if isinstance(owner, dict | list | tuple | range):
            work.build_items(len(owner))
        if name == "from_bytes" and args:
            work.number(8 * len(args[0]) if hasattr(args[0], "__len__") else 0)
    return args


def price_marks(work: Work, text: object) -> None:
    """Pay for taking a text apart that has many places."""
    if type(text) is Traced and len(text.marks) > 1:
        work.spend(5 * MARK * len(text.marks))


_LOOKUPS = frozenset({"get", "keys", "values", "items"})


def _any_text(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    """A method that gives a text of about the same size, or a number."""
    for value in (*args, *kwargs.values()):
        work.plain(value)
    work.sizes((*args, *kwargs.values()))
    work.spend(len(text) >> 4)
    work.build(size_of(text) * (ESCAPES if isinstance(text, Markup) else 1))


def _case(work: Work, text: str | bytes, _args: Args, _kwargs: Kwargs) -> None:
    work.spend(len(text) >> 3)
    work.build(size_of(text) * (1 if text.isascii() else 3))


def _asked(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    """`isdigit`, `startswith` and the like."""
    if args:
        work.plain(args[0])
    work.spend(len(text) >> 4)


def _strip(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    characters = len(args[0]) if args and isinstance(args[0], str | bytes) else 1
    work.spend(len(text) * characters >> 5)
    work.build(size_of(text))


def _find(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(args))


def _find_back(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(args), backwards=True)


def _split(work: Work, text: str | bytes, args: Args, kwargs: Kwargs, *, backwards: bool = False) -> None:
    by = args[0] if args else kwargs.get("sep")
    most = args[1] if len(args) > 1 else kwargs.get("maxsplit", -1)
    if by:
        work.search(len(text), _length((by,)), backwards=backwards)
        pieces = _count(text, by) + 1
    else:
        pieces = _count_all(work, text, _SPACES, _WIDE_SPACES) + 1
    if isinstance(most, int) and most >= 0:
        pieces = min(pieces, most + 1)
    _build_pieces(work, text, pieces)


def _split_back(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    _split(work, text, args, kwargs, backwards=True)


def _split_lines(work: Work, text: str | bytes, _args: Args, _kwargs: Kwargs) -> None:
    _build_pieces(work, text, count_lines(work, text))


def _partition(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(args), backwards=True)
    _build_pieces(work, text, 3)


def _build_pieces(work: Work, text: str | bytes, pieces: int) -> None:
    work.spend(pieces * (_TRACED_PIECE if isinstance(text, Traced) else _PIECE))
    work.build(size_of(text))


def count_lines(work: Work, text: str | bytes) -> int:
    """Lines of a text, at most."""
    return _count_all(work, text, _BREAKS, ()) + 1


def _count_all(work: Work, text: str | bytes, narrow: tuple[str, ...], wide: tuple[str, ...]) -> int:
    """Count these characters, one by one: the text is read for each."""
    if len(text) < 64:
        return len(text)
    work.spend(len(text) >> 2)
    if isinstance(text, bytes):
        return sum(text.count(some.encode("latin-1")) for some in narrow if some < "\x80")
    found = sum(str.count(text, some) for some in narrow)
    return found if text.isascii() else found + sum(str.count(text, some) for some in wide)


def price_replace(work: Work, text: str | bytes, old: Any, new: Any, most: Any = -1) -> None:
    """Pay for `text.replace(old, new)`."""
    if not isinstance(old, str | bytes) or not isinstance(new, str | bytes):
        return
    price_marks(work, text)
    work.search(len(text), max(len(old), 1))
    found = _count(text, old)
    if isinstance(most, int) and most >= 0:
        found = min(found, most)
    width = max(width_of(text), width_of(new))
    work.spend(found * (_TRACED_PIECE if isinstance(text, Traced) else 2))
    if isinstance(new, Traced):
        work.spend(found * len(new.marks) * MARK)
    work.build((len(text) + found * max(len(new) - len(old), 0)) * width * (ESCAPES if isinstance(text, Markup) else 1))


def _replace(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    if len(args) > 1:
        price_replace(work, text, *args[:3], **({"most": kwargs["count"]} if "count" in kwargs else {}))


def _join(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> Args | None:
    if len(args) != 1:
        return None
    items = args[0]
    if isinstance(items, str | bytes):
        work.spend(len(items) * (_PIECE + MARK * isinstance(text, Traced)))
        work.build(
            (len(items) + len(text) * len(items))
            * max(width_of(text), width_of(items) if isinstance(items, str) else 1)
        )
        return None
    if not isinstance(items, list | tuple):
        items = list(work.items(items, _PIECE))
    price_join(work, text, items)
    return (items,)


def price_join(work: Work, text: str | bytes, items: list[Any] | tuple[Any, ...]) -> None:
    """Pay for `text.join(items)`."""
    work.spend(_PIECE * len(items))
    size = size_of(text) * max(len(items) - 1, 0)
    width = width_of(text)
    for item in items:
        if isinstance(item, str | bytes):
            size += size_of(item)
            width = max(width, 1 if item.isascii() else 4)
    work.build(size * (width if size > 4096 else 1) * (ESCAPES if isinstance(text, Markup) else 1))


def _strip_tags(work: Work, text: str, _args: Args, _kwargs: Kwargs) -> None:
    price_tags(work, text)


def price_tags(work: Work, text: str) -> None:
    """Pay for taking tags out of a text, which is copied for each."""
    work.spend(len(text) * (1 + text.count("<")) >> 4)
    work.spend(16 * len(text))


def _translate(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    table = args[0] if args else None
    longest = 1
    if isinstance(table, Mapping):
        work.items(table, 4)
        longest = max((len(value) for value in table.values() if isinstance(value, str)), default=1)
    elif isinstance(table, list | tuple):
        work.items(table, 4)
        longest = max((len(value) for value in table if isinstance(value, str)), default=1)
    work.spend(8 * len(text))
    work.build(4 * len(text) * max(longest, 1) if longest > 1 else size_of(text))


def price_table(work: Work, args: Args) -> None:
    """Pay for `maketrans`: an entry for each character, and each of them looked up."""
    for value in args:
        work.plain(value)
    longest = max((len(value) for value in args if isinstance(value, str | bytes | Mapping)), default=0)
    work.spend(_ENTRY * longest)
    work.build(_ENTRY * BYTES_OF_STEP * min(longest, sys.maxunicode))


def _expand_tabs(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    width = args[0] if args else kwargs.get("tabsize", 8)
    tabs = _count(text, b"\t" if isinstance(text, bytes) else "\t")
    work.spend(len(text) >> 3)
    work.build(size_of(text) + tabs * max(width, 0) * width_of(text) if isinstance(width, int) else 0)


def _pad(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    width = args[0] if args and isinstance(args[0], int) else 0
    wide = width_of(args[1]) if len(args) > 1 and isinstance(args[1], str) else 1
    work.build(max(size_of(text), width * max(width_of(text), wide)))


def _encode(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    codec = args[0] if args else kwargs.get("encoding", "utf-8")
    errors = args[1] if len(args) > 1 else kwargs.get("errors", "strict")
    if isinstance(codec, str) and codec.lower().replace("-", "").replace("_", "") not in _LINEAR_CODECS:
        work.spend(len(text) * len(text) >> 3)  # `punycode` and `idna` compare each character with each
    work.spend(len(text) >> 2)
    work.build(4 * len(text) if errors == "strict" else 12 * len(text))


def _length(args: Args) -> int:
    return len(args[0]) if args and isinstance(args[0], str | bytes) else 1


def _count(text: Any, wanted: Any) -> int:
    """Count a text in another; none where one is text and one is bytes, which the method itself refuses."""
    if isinstance(text, str):
        return str.count(text, wanted) if isinstance(wanted, str) else 0
    return int(text.count(wanted)) if isinstance(wanted, bytes) else 0


_TEXT_METHODS: dict[str, Callable[[Work, Any, Args, Kwargs], Args | None]] = {
    **dict.fromkeys(("upper", "lower", "title", "capitalize", "swapcase", "casefold"), _case),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), _strip),
    **dict.fromkeys(("startswith", "endswith"), _asked),
    **dict.fromkeys(
        ("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace"), _asked
    ),
    **dict.fromkeys(("find", "index", "count"), _find),
    **dict.fromkeys(("rfind", "rindex"), _find_back),
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _pad),
    **dict.fromkeys(("encode", "decode"), _encode),
    "split": _split,
    "rsplit": _split_back,
    "splitlines": _split_lines,
    "partition": _partition,
    "rpartition": _partition,
    "replace": _replace,
    "join": _join,
    "striptags": _strip_tags,
    "translate": _translate,
    "expandtabs": _expand_tabs,
}
_READING = (_asked, _find, _find_back)
"""Those that give no text."""


_FREE_HASH = 2**61 - 1
"""Python's hash of a whole number is its remainder of this."""


class KeyPrices:
    """Pays for keys, one after the other, that go into one object or set."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._alike = 0

    def add(self, key: object) -> None:
        """Pay for one more key."""
        self._work.plain(key)
        if isinstance(key, str) or (isinstance(key, int) and -_FREE_HASH < key < _FREE_HASH):
            return
        self._alike += 1
        self._work.spend(self._alike >> 1)


def price_keys(work: Work, keys: Iterable[object]) -> list[object]:
    """Pay for an object of these keys; gives them as a list."""
    prices = KeyPrices(work)
    found: list[object] = []
    for key in work.items(keys, 10):
        prices.add(key)
        found.append(key)
    return found
