"""Prices of what is done with a text: its methods, and Jinja's filters of the same names, which do about the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from kvtool.text.templates.format_prices import ESCAPES, price_printf
from kvtool.text.templates.work import BYTES_OF_STEP, MARK, Work, size_of, width_of
from kvtool.text.traced import Traced

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]

_LINE = 60
_PIECE = 16
_TRACED_PIECE = 60
_ENTRY = 12
_DIGITS = 4_300
"""Of a number that Python reads."""
_SPACES = (*map(chr, range(9, 14)), *map(chr, range(28, 33)), "\x85", "\xa0")
_WIDE_SPACES = ("\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028", "\u2029", "\u202f", "\u205f", "\u3000")
_BREAKS = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_LINEAR_CODECS = frozenset(
    {"utf8", "ascii", "latin1", "iso88591", "utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be"}
)


class Cost(NamedTuple):
    """What a method or filter takes: sixteenths of a step for each character that it reads, and characters that one may become
    (none where no text is made)."""

    reads: int
    growth: int


def cost_of(name: str) -> Cost:
    """The cost of a method or filter; of one that is not known, that of reading and copying its text."""
    return _COSTS.get(name, _COPY)


def is_known(name: str) -> bool:
    """Whether it is known which of the arguments are widths or counts."""
    return name in _COSTS


def price_marks(work: Work, text: object) -> None:
    """Pay for taking a text apart that has many places."""
    if type(text) is Traced and len(text.marks) > 1:
        work.spend(5 * MARK * len(text.marks))


def price_text(work: Work, name: str, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    """Pay for a method or filter of a text: what it reads, what it makes, and what its arguments let grow."""
    reads, growth = cost_of(name)
    work.spend(len(text) * reads >> 4)
    if growth > 1 and text.isascii() and name in _CASES:
        growth = 1
    work.build(size_of(text) * growth * (ESCAPES if isinstance(text, Markup) else 1))
    if (price := _TEXTS.get(name)) is not None:
        price(work, text, args, kwargs)
    else:
        for value in (*args, *kwargs.values()):
            work.plain(value)
        if not is_known(name):
            work.sizes((*args, *kwargs.values()))


def argument(args: Args, kwargs: Kwargs, number: int, name: str, default: Any) -> Any:
    """The argument at this place or of this name."""
    return args[number] if len(args) > number else kwargs.get(name, default)


def _strip(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    chars = argument(args, kwargs, 0, "chars", None)
    work.spend(len(text) * _length(chars) >> 5)


def _find(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(*args[:1]))


def _find_back(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(*args[:1]), backwards=True)


def _split(work: Work, text: str | bytes, args: Args, kwargs: Kwargs, *, backwards: bool = False) -> None:
    by = argument(args, kwargs, 0, "sep", None)
    most = argument(args, kwargs, 1, "maxsplit", -1)
    if by:
        work.search(len(text), _length(by), backwards=backwards)
        pieces = _count(text, by) + 1
    else:
        pieces = _count_all(work, text, _SPACES, _WIDE_SPACES) + 1
    _pay_pieces(work, text, min(pieces, most + 1) if isinstance(most, int) and most >= 0 else pieces)


def _split_back(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    _split(work, text, args, kwargs, backwards=True)


def _split_lines(work: Work, text: str | bytes, _args: Args, _kwargs: Kwargs) -> None:
    _pay_pieces(work, text, _count_lines(work, text))


def _partition(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    work.search(len(text), _length(*args[:1]), backwards=True)
    _pay_pieces(work, text, 3)


def _pay_pieces(work: Work, text: str | bytes, pieces: int) -> None:
    work.spend(pieces * (_TRACED_PIECE if isinstance(text, Traced) else _PIECE))


def _count_lines(work: Work, text: str | bytes) -> int:
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


def price_joined(work: Work, text: str | bytes, args: Args) -> Args:
    """Pay for `text.join(items)`; gives the items as a list."""
    if len(args) != 1:
        return args
    items = args[0]
    if not isinstance(items, str | bytes | list | tuple):
        items = list(work.items(items, _PIECE))
    work.spend(len(items) * (_PIECE + MARK * isinstance(text, Traced)))
    size = size_of(text) * max(len(items) - 1, 0)
    width = width_of(text)
    for item in [items] if isinstance(items, str | bytes) else items:
        if isinstance(item, str | bytes):
            size += size_of(item)
            width = max(width, 1 if item.isascii() else 4)
    work.build(size * (width if size > 4096 else 1) * (ESCAPES if isinstance(text, Markup) else 1))
    return (items,)


def _strip_tags(work: Work, text: str, _args: Args, _kwargs: Kwargs) -> None:
    """The text is copied for each tag."""
    work.spend(len(text) * text.count("<") >> 4)


def _indent(work: Work, text: str, args: Args, kwargs: Kwargs) -> None:
    lines = _count_lines(work, text)
    work.spend(_LINE * lines)
    work.build(lines * width_of_field(argument(args, kwargs, 0, "width", 4)) * width_of(text))


def _word_wrap(work: Work, text: str, args: Args, kwargs: Kwargs) -> None:
    """Words are looked at again and again, those that are cut copied for each cut."""
    work.spend(len(text) * max(map(len, text.splitlines()), default=0) // 50)
    work.build(len(text) * _length(argument(args, kwargs, 2, "wrapstring", "")))


def _urlize(work: Work, text: str, _args: Args, _kwargs: Kwargs) -> None:
    """Patterns that look ahead in each word from each of its characters."""
    work.spend(len(text) * max(map(len, text.split()), default=0))


def _printf(work: Work, text: str, args: Args, kwargs: Kwargs) -> None:
    price_printf(work, text, kwargs or args)


def _integer(work: Work, text: str, args: Args, kwargs: Kwargs) -> None:
    work.spend(min(len(text), _DIGITS) ** 2 >> 12)
    if argument(args, kwargs, 1, "base", 10) != 10:
        work.number(5 * len(text))


def _translate(work: Work, text: str | bytes, args: Args, _kwargs: Kwargs) -> None:
    table = args[0] if args else None
    if isinstance(table, Mapping | list | tuple):
        work.items(table, 4)
        values = table.values() if isinstance(table, Mapping) else table
        longest = max((len(value) for value in values if isinstance(value, str)), default=1)
        work.build(4 * len(text) * longest if longest > 1 else 0)


def price_table(work: Work, args: Args) -> None:
    """Pay for `maketrans`: an entry for each character, and each of them looked up."""
    longest = max((len(value) for value in args if isinstance(value, str | bytes | Mapping)), default=0)
    work.spend(_ENTRY * longest)
    work.build(_ENTRY * BYTES_OF_STEP * min(longest, 0x110000))


def _expand_tabs(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    tabs = _count(text, b"\t" if isinstance(text, bytes) else "\t")
    work.build(tabs * width_of_field(argument(args, kwargs, 0, "tabsize", 8)) * width_of(text))


def _pad(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    wide = width_of(args[1]) if len(args) > 1 and isinstance(args[1], str | bytes) else 1
    work.build(width_of_field(argument(args, kwargs, 0, "width", 80)) * max(width_of(text), wide))


def _encode(work: Work, text: str | bytes, args: Args, kwargs: Kwargs) -> None:
    codec = argument(args, kwargs, 0, "encoding", "utf-8")
    if isinstance(codec, str) and codec.lower().replace("-", "").replace("_", "") not in _LINEAR_CODECS:
        work.spend(len(text) * len(text) >> 3)  # `punycode` and `idna` compare each character with each
    work.build(4 * len(text) if argument(args, kwargs, 1, "errors", "strict") == "strict" else 12 * len(text))


def _length(value: object = None) -> int:
    return len(value) if isinstance(value, str | bytes) else 1


def width_of_field(value: object) -> int:
    """Characters of a width, which is a number or the text itself."""
    if isinstance(value, str):
        return len(value) * width_of(value)
    return max(value, 0) if isinstance(value, int) else 0


def _count(text: Any, wanted: Any) -> int:
    """Count a text in another; none where one is text and one is bytes, which the method itself refuses."""
    if isinstance(text, str):
        return str.count(text, wanted) if isinstance(wanted, str) else 0
    return int(text.count(wanted)) if isinstance(wanted, bytes) else 0


_COPY = Cost(1, 1)
_CASES = ("upper", "lower", "capitalize", "swapcase", "casefold", "title")
_COSTS: dict[str, Cost] = {
    **dict.fromkeys(_CASES, Cost(2, 3)),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim", "split", "rsplit", "splitlines", "partition", "rpartition"), _COPY),
    **dict.fromkeys(
        (
            "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "startswith", "endswith",
            "find", "index", "count", "rfind", "rindex",
        ),
        Cost(1, 0),
    ),
    **dict.fromkeys(("ljust", "rjust", "center", "zfill", "expandtabs", "indent", "truncate", "format", "string", "safe"), _COPY),
    **dict.fromkeys(("e", "escape", "forceescape", "xmlattr"), Cost(1, ESCAPES)),
    **dict.fromkeys(("float", "int", "filesizeformat"), Cost(4, 0)),
    **dict.fromkeys(("encode", "decode", "replace"), Cost(4, 0)),
    "title": Cost(256, 3),
    "translate": Cost(128, 1),
    "striptags": Cost(256, 1),
    "wordcount": Cost(48, 0),
    "wordwrap": Cost(640, 1),
    "urlencode": Cost(128, 12),
    "urlize": Cost(1600, 4 * ESCAPES),
}  # fmt: skip
_TEXTS: dict[str, Callable[[Work, Any, Args, Kwargs], None]] = {
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _strip),
    **dict.fromkeys(("find", "index", "count"), _find),
    **dict.fromkeys(("rfind", "rindex"), _find_back),
    **dict.fromkeys(("partition", "rpartition"), _partition),
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _pad),
    **dict.fromkeys(("encode", "decode"), _encode),
    "expandtabs": _expand_tabs,
    "format": _printf,
    "indent": _indent,
    "int": _integer,
    "replace": _replace,
    "rsplit": _split_back,
    "split": _split,
    "splitlines": _split_lines,
    "striptags": _strip_tags,
    "translate": _translate,
    "urlize": _urlize,
    "wordwrap": _word_wrap,
}
