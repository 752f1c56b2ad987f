"""The Jinja environment that keeps origins: own tokens, own code for output, and limits on what a template may do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateError, TemplateRuntimeError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kvtool.text.templates.traced_json import traced_json
from kvtool.text.traced import Mark, Origin, Traced, concat

MAX_OUTPUT = 64 * 1024 * 1024
MAX_STEPS = 5_000_000
_WIDTH = re.compile(r"\d+")
_NESTED = re.compile(r"\{[^{}]*\{")
_DICT_NAMES = frozenset(dir(dict))
_TRACED_ONLY = frozenset(dir(Traced)) - frozenset(dir(str))


class TracedEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one template: it holds the template's literals and the origins of its expressions."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, source: Traced, *, chat: bool, clock: Callable[[], datetime] | None = None) -> None:
        if chat:
            super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        else:
            super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.source = source
        self.code_generator_class = _CodeGenerator
        self.literals: list[Traced] = []
        self.origins: list[Origin | None] = []
        self._tokens: list[Token] = []
        self._spans: dict[int, tuple[int, int]] = {}
        self._expressions: dict[int, int] = {}
        self._steps = 0
        self._clock = clock or datetime.now
        self._install(chat=chat)

    def _install(self, *, chat: bool) -> None:
        del self.globals["lipsum"]
        self.filters["join"] = self._join
        self.filters["replace"] = _replace
        for name in ("batch", "center", "indent", "round", "slice"):
            self.filters[name] = _limited(self.filters[name])
        for name in ("upper", "lower", "capitalize"):
            self.filters[name] = _method(name)
        if not chat:
            return
        self.filters["tojson"] = _limited(traced_json)
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = self._strftime_now

    def start(self) -> None:
        """Begin a rendering: what it may do is counted from here on."""
        self._steps = 0

    # Reading a template

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Parser(self, source, name, filename).parse()

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        del source  # that is self.source, which knows where it stands
        self._tokens = list(self._located(name, filename, state))
        return TokenStream(iter(self._tokens), name, filename)

    def _located(self, name: str | None, filename: str | None, state: str | None) -> Iterator[Token]:
        """The template's tokens; template text as Traced, and the first token of each `{{` with the span of its expression."""
        at = 0
        opened: tuple[int, Token | None] | None = None
        for line, kind, value in self.lexer.tokeniter(str.__str__(self.source), name, filename, state):
            # Jinja leaves out nothing between two tokens but the white space it strips.
            start = self.source.find(value, at)
            at = start + len(value)
            if kind == "data":
                yield Token(line, "data", self.source[start:at])
                continue
            for token in self.lexer.wrap([(line, kind, value)], name, filename):
                if kind == "variable_begin":
                    opened = (start, None)
                elif kind == "variable_end" and opened and opened[1]:
                    self._spans[id(opened[1])] = (opened[0], start + len(value.rstrip()))
                elif opened and opened[1] is None:
                    opened = (opened[0], token)
                yield token

    def span_of(self, token: Token) -> tuple[int, int] | None:
        """Start and end in the source of the `{{ … }}` whose expression begins with this token; given once."""
        return self._spans.pop(id(token), None)

    def add_expression(self, node: nodes.Expr, span: tuple[int, int]) -> nodes.Expr:
        """Note where an expression stands; a constant text becomes template text there and then."""
        number = self._add_origin(span[0], span[1], _variable(node))
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            return nodes.TemplateData(self.traced(number, node.value), lineno=node.lineno)
        self._expressions[id(node)] = number
        return node

    def expression(self, node: nodes.Node) -> int:
        """The number of an expression's origin; one without a `{{` (`{% print x %}`) stands at the start of its line."""
        if (number := self._expressions.get(id(node))) is not None:
            return number
        lines = str.split(self.source, "\n")[: node.lineno - 1]
        start = sum(len(line) + 1 for line in lines)
        return self._add_origin(start, start + 1, _variable(node))

    def add_literal(self, text: str) -> int:
        self.literals.append(Traced(text))
        return len(self.literals) - 1

    def _add_origin(self, start: int, stop: int, variable: str | None) -> int:
        base, offset = self.source.at(min(start, len(self.source) - 1))
        origin: Origin | None = None
        if base is not None:
            line, column = base.position(offset)
            newline = self.source.find("\n", start, stop)
            width = (newline if newline >= 0 else stop) - start if base.verbatim else base.width
            origin = replace(
                base, line=line, column=column, verbatim=False, variable=variable, width=max(width, 1), text=""
            )
        self.origins.append(origin)
        return len(self.origins) - 1

    # Called by the code that is generated

    def traced(self, number: int, value: object) -> Traced:
        """The output of expression `number`: it keeps the origins it has; the rest of it stands at the expression."""
        text = value if isinstance(value, str) else str(value)
        origin = self.origins[number]
        if not isinstance(text, Traced):
            return Traced(text, (Mark(len(text), origin, 0),))
        if all(mark[1] is not None for mark in text.marks):
            return text
        marks: list[Mark] = []
        offset = 0
        for mark in text.marks:
            marks.append(Mark(mark.length, origin, offset) if mark.origin is None else mark)
            offset += mark.length
        return Traced(text, marks)

    def concat(self, pieces: Iterable[object]) -> Traced:
        texts: list[object] = []
        size = 0
        for piece in pieces:
            size += len(piece) if isinstance(piece, str) else 0
            if size > MAX_OUTPUT:
                _too_large()
            texts.append(piece)
        return concat(texts)

    def counted(self, items: Any) -> Any:
        """What a loop runs over; all loops of a rendering together have a limit of steps."""
        if isinstance(items, Undefined):
            return items
        try:
            size = len(items)
        except TypeError:
            return self._count_each(items)
        self._step(size)
        return items

    def _count_each(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            self._step(1)
            yield item

    def _step(self, count: int) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise TemplateRuntimeError(f"it loops more than {MAX_STEPS:,} times")

    # What a template may do

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute in obj and attribute not in _DICT_NAMES:
            return obj[attribute]  # what Jinja finds too, after an exception
        if isinstance(obj, Traced) and attribute in _TRACED_ONLY:
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Traced) and isinstance(argument, str) and argument in _TRACED_ONLY:
            return self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
                _check_size(len(left) + len(right))
        elif operator == "*":
            for some, other in ((left, right), (right, left)):
                if isinstance(some, int) and isinstance(other, str | list | tuple):
                    _check_size(some * len(other))
                elif isinstance(some, int) and isinstance(other, int):
                    _check_size(some.bit_length() + other.bit_length())
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int):
                _check_size(left.bit_length() * max(right, 0))
        elif isinstance(left, str):
            _check_format(left)
            if "*" in left:
                _check_numbers((right,))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        # The names are Jinja's: arguments of the template's own calls must not collide with them.
        name = getattr(__obj, "__name__", "")
        owner = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        if name in ("format", "format_map") and isinstance(owner, str):
            _check_format(owner)
            if _NESTED.search(owner):
                _check_numbers((*args, *kwargs.values()))
        elif isinstance(owner, str | bytes | int):
            _check_numbers((*args, *kwargs.values()))
            if name == "replace" and len(args) > 1 and isinstance(owner, str):
                _check_replace(owner, args[0], args[1])
            elif name == "join" and args and isinstance(args[0], list | tuple | str):
                _check_size(len(owner) * len(args[0]) if isinstance(owner, str) else 0)
        return super().call(__context, __obj, *args, **kwargs)

    # Filters and functions

    def _join(self, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> Traced:
        """Jinja's `join`, with origins."""
        if attribute is not None:
            value = map(make_attrgetter(self, attribute), value)
        return self.concat(_separated(value, d))

    def _strftime_now(self, form: str) -> str:
        _check_format(form)
        return self._clock().strftime(form)


class _Parser(Parser):
    """Jinja's parser, which tells the environment which expression stands in which `{{ … }}` and counts the steps of loops."""

    environment: TracedEnvironment

    def parse_tuple(self, *args: Any, **kwargs: Any) -> Any:
        span = self.environment.span_of(self.stream.current)
        node = super().parse_tuple(*args, **kwargs)
        return node if span is None else self.environment.add_expression(node, span)

    def parse_for(self) -> nodes.For:
        node = super().parse_for()
        counted = nodes.EnvironmentAttribute("counted", lineno=node.lineno)
        node.iter = nodes.Call(counted, [node.iter], [], None, None, lineno=node.lineno)
        return node


class _CodeGenerator(CodeGenerator):
    """Jinja's code generator, except that output is never folded into plain strings."""

    environment: TracedEnvironment

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        del node, frame, finalize
        raise nodes.Impossible

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        del frame, finalize
        if isinstance(node, nodes.TemplateData):
            self.write("(")
        else:
            self.write(f"environment.traced({self.environment.expression(node)}, ")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        del node, frame, finalize
        self.write(")")

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:  # noqa: N802
        del frame
        self.write(f"environment.literals[{self.environment.add_literal(node.data)}]")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}`, which marks what the model wrote, for training; here it only shows its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _variable(node: nodes.Node) -> str | None:
    """The variable that an expression shows: `user.name` for `{{ user.name | upper }}`."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Call):
        inner = node.node
        return _variable(inner.node if isinstance(inner, nodes.Getattr) else inner)
    if isinstance(node, nodes.Getattr):
        base = _variable(node.node)
        return base and f"{base}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        base = _variable(node.node)
        key = node.arg.value if isinstance(node.arg, nodes.Const) else None
        return f"{base}.{key}" if base and isinstance(key, str) else base
    if isinstance(node, nodes.CondExpr):
        return _variable(node.expr1) or _variable(node.test)
    return next(filter(None, map(_variable, node.iter_child_nodes())), None)


def _too_large() -> NoReturn:
    raise TemplateRuntimeError(f"its output is larger than {MAX_OUTPUT // 2**20} MiB")


def _check_size(size: int) -> None:
    if size > MAX_OUTPUT:
        _too_large()


def _check_numbers(values: Iterable[object]) -> None:
    for value in values:
        if isinstance(value, tuple | list):
            _check_numbers(value)
        elif isinstance(value, int):
            _check_size(abs(value))


def _check_format(text: str) -> None:
    """Widths and precisions of a format are numbers written in it."""
    for match in _WIDTH.finditer(text):
        if len(match[0]) > 7:
            _too_large()


def _check_replace(text: str, old: object, new: object) -> None:
    if isinstance(old, str) and isinstance(new, str):
        _check_size(len(text) + str.count(text, old) * max(len(new) - len(old), 0))


def _replace(value: object, old: object, new: object, count: int | None = None) -> str:
    """Jinja's `replace`."""
    text = value if isinstance(value, str) else str(value)
    old, new = str(old), str(new)
    _check_replace(text, old, new)
    return text.replace(old, new, -1 if count is None else count)


def _limited(function: Callable[..., Any]) -> Callable[..., Any]:
    def limited(value: object, *args: Any, **kwargs: Any) -> Any:
        _check_numbers((*args, *kwargs.values()))
        return function(value, *args, **kwargs)

    return limited


def _method(name: str) -> Callable[[object], str]:
    def apply(value: object) -> str:
        text = value if isinstance(value, str) else str(value)
        return str(getattr(text, name)())

    return apply


def _separated(items: Iterable[object], separator: object) -> Iterator[object]:
    first = True
    for item in items:
        if not first:
            yield separator
        first = False
        yield item if isinstance(item, str) else str(item)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))
