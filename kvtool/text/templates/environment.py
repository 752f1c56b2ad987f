"""The Jinja environment that keeps origins, and in which everything that a template does is paid for before it happens."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn, cast

from jinja2 import StrictUndefined
from jinja2.environment import TemplateModule
from jinja2.exceptions import TemplateError, TemplateRuntimeError, TemplateSyntaxError
from jinja2.filters import make_attrgetter
from jinja2.lexer import Token
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.utils import Joiner, Namespace
from markupsafe import Markup

from kvtool.text.templates.application import Application, Fields, FixedFunction, is_filled, keep_value
from kvtool.text.templates.call_prices import price_filters, price_json, price_keys, price_method, price_tests
from kvtool.text.templates.code_generator import TracedCode
from kvtool.text.templates.format_prices import (
    ESCAPES,
    BoundedEscapeFormatter,
    BoundedFormatter,
    price_printf,
    price_strftime,
)
from kvtool.text.templates.included_templates import IncludingEnvironment
from kvtool.text.templates.text_prices import price_replace, price_table
from kvtool.text.templates.traced_json import traced_json
from kvtool.text.templates.work import MARK, MAX_OUTPUT, SHORT, size_of, width_of
from kvtool.text.traced import Mark, Traced

MAX_ARGUMENTS = 1_000
"""Arguments that a call may unpack from a list."""
_ITEM = 60
_PAIR = 20
_FUNCTION = 60
_TEXTS = frozenset({str, Traced})
_VALUES = frozenset({bool, int, float, str, Traced})
_SMALL = 64
_MOST_TOKENS = 100_000
"""Of a template's code, with the texts between; those of models have some thousands."""
_UNKNOWN = 100
"""Characters of a text that something is asked to hold in a row of comparisons."""
_WORD = re.compile(r"\w+")
_DICT_NAMES = frozenset(dir(dict))
_DICT_METHODS = frozenset({"get", "items", "keys", "values"})
_TEXT_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - {"format", "format_map"}
_TRACED_ONLY = frozenset(dir(Traced)) - frozenset(dir(str))
_GROWING = frozenset({"append", "extend", "insert", "pop", "update", "setdefault"})
_HIDDEN = ("_loop_vars", "_block_vars")
_FREE_CALLS = (Macro, LoopContext, Joiner)
_BUILT_IN = (str, bytes, dict, list, tuple, int, float, range, BoundedFormatter)


