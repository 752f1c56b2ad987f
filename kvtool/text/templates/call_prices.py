"""Prices of what a template calls on a value, paid before it runs: Jinja's filters and tests, and methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from jinja2 import Undefined

from kvtool.text.templates.format_prices import price_printf
from kvtool.text.templates.text_prices import (
    Args,
    Kwargs,
    argument,
    cost_of,
    is_known,
    price_joined,
    price_marks,
    price_text,
    width_of_field,
)
from kvtool.text.templates.work import Work, size_of

_ITEM = 60
_FREE_HASH = 2**61 - 1
"""Python's hash of a whole number is its remainder of this."""
_LOOKUPS = frozenset({"get", "keys", "values", "items"})


def price_filters(work: Work, filters: dict[str, Callable[..., Any]]) -> None:
    """Have all these filters paid for; one that is not known here may do what reads each character of its values a few times."""
    for name, function in filters.items():
        if name not in _FREE_FILTERS:
            filters[name] = _priced(work, name, function, _price_filter)


def price_tests(work: Work, tests: dict[str, Callable[..., Any]]) -> None:
    """Have all these tests paid for."""
    for name, function in tests.items():
        if name not in _FREE_TESTS:
            tests[name] = _priced(work, name, function, _price_test)


def _priced(
    work: Work, name: str, function: Callable[..., Any], price: Callable[[Work, str, Any, Args, Kwargs], Any]
) -> Callable[..., Any]:
    """The filter after its price. What Jinja passes first to some of them stays first."""
    passed = getattr(function, "jinja_pass_arg", None)

    def priced(*args: Any, **kwargs: Any) -> Any:
        first, args = (args[:1], args[1:]) if passed else ((), args)
        value, args = (args[0], args[1:]) if args else (None, ())
        price_marks(work, value)
        result = function(*first, price(work, name, value, args, kwargs), *args, **kwargs)
        return work.chained(value, result) if type(result) is GeneratorType else result

    if passed is not None:
        priced.jinja_pass_arg = passed  # type: ignore[attr-defined]  # how Jinja itself marks them
    return priced


def _price_filter(work: Work, name: str, value: Any, args: Args, kwargs: Kwargs) -> Any:
    """Pay for a filter; gives the value, paid for as it is run over where nothing knows its length."""
    if name in _TEXT_FILTERS:
        value = work.text(value)
    if name in _VALUE_FILTERS:
        return _VALUE_FILTERS[name](work, value, args, kwargs)
    if isinstance(value, str):
        price_text(work, name, value, args, kwargs)
    else:
        weight = work.weigh([value, *args, *kwargs.values()])
        work.build(weight.characters * cost_of(name).growth)
    if not is_known(name):
        work.sizes((*args, *kwargs.values()))
    return value


def _price_test(work: Work, name: str, value: Any, args: Args, kwargs: Kwargs) -> Any:
    if name == "in":
        for other in args:
            work.pay_within(value, other)
        return value
    if isinstance(value, str | bytes) and name in ("odd", "even", "divisibleby"):
        price_printf(work, value, args[0] if args else 2)  # they are `%`, which formats where the value is a text
    for other in (*args, *kwargs.values()):
        work.plain(other)
    return work.plain(value)


def price_method(work: Work, owner: Any, name: str, args: Args, kwargs: Kwargs) -> Args:
    """Pay for `owner.name(*args, **kwargs)`; gives the arguments, those that had to be looked at as lists."""
    if isinstance(owner, str | bytes):
        if cost_of(name).growth:
            price_marks(work, owner)
        if name == "join":
            return price_joined(work, owner, args)
        price_text(work, name, owner, args, kwargs)
        return args
    for value in args if isinstance(owner, dict) and name in _LOOKUPS else (owner, *args, *kwargs.values()):
        work.plain(value)
    if not isinstance(owner, dict) or name not in _LOOKUPS:
        work.sizes((*args, *kwargs.values()))
        if isinstance(owner, dict | list | tuple | range):
            work.build_items(len(owner))
        if name == "from_bytes" and args:
            work.number(8 * len(args[0]) if hasattr(args[0], "__len__") else 0)
    return args


# Values of any kind


def _pretty(work: Work, value: Any, _args: Args, _kwargs: Kwargs) -> Any:
    """Each list is written once for itself and once for each that holds it."""
    weight = work.weigh(value)
    work.spend((80 * weight.values + 8 * weight.characters) * weight.depth)
    work.build(weight.characters + weight.values * weight.depth * 2)
    return value


