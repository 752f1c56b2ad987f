"""Prices of Python's formats: `'%s' % x`, `'{}'.format(x)` and `strftime`, before their text is built."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Any

from jinja2.exceptions import TemplateRuntimeError
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter
from markupsafe import EscapeFormatter, Markup

from kvtool.text.templates.work import Work, size_of

ESCAPES = 6
"""Characters that one may become in HTML."""
_FIELD = 60
"""Steps of one field of a format."""
_FLOAT = 150
"""Steps of writing a number with hundreds of digits."""
_CODES = 10
"""Characters that one may become in `repr`."""
_MOMENT = 64
"""Characters that a code of `strftime` may become."""
_LONGEST_FORM = 10_000
_NUMBER = re.compile(r"\d+")
_CONVERSION = re.compile(r"%(?:\(([^()]*)\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.?)", re.DOTALL)
_BYTES_CONVERSION = re.compile(_CONVERSION.pattern.encode(), re.DOTALL)
_KINDS = frozenset("diouxXeEfFgGcrsab%")


class BoundedFormatter(SandboxedFormatter):
    """`str.format` of the sandbox, each field paid for before it is written."""

    def __init__(self, work: Work, environment: SandboxedEnvironment, form: str) -> None:
        super().__init__(environment)
        self._work = work
        self._form = form
        self._size = 0

    def format(self, *args: Any, **kwargs: Any) -> str:
        return self._filled(args, kwargs)

    def format_map(self, mapping: Mapping[str, Any], /) -> str:
        return self._filled((), mapping)

    def _filled(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        self._size = 0
        self._add(size_of(self._form))
        return type(self._form)(self.vformat(self._form, args, kwargs))

    def format_field(self, value: Any, format_spec: str) -> Any:
        self._work.spend(_FIELD + (_FLOAT if isinstance(value, float) else 0))
        self._add(self._work.written(value) * (ESCAPES if isinstance(self._form, Markup) else 1))
        self._add(_numbers(format_spec))
        if isinstance(value, date | time):
            price_strftime(self._work, format_spec)
        return super().format_field(value, format_spec)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is not None:
            self._add(self._work.written(value) * _CODES)
        return super().convert_field(value, conversion)

    def _add(self, size: int) -> None:
        self._size += size
        self._work.build(self._size)
        self._work.left += (self._size - size) >> 3  # what was there is paid for


class BoundedEscapeFormatter(BoundedFormatter, EscapeFormatter):
    """The same for text that is HTML."""

    def __init__(self, work: Work, environment: SandboxedEnvironment, form: Markup) -> None:
        super().__init__(work, environment, form)
        self.escape = form.escape


def price_printf(work: Work, form: str | bytes, values: object) -> None:
    """Pay for `form % values`: the texts of its values, widths and precisions."""
    marks = form.count(b"%") if isinstance(form, bytes) else form.count("%")
    work.spend(_FIELD * marks + (len(form) >> 6))
    arguments = iter(values if isinstance(values, tuple) else (values,))
    mapping = values if isinstance(values, Mapping) else {}
    size = size_of(form)
    pattern: re.Pattern[Any] = _BYTES_CONVERSION if isinstance(form, bytes) else _CONVERSION
    for match in pattern.finditer(form):
        name, width, precision, kind = (_text(part) for part in match.groups())
        for number in (width, precision):
            size += _size(next(arguments, 0)) if number == "*" else int((number or "0")[:10])
        if kind == "%":
            continue
        if name is None:
            value = next(arguments, "")
        elif kind is not None and kind in _KINDS:
            value = mapping.get(name, "")
        else:  # a name with brackets, which may be any
            value = mapping
        characters = work.written(value)
        if isinstance(value, float):
            work.spend(_FLOAT)
        size += characters * (_CODES if kind in ("r", "a") and isinstance(value, str) else 1) + 320
        if size > work.left * 8:
            work.exhausted()
    work.build(size * (ESCAPES if isinstance(form, Markup) else 1))


def price_strftime(work: Work, form: str) -> None:
    """Pay for a moment that is written by this form."""
    if len(form) > _LONGEST_FORM:
        raise TemplateRuntimeError(f"its date format has more than {_LONGEST_FORM:,} characters")
    work.spend(_FIELD)
    work.build(len(form) * _MOMENT + _numbers(form))


def _text(part: str | bytes | None) -> str | None:
    return part.decode("latin-1") if isinstance(part, bytes) else part


def _numbers(text: str) -> int:
    """The sum of the numbers written in a text: its widths and precisions."""
    return sum(int(match[0][:10]) for match in _NUMBER.finditer(text))


def _size(value: object) -> int:
    return abs(value) if isinstance(value, int) else 0