class TracedEnvironment(IncludingEnvironment):
    """The environment of one template and those that it includes. Their code pays for each run of statements, this for what
    depends on the size of values."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    code_generator_class = TracedCode

    def __init__(
        self,
        source: Traced,
        *,
        chat: bool,
        clock: Callable[[], datetime] | None = None,
        application: Application | None = None,
    ) -> None:
        # Nothing is computed while a template is compiled: nobody pays then.
        super().__init__(source, chat=chat, application=application)
        self._chat = chat
        if not chat:
            self.undefined = StrictUndefined
        self._clock = clock or datetime.now
        self._install(chat=chat)

    def _located(self, name: str | None, filename: str | None, state: str | None) -> Iterator[Token]:
        """The same, up to a bound: what Jinja makes of a template's code takes time and memory with every word and mark in it."""
        for number, token in enumerate(super()._located(name, filename, state)):
            if number == _MOST_TOKENS:
                raise TemplateSyntaxError(f"more than {_MOST_TOKENS:,} tokens of code", token.lineno)
            yield token

    def _install(self, *, chat: bool) -> None:
        del self.globals["lipsum"]
        self.filters["join"] = self._join
        self.filters["replace"] = self._replace
        self.filters["sum"] = self._sum
        self.filters["wordcount"] = _word_count
        for name in ("upper", "lower", "capitalize"):
            self.filters[name] = operator.methodcaller(name)
        if chat:
            del self.filters["tojson"]
            self.globals["raise_exception"] = self._raise_exception
            self.globals["strftime_now"] = self._strftime_now
        price_filters(self, self.filters)
        price_tests(self, cast("dict[str, Callable[..., Any]]", self.tests))
        if chat:
            self.filters["tojson"] = self._tojson
        self.filters.update(dict.fromkeys(self._application.filters, keep_value))
        self.tests.update(dict.fromkeys(self._application.tests, is_filled))

    # Called by the code that is generated

    def traced(self, number: int, value: object) -> Traced:
        """The output of expression `number`: it keeps the origins it has; the rest of it is at the expression."""
        text = value if isinstance(value, str) else self.text(value)
        origin = self.origins[number]
        if not isinstance(text, Traced):
            self.left -= len(text) >> 3
            return Traced(text, (Mark(len(text), origin, 0),))
        if len(text.marks) == 1 and text.marks[0][1] is not None:
            return text
        self.spend(MARK * len(text.marks))
        if all(mark[1] is not None for mark in text.marks):
            return text
        marks: list[Mark] = []
        offset = 0
        for mark in text.marks:
            marks.append(Mark(mark.length, origin, offset) if mark.origin is None else mark)
            offset += mark.length
        return Traced(text, marks)

    def text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if type(value) is TemplateModule:
            return self.concat(value._body_stream)
        if type(value) is FixedFunction:
            return self.text(value.value)
        return super().text(value)

    def concat(self, pieces: Iterable[object]) -> Traced:
        texts: list[str] = []
        marks: list[Mark] = []
        size = 0
        for piece in pieces:
            if type(piece) is not Traced:
                piece = Traced(self.text(piece))
            found = piece.marks
            if len(found) > 1:
                self.spend(MARK * len(found))
            marks += found
            texts.append(piece)
            size += len(piece)
            if size > MAX_OUTPUT:
                break
        self.build(size if size <= SHORT else size * max(map(width_of, texts)))
        self.spend(2 * len(texts))
        return Traced("".join(texts), marks)

    def cut(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """A slice."""
        part = slice(start, stop, step)
        if isinstance(value, str | bytes | list | tuple) and len(value) > _SMALL:
            count = len(range(*part.indices(len(value))))
            if isinstance(value, str | bytes):
                self.build(count * width_of(value))
                self.left -= MARK * len(value.marks) if isinstance(value, Traced) else 0
            else:
                self.build_items(count)
        return value[part]

    def within(self, value: Any, values: Any) -> bool:
        """`value in values`."""
        if type(values) is dict and type(value) in _TEXTS:
            return value in values
        return value in self.pay_within(value, values)

    def searched(self, values: Any) -> Any:
        """Return the value that a name is looked for in, if not yet known."""
        return self.pay_within(" " * _UNKNOWN, values)

    def arguments(self, values: Any) -> Any:
        """Return the arguments that a call unpacks."""
        if isinstance(values, Mapping):
            found: Any = dict(self.items(values, 1))
        else:
            found = list(self.items(values, 1))
        if len(found) > MAX_ARGUMENTS:
            raise TemplateRuntimeError(f"it calls with more than {MAX_ARGUMENTS:,} arguments")
        return found

    # What a template may do

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is Fields and attribute in obj:
            return obj[attribute]
        if kind is dict:
            if attribute in obj and attribute not in _DICT_NAMES:
                return obj[attribute]  # what Jinja finds too, after an exception
            if attribute in _DICT_METHODS:
                return getattr(obj, attribute)
        elif kind in _TEXTS and attribute in _TEXT_METHODS:
            return getattr(obj, attribute)  # nothing of these is unsafe, which Jinja would ask for each
        elif kind is Namespace and attribute[:1] != "_":
            value = getattr(obj, attribute, None)
            if type(value) in _VALUES:
                return value  # the same: no method, and of an object of which nothing else is unsafe
        if isinstance(obj, Traced) and attribute in _TRACED_ONLY:
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(obj) is dict and type(argument) is str and argument in obj:
            return obj[argument]
        if not isinstance(argument, str | int):
            self.plain(argument)
        elif isinstance(obj, Traced):
            if isinstance(argument, str) and argument in _TRACED_ONLY:
                return self.undefined(obj=obj, name=argument)
            self.left -= MARK * len(obj.marks)
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, type) and attr != "fromkeys":
            return False  # `dict.update(message)` would change what is not the template's
        if not self._chat and type(obj) in (list, dict) and attr in _GROWING:
            return True  # applications may render in an environment that allows it; values are made for each rendering
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None
        self.spend(_FUNCTION)
        form = value.__self__
        kind = BoundedEscapeFormatter if isinstance(form, Markup) else BoundedFormatter
        formatter = kind(self, self, form)
        return formatter.format_map if value.__name__ == "format_map" else formatter.format

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        del context
        return self._computed(operator, left, right)

    def _computed(self, operator: str, left: Any, right: Any) -> Any:
        if operator == "+" and type(left) in _TEXTS and type(right) in _TEXTS and len(left) + len(right) <= SHORT:
            text = left + right
            self.left -= (len(text) >> 3) + (MARK * len(text.marks) if type(text) is Traced else 0)
            return text
        if isinstance(left, str | bytes):
            self._pay_text(operator, left, right)
        elif isinstance(left, int):
            if isinstance(right, int):
                self._pay_number(operator, left, right)
            elif operator == "*":
                self._pay_copies(right, left)
        elif isinstance(left, list | tuple):
            if operator == "*" and isinstance(right, int):
                self._pay_copies(left, right)
            elif operator == "+" and isinstance(right, list | tuple):
                self.build_items(len(left) + len(right))
        return self.binop_table[operator](left, right)

    def _pay_text(self, operator: str, left: str | bytes, right: Any) -> None:
        if operator == "+":
            if isinstance(right, str | bytes):
                size = len(left) + len(right)
                if size > SHORT:
                    size *= max(width_of(left), width_of(right))
                for text in (left, right):
                    if isinstance(text, Traced) and len(text.marks) > 1:
                        self.left -= MARK * len(text.marks)
                self.build(size * ESCAPES if isinstance(left, Markup) or isinstance(right, Markup) else size)
        elif operator == "*":
            if isinstance(right, int):
                self._pay_copies(left, right)
        elif operator == "%":
            price_printf(self, left, right)

    def _pay_copies(self, value: Any, count: int) -> None:
        if isinstance(value, str | bytes):
            self.build(size_of(value) * (width_of(value) if len(value) <= SHORT else 1) * max(count, 0))
        elif isinstance(value, list | tuple):
            self.build_items(len(value) * max(count, 0))

    def _pay_number(self, operator: str, left: int, right: int) -> None:
        if operator == "**":
            self.number(left.bit_length() * max(right, 0) if abs(left) > 1 else 1)
        else:
            self.number(left.bit_length() + right.bit_length())

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        # The names are Jinja's: arguments of the template's own calls must not collide with them.
        kind = type(__obj)
        if kind is BuiltinMethodType or kind is MethodType:
            owner = __obj.__self__
            if owner is __self or isinstance(owner, _BUILT_IN):
                kwargs.pop("_loop_vars", None)
                kwargs.pop("_block_vars", None)
                if owner is not __self:
                    args = price_method(__self, owner, __obj.__name__, args, kwargs)
                return __obj(*args, **kwargs)
        if not isinstance(__obj, _FREE_CALLS):
            args = __self._priced_arguments(__obj, args, kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def _priced_arguments(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a function of Jinja's, its work on them paid for."""
        self.spend(_FUNCTION)
        if function is Namespace or function is dict:
            return tuple(map(self._pairs, args))
        if getattr(function, "__name__", "") == "fromkeys" and args:
            return price_keys(self, args[0]), *args[1:]
        if getattr(function, "__name__", "") == "maketrans":
            price_table(self, args)
        if getattr(function, "__name__", "") == "strftime" and args and isinstance(args[0], str):
            price_strftime(self, args[0])
        for name, value in (*enumerate(args), *kwargs.items()):
            if name not in _HIDDEN:
                self.plain(value)
        return args

    def _pairs(self, value: Any) -> Any:
        """Return the pairs that `dict` copies."""
        if isinstance(value, Mapping):
            return self.items(value, _PAIR)
        pairs = list(self.items(value, _PAIR))
        price_keys(self, [pair[0] for pair in pairs if isinstance(pair, list | tuple) and pair])
        return pairs

    # Filters and functions

    def _join(self, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> Traced:
        """Jinja's `join`, with origins."""
        value = self.items(value, _ITEM * (1 + str(attribute).count(".")))
        if attribute is not None:
            value = map(make_attrgetter(self, attribute), value)
        return self.concat(_separated(value, self.text(d)))

    def _replace(self, value: object, old: object, new: object, count: int | None = None) -> str:
        """Jinja's `replace`."""
        text, old, new = self.text(value), self.text(old), self.text(new)
        most = -1 if count is None else count
        price_replace(self, text, old, new, most)
        return text.replace(old, new, most)

    def _sum(self, value: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
        """Jinja's `sum`; what is no number is added as `+` does, each result paid for."""
        value = self.items(value, _ITEM * (1 + str(attribute).count(".")))
        items = list(value if attribute is None else map(make_attrgetter(self, attribute), value))
        if isinstance(start, int | float) and all(isinstance(item, int | float) for item in items):
            self.number(max((item.bit_length() for item in items if isinstance(item, int)), default=0) + 32)
            return sum(items, start)
        if isinstance(start, str):
            raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
        total = start
        for item in items:
            total = self._computed("+", total, item)
        return total

    def _tojson(
        self,
        value: object,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """`tojson` as chat templates know it, with origins."""
        price_json(self, value, indent=indent, separators=separators)
        return traced_json(value, ensure_ascii, indent, separators, sort_keys, pay=self.spend)

    def _raise_exception(self, message: object) -> NoReturn:
        raise TemplateError(self.text(message))

    def _strftime_now(self, form: str) -> str:
        if isinstance(form, str):
            price_strftime(self, form)
        return self._clock().strftime(form)


def _separated(items: Iterable[object], separator: object) -> Iterator[object]:
    first = True
    for item in items:
        if not first:
            yield separator
        first = False
        yield item


def _word_count(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))