def _json(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    price_json(work, value, indent=argument(args, kwargs, 0, "indent", None), growth=12)
    return value


def price_json(work: Work, value: Any, *, indent: Any, growth: int = 1, separators: Any = None) -> None:
    """Pay for writing a value as JSON; a character becomes at most `growth` times what it is in `repr`."""
    weight = work.weigh(value)
    size = growth * weight.characters + weight.values * weight.depth * width_of_field(indent)
    if isinstance(separators, list | tuple):
        size += weight.values * sum(len(some) for some in separators if isinstance(some, str))
    work.spend(80 * weight.values)
    work.build(size)


def _round(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    work.number(4 * abs(argument(args, kwargs, 0, "precision", 0) or 0))
    return work.plain(value)


def _steps(args: Args, kwargs: Kwargs) -> int:
    """Steps of an item, which may be asked for an attribute of an attribute."""
    names = [name for name in (*args[:2], *kwargs.values()) if isinstance(name, str)]
    return _ITEM * (1 + sum(name.count(".") + name.count(",") for name in names))


def _attribute(work: Work, value: Any, _args: Args, _kwargs: Kwargs) -> Any:
    work.spend(2 * _ITEM)
    return value


def _each(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    return work.items(value, _steps(args, kwargs))


def _parts(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    """Lists of as many items, or as many lists."""
    work.build_items(8 * width_of_field(argument(args, kwargs, 0, "linecount", kwargs.get("slices", 0))))
    return work.items(value, 20)


def _reverse(work: Work, value: Any, _args: Args, _kwargs: Kwargs) -> Any:
    if isinstance(value, str):
        work.build(size_of(value))
        return value
    return value if hasattr(value, "__reversed__") else work.items(value, 4)


def _compared(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    """The least or the greatest."""
    value = value if hasattr(value, "__len__") else list(work.items(value, _ITEM))
    work.items(value, _steps(args, kwargs))
    return work.plain(value)


def _sorted(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    if isinstance(value, Undefined):
        return value
    value = value if hasattr(value, "__len__") else list(work.items(value, _ITEM))
    work.items(value, 2 * _steps(args, kwargs))
    weight = work.weigh(value)
    work.spend(max(len(value).bit_length(), 1) * (4 * weight.values + (weight.characters >> 8)))
    work.build_items(4 * len(value))
    work.spend(weight.characters >> 5)
    return value


def _unique(work: Work, value: Any, args: Args, kwargs: Kwargs) -> Any:
    return _paid_keys(work, work.items(value, _steps(args, kwargs)))


def _paid_keys(work: Work, keys: Iterable[object]) -> Iterator[object]:
    """Pay for keys, one after the other, that go into one object or set."""
    alike = 0
    for key in keys:
        work.plain(key)
        if not isinstance(key, str) and not (isinstance(key, int) and -_FREE_HASH < key < _FREE_HASH):
            alike += 1
            work.spend(alike >> 1)
        yield key


def price_keys(work: Work, keys: Iterable[object]) -> list[object]:
    """Pay for an object of these keys; gives them as a list."""
    return list(_paid_keys(work, work.items(keys, 10)))


_VALUE_FILTERS: dict[str, Callable[[Work, Any, Args, Kwargs], Any]] = {
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr", "list"), _each),
    **dict.fromkeys(("batch", "slice"), _parts),
    **dict.fromkeys(("min", "max"), _compared),
    **dict.fromkeys(("sort", "groupby", "dictsort"), _sorted),
    "attr": _attribute,
    "pprint": _pretty,
    "reverse": _reverse,
    "round": _round,
    "tojson": _json,
    "unique": _unique,
}
_TEXT_FILTERS = frozenset(
    {
        "capitalize", "center", "format", "lower", "safe", "string", "striptags", "title", "trim", "upper", "urlize", "wordcount",
    }
)  # fmt: skip
"""Those that take the text of any value."""
_FREE_FILTERS = frozenset(
    {"abs", "count", "d", "default", "first", "items", "join", "last", "length", "random", "replace", "sum"}
)
"""Those that take no longer for a longer value, and those of our own, which pay themselves."""
_FREE_TESTS = frozenset(
    {
        "boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping", "none", "number",
        "sameas", "sequence", "string", "true", "undefined",
    }
)  # fmt: skip
