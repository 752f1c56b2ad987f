"""Prices of Jinja's filters and tests, paid before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GeneratorType
from typing import Any

from jinja2 import Undefined

from kvtool.text.templates.format_prices import ESCAPES, price_printf
from kvtool.text.templates.method_prices import KeyPrices, count_lines, price_marks, price_tags
from kvtool.text.templates.work import Work, size_of, width_of

Price = Callable[[Work, Any, tuple[Any, ...], Mapping[str, Any]], Any]
"""Pays for a filter of a value with arguments; gives the value, paid for as it is run over where nothing knows its length."""

_ITEM = 60
_DIGITS = 4_300
"""Of a number that Python reads."""
_QUOTED = 12
"""Bytes that a character may become in an address."""


def price_filters(work: Work, filters: dict[str, Callable[..., Any]]) -> None:
    """Have all these filters paid for; one that is not known here may do what reads each character of its values a few times."""
    for name, function in filters.items():
        if name not in _FREE_FILTERS:
            filters[name] = _priced(work, function, _FILTERS.get(name, _unknown))


def price_tests(work: Work, tests: dict[str, Callable[..., Any]]) -> None:
    """Have all these tests paid for."""
    for name, function in tests.items():
        if name not in _FREE_TESTS:
            tests[name] = _priced(work, function, _TESTS.get(name, _unknown))


def _priced(work: Work, function: Callable[..., Any], price: Price) -> Callable[..., Any]:
    """The filter after its price. What Jinja passes first to some of them stays first."""
    passed = getattr(function, "jinja_pass_arg", None)
    if passed is None:

        def priced(value: Any = None, *args: Any, **kwargs: Any) -> Any:
            price_marks(work, value)
            result = function(price(work, value, args, kwargs), *args, **kwargs)
            return work.chained(value, result) if type(result) is GeneratorType else result

    else:

        def priced(value: Any = None, *args: Any, **kwargs: Any) -> Any:
            context, value, args = value, args[0], args[1:]
            price_marks(work, value)
            result = function(context, price(work, value, args, kwargs), *args, **kwargs)
            return work.chained(value, result) if type(result) is GeneratorType else result

        priced.jinja_pass_arg = passed  # type: ignore[attr-defined]  # how Jinja itself marks them
    return priced


def _unknown(work: Work, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    weight = work.weigh([value, *args, *kwargs.values()])
    work.sizes((*args, *kwargs.values()))
    work.build(weight.characters)
    return value


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], number: int, name: str, default: Any) -> Any:
    return args[number] if len(args) > number else kwargs.get(name, default)


# Texts


def _case(work: Work, value: Any, _args: Any, _kwargs: Any) -> str:
    text = work.text(value)
    work.spend(len(text) >> 3)
    work.build(size_of(text) * (1 if text.isascii() else 3))
    return text


def _title(work: Work, value: Any, _args: Any, _kwargs: Any) -> str:
    text = work.text(value)
    work.spend(16 * len(text))
    return text


def _trim(work: Work, value: Any, args: Any, kwargs: Any) -> str:
    text = work.text(value)
    chars = _argument(args, kwargs, 0, "chars", None)
    work.spend(len(text) * (len(chars) if isinstance(chars, str) else 1) >> 5)
    work.build(size_of(text))
    return text


def _center(work: Work, value: Any, args: Any, kwargs: Any) -> str:
    text = work.text(value)
    width = _argument(args, kwargs, 0, "width", 80)
    work.build(max(size_of(text), width * width_of(text) if isinstance(width, int) else 0))
    return text


def _indent(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(value, str):
        width = _argument(args, kwargs, 0, "width", 4)
        wide = (
            len(width) * width_of(width) if isinstance(width, str) else max(width, 0) if isinstance(width, int) else 0
        )
        lines = count_lines(work, value)
        work.spend(_ITEM * lines)
        work.build(size_of(value) + lines * wide * width_of(value))
    return value


def _word_count(work: Work, value: Any, _args: Any, _kwargs: Any) -> str:
    text = work.text(value)
    work.spend(3 * len(text))
    return text


def _truncate(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    if isinstance(value, str):
        work.spend(len(value) >> 4)
        work.build(size_of(value))
    return value


def _word_wrap(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    """Words are looked at again and again, those that are cut copied for each cut."""
    if isinstance(value, str):
        longest = max(map(len, value.splitlines()), default=0)
        wrap = _argument(args, kwargs, 2, "wrapstring", "")
        work.spend(40 * len(value) + len(value) * longest // 50)
        work.build(size_of(value) + len(value) * (size_of(wrap) if isinstance(wrap, str) else 0))
    return value


def _strip_tags(work: Work, value: Any, _args: Any, _kwargs: Any) -> str:
    text = work.text(value)
    price_tags(work, text)
    return text


def _urlize(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    """Patterns that look ahead in each word from each of its characters."""
    if isinstance(value, str):
        longest = max(map(len, value.split()), default=0)
        work.spend(100 * len(value) + len(value) * longest)
        work.build(ESCAPES * 4 * size_of(value))
    return value


def _url_encode(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    characters = len(value) if isinstance(value, str) else work.weigh(value).characters
    work.spend(8 * characters)
    work.build(_QUOTED * characters)
    return value


def _escape(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    characters = size_of(value) if isinstance(value, str) else work.written(value)
    if isinstance(value, str) and characters > 4096:
        characters += width_of(value) * sum(str.count(value, some) for some in "&<>'\"") * (ESCAPES - 1)
        work.build(characters)
    else:
        work.build(ESCAPES * characters)
    return value


def _text(work: Work, value: Any, _args: Any, _kwargs: Any) -> str:
    text = work.text(value)
    work.build(size_of(text))
    return text


def _format(work: Work, value: Any, args: Any, kwargs: Any) -> str:
    text = work.text(value)
    price_printf(work, text, kwargs or args)
    return text


def _pretty(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    """Each list is written once for itself and once for each that holds it."""
    weight = work.weigh(value)
    work.spend((80 * weight.values + (weight.characters >> 2)) * weight.depth)
    work.build(weight.characters + weight.values * weight.depth * 2)
    return value


def _xml_attributes(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    work.build(work.weigh(value).characters * ESCAPES)
    return value


def _json(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    price_json(work, value, indent=_argument(args, kwargs, 0, "indent", None), growth=12)
    return value


def price_json(work: Work, value: Any, *, indent: Any, growth: int = 1, separators: Any = None) -> None:
    """Pay for writing a value as JSON; a character becomes at most `growth` times what it is in `repr`."""
    weight = work.weigh(value)
    size = growth * weight.characters
    if isinstance(separators, list | tuple):
        size += weight.values * sum(len(some) for some in separators if isinstance(some, str))
    if isinstance(indent, str | int):
        size += weight.values * weight.depth * (len(indent) if isinstance(indent, str) else max(indent, 0))
    work.spend(80 * weight.values)
    work.build(size)


# Numbers


def _integer(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(value, str):
        work.spend((len(value) >> 2) + (min(len(value), _DIGITS) ** 2 >> 12))
        if _argument(args, kwargs, 1, "base", 10) != 10:
            work.number(5 * len(value))
    return value


def _file_size(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    work.spend(250)
    return _float(work, value, (), {})


def _attribute(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    work.spend(120)
    return value


def _float(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    work.plain(value)
    if isinstance(value, str):
        work.spend(len(value) >> 2)
    return value


def _round(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    precision = _argument(args, kwargs, 0, "precision", 0)
    if isinstance(precision, int):
        work.number(4 * abs(precision))
    return value


# Lists


def _steps(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Steps of an item, which may be asked for an attribute of an attribute."""
    names = [name for name in (*args[:2], *kwargs.values()) if isinstance(name, str)]
    return _ITEM * (1 + sum(name.count(".") + name.count(",") for name in names))


