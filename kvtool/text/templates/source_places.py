"""Places of the parts of a template: its literals, and the `{{ … }}` of its expressions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isinf
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token, TokenStream
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kvtool.text.traced import Mark, Origin, Traced, TracedPlaces

_NEWLINE = re.compile("\n")
_BEGINS = frozenset({"variable_begin", "block_begin"})
_ENDS = frozenset({"variable_end", "block_end"})
_LONG_NUMBER = f"a number of more than {sys.int_info.default_max_str_digits:,} digits"


class LocatedEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one template and those it includes: holds their literals and the origins of their expressions."""

    def __init__(self, source: Traced, **options: Any) -> None:
        super().__init__(**options)
        self.literals: list[Traced] = []
        self.origins: list[Origin | None] = []
        self._begin(source)

    def _begin(self, source: Traced) -> None:
        self.source = source
        self._places = TracedPlaces(source)
        self._line_starts: list[int] = []
        self._tokens: list[Token] = []
        self._spans: dict[int, tuple[int, int]] = {}
        self._expressions: dict[int, int] = {}

    @contextmanager
    def reading(self, source: Traced) -> Iterator[None]:
        """Parse and compile another source in the block."""
        names = ("source", "_places", "_line_starts", "_tokens", "_spans", "_expressions")
        before = {name: getattr(self, name) for name in names}
        self._begin(source)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

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
                yield Token(line, "data", self._places.part(start, at))
                continue
            for token in self._wrapped(line, kind, value):
                if kind == "variable_begin":
                    opened = (start, None)
                elif kind == "variable_end" and opened and opened[1]:
                    self._spans[id(opened[1])] = (opened[0], start + len(value.rstrip()))
                elif opened and opened[1] is None:
                    opened = (opened[0], token)
                yield token

    def _wrapped(self, line: int, kind: str, value: str) -> list[Token]:
        """The token as Jinja reads it; TemplateSyntaxError for a number that no template could compute either."""
        try:
            tokens = list(self.lexer.wrap([(line, kind, value)]))
            number: object = tokens[0].value if tokens else None
            if isinstance(number, int):
                str(number)  # as it stands in the code that Jinja makes
        except ValueError:  # it has more digits than Python reads or writes
            raise TemplateSyntaxError(_LONG_NUMBER, line) from None
        if isinstance(number, float) and isinf(number):
            raise TemplateSyntaxError("a number that is too large", line)
        return tokens

    @property
    def line_of_most_code(self) -> int:
        """Return the first line of the tag with most words and marks: the deepest nested, as a rule."""
        begin, most, line = 0, 0, 1
        for at, token in enumerate(self._tokens):
            if token.type in _BEGINS:
                begin = at
            elif token.type in _ENDS and at - begin > most:
                most, line = at - begin, self._tokens[begin].lineno
        return line

    def span_of(self, token: Token) -> tuple[int, int] | None:
        """Start and end in the source of the `{{ … }}` whose expression begins with this token; given once."""
        return self._spans.pop(id(token), None)

    def add_expression(self, node: nodes.Expr, span: tuple[int, int]) -> nodes.Expr:
        """Note where an expression is; a constant text becomes template text there and then."""
        number = self._add_origin(span[0], span[1], _variable(node))
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            marks = (Mark(len(node.value), self.origins[number], 0),)
            return nodes.TemplateData(Traced(node.value, marks), lineno=node.lineno)
        self._expressions[id(node)] = number
        return node

    def expression(self, node: nodes.Node) -> int:
        """The number of an expression's origin; one without a `{{` (`{% print x %}`) is at the start of its line."""
        if (number := self._expressions.get(id(node))) is not None:
            return number
        if not self._line_starts:
            self._line_starts = [0, *(found.end() for found in _NEWLINE.finditer(self.source))]
        start = self._line_starts[node.lineno - 1]
        return self._add_origin(start, start + 1, _variable(node))

    def add_literal(self, text: str) -> int:
        self.literals.append(Traced(text))
        return len(self.literals) - 1

    def _add_origin(self, start: int, stop: int, variable: str | None) -> int:
        base, line, column = self._places.position(min(start, len(self.source) - 1))
        origin: Origin | None = None
        if base is not None:
            newline = self.source.find("\n", start, stop)
            width = (newline if newline >= 0 else stop) - start if base.verbatim else base.width
            origin = replace(
                base, line=line, column=column, verbatim=False, variable=variable, width=max(width, 1), text=""
            )
        self.origins.append(origin)
        return len(self.origins) - 1


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