def _each(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    return work.items(value, _steps(args, kwargs))


def _list(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    return work.items(value, 10)


def _batch(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    count = _argument(args, kwargs, 0, "linecount", 0)
    if isinstance(count, int) and _argument(args, kwargs, 1, "fill_with", None) is not None:
        work.build_items(max(count, 0))
    return work.items(value, 20)


def _slice(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    count = _argument(args, kwargs, 0, "slices", 0)
    if isinstance(count, int):
        work.spend(20 * max(count, 0))
    return work.items(value, 4)


def _reverse(work: Work, value: Any, _args: Any, _kwargs: Any) -> Any:
    if isinstance(value, str):
        work.build(size_of(value))
        return value
    return value if hasattr(value, "__reversed__") else work.items(value, 4)


def _compared(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    """The least or the greatest."""
    value = value if hasattr(value, "__len__") else list(work.items(value, _ITEM))
    work.items(value, _steps(args, kwargs))
    return work.plain(value)


def _sorted(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(value, Undefined):
        return value
    value = value if hasattr(value, "__len__") else list(work.items(value, _ITEM))
    work.items(value, 2 * _steps(args, kwargs))
    weight = work.weigh(value)
    rounds = max(len(value).bit_length(), 1)
    work.spend(rounds * (4 * weight.values + (weight.characters >> 8)))
    work.build_items(4 * len(value))
    work.spend(weight.characters >> 5)
    return value


def _unique(work: Work, value: Any, args: Any, kwargs: Any) -> Any:
    return _keys(work, work.items(value, _steps(args, kwargs)))


def _keys(work: Work, values: Iterable[object]) -> Iterator[object]:
    keys = KeyPrices(work)
    for value in values:
        keys.add(value)
        yield value


# Tests


def _both(work: Work, value: Any, args: Any, _kwargs: Any) -> Any:
    for other in args:
        work.plain(other)
    return work.plain(value)


def _remainder(work: Work, value: Any, args: Any, _kwargs: Any) -> Any:
    """`odd` and the like are `%`, which formats where the value is a text."""
    if isinstance(value, str | bytes):
        price_printf(work, value, args[0] if args else 2)
    return value


def _is_in(work: Work, value: Any, args: Any, _kwargs: Any) -> Any:
    for other in args:
        work.pay_within(value, other)
    return value


_FILTERS: dict[str, Price] = {
    **dict.fromkeys(("upper", "lower", "capitalize"), _case),
    **dict.fromkeys(("e", "escape", "forceescape"), _escape),
    **dict.fromkeys(("safe", "string"), _text),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _each),
    **dict.fromkeys(("min", "max"), _compared),
    **dict.fromkeys(("sort", "groupby"), _sorted),
    "attr": _attribute,
    "batch": _batch,
    "center": _center,
    "dictsort": _sorted,
    "filesizeformat": _file_size,
    "float": _float,
    "format": _format,
    "indent": _indent,
    "int": _integer,
    "list": _list,
    "pprint": _pretty,
    "reverse": _reverse,
    "round": _round,
    "slice": _slice,
    "striptags": _strip_tags,
    "title": _title,
    "tojson": _json,
    "trim": _trim,
    "truncate": _truncate,
    "unique": _unique,
    "urlencode": _url_encode,
    "urlize": _urlize,
    "wordcount": _word_count,
    "wordwrap": _word_wrap,
    "xmlattr": _xml_attributes,
}
_FREE_FILTERS = frozenset(
    {"abs", "count", "d", "default", "first", "items", "join", "last", "length", "random", "replace", "sum"}
)
"""Those that take no longer for a longer value, and those of our own, which pay themselves."""
_TESTS: dict[str, Price] = {
    **dict.fromkeys(("lower", "upper"), _case),
    **dict.fromkeys(("odd", "even", "divisibleby"), _remainder),
    **dict.fromkeys(
        ("==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", "ge", ">=", "<", "lt", "lessthan", "<=", "le"),
        _both,
    ),
    **dict.fromkeys(("filter", "test"), _both),
    "in": _is_in,
}
_FREE_TESTS = frozenset(
    {
        "boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping", "none", "number",
        "sameas", "sequence", "string", "true", "undefined",
    }
)  # fmt: skip
