"""Texts that Python expressions give, as far as syntax says: f-strings, `%`, sums, lists, messages, comprehensions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.evidence.prompt_evidence import Evidence
from kvtool.lint.evidence.value_precision import sure_kind
from kvtool.lint.evidence.volatile_calls import of_unknown, unordered
from kvtool.lint.python.call_values import Calls
from kvtool.lint.python.changed_values import holes_of, in_order, is_given, made_up, with_hole
from kvtool.lint.python.filled_templates import any_of, filled_text, percent_filled
from kvtool.lint.python.syntax import counted_target, dotted, first_number, is_written, keyed, names_in
from kvtool.lint.python.text_values import (
    MESSAGE_KEYS,
    FilePath,
    Items,
    Literal,
    Many,
    Mapped,
    Message,
    Piece,
    Unknown,
    Value,
    cut,
    either,
    has_param,
    spread_out,
    text_of,
    varies,
)
from kvtool.lint.python.varying_texts import held
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import Hole, TemplatePlace

ROLES = frozenset(
    ["system", "developer", "human", "user", "ai", "assistant", "tool", "function", "model", "placeholder"]
)
MOST_ELEMENTS = 200
_MOST_REPEATED = 24
"""Known elements of a list that something is made of for each by itself."""
_LONGEST_REPEATED = 20_000
_LEAST = 4
"""Characters of constant text, from which on a sum of texts is looked at for what it is put together of."""
_LEFT = re.compile(r"\{[A-Za-z_]\w{0,99}\}")
"""What doubled braces leave in an f-string for a later `format`."""


_CHEAP = (ast.Constant, ast.Name)


def _holds_sections(node: ast.Dict) -> bool:
    """Return whether it is no message, and sentences are written in it: what is beside them may be another part of their text."""
    keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
    return "role" not in keys and any(
        is_written(one) and any(isinstance(part, ast.Constant) and " " in str(part.value) for part in ast.walk(one))
        for one in node.values
    )


@cache
def _method_of(kind: str) -> str:
    return f"_of_{kind.lower()}"


class Expressions(Calls):
    """Tells what is known of expressions, with what names mean at the moment."""

    def value_of(self, node: ast.expr) -> Value:
        """Return the known text of an expression."""
        kind = type(node)
        method = getattr(self, _method_of(kind.__name__), None)
        if method is None:
            return ()
        how = self._silent, self.naming
        known = self.known.get(node)
        if known is not None and known[0] == self.values.changes and known[1] == how:
            return known[2]
        spend()
        value: Value = method(node)
        if kind not in _CHEAP:
            self.known[node] = self.values.changes, how, value
        return value

    def _of_constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, str) or not node.value:
            return ()
        shown = self.in_function and not self.source.fills_strings
        return (Literal(node.value, *self.source.span(node), self.source, shown),)

    def _of_joinedstr(self, node: ast.JoinedStr) -> Value:
        return cut(self._joined_string(node))

    def _joined_string(self, node: ast.JoinedStr) -> Iterator[Piece]:
        spots: Iterator[TemplatePlace] | None = None
        number = -1
        for part in node.values:
            if isinstance(part, ast.Constant):
                text = str(part.value)
                left = "{" in text and _LEFT.search(text) is not None
                yield Literal(text, *self.source.span(node), self.source) if left else text
                continue
            if not isinstance(part, ast.FormattedValue):
                continue
            number += 1
            value = self.of_loop(self.as_text(self.value_of(part.value), part.value), part.value)
            hole = self.origin_of(part.value) if is_given(value) else None
            value = with_hole(value, hole) if value or hole is None else (hole,)
            if not value:
                if name := self.element_name(part.value):
                    yield Unknown(Hole(self.source.spot_of(part.value), OTHER, f"`{name}`", doubt="open"))
                continue
            if spots is None:
                spots = iter(self.source.fields(node))
                for _ in range(number):
                    next(spots)
                passed = number
            while passed < number:
                next(spots)
                passed += 1
            spot = next(spots)
            passed += 1
            if isinstance(part.format_spec, ast.JoinedStr) and part.format_spec.values:
                pattern = part.format_spec.values[0]
                if isinstance(pattern, ast.Constant):
                    value = self.refine(value, "strftime", str(pattern.value))
            yield from held(value, spot, dotted(part.value))

    def _of_binop(self, node: ast.BinOp) -> Value:
        if isinstance(node.op, ast.Mod):
            left = self.value_of(node.left)
            if any(isinstance(piece, Literal) for piece in left):
                given = (
                    {key: self._filled_in(one) for key, one in keyed(node.right).items()}
                    if isinstance(node.right, ast.Dict)
                    else {}
                )
                several = isinstance(node.right, ast.Tuple)
                right = [self._filled_in(one) for one in node.right.elts] if isinstance(node.right, ast.Tuple) else []
                if not several and not given:
                    right = [self._filled_in(node.right)]
                    for piece in right[0]:
                        given |= dict(piece.pairs) if isinstance(piece, Mapped) else {}
                return cut(percent_filled(left, right, given))
            return holes_of((*left, *self.value_of(node.right)))
        if isinstance(node.op, ast.Add):
            if (number := self._next_number(node)) is not None:
                return (number,)
            terms: list[ast.expr] = []
            side: ast.expr = node
            while isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add):
                terms.append(side.right)
                side = side.left
            return self._sum([side, *reversed(terms)])
        left, right_value = self.value_of(node.left), self.value_of(node.right)
        if isinstance(node.op, ast.Mult) and any(isinstance(piece, Literal | str) for piece in (*left, *right_value)):
            return self._repeated_text(node, left) or left or right_value
        if isinstance(node.op, ast.Div) and any(isinstance(piece, FilePath) for piece in left):
            return self._path(left, right_value)
        if any(isinstance(piece, Items) for piece in left):
            return left
        if isinstance(node.op, ast.BitOr):
            return self._chain(left, right_value)
        return holes_of((*left, *right_value))

    def _chain(self, left: Value, right: Value) -> Value:
        """Two mappings as one; or a chain of LangChain, whose text is that of its template, with what comes before it filled in."""
        mapped = [piece for piece in left if isinstance(piece, Mapped)]
        if not mapped and filled_text(left):
            return left
        if filled_text(right) and not any(isinstance(piece, Mapped) for piece in right):
            return self._later(right, {key: value for piece in mapped for key, value in piece.pairs if value})
        return (
            (*left, *right)
            if any(isinstance(piece, Mapped) for piece in (*left, *right))
            else holes_of((*left, *right))
        )

    def _sum(self, terms: list[ast.expr]) -> Value:
        """Texts or lists one after the other; what is between texts is one, too."""
        values = [self.value_of(term) for term in terms]
        if (
            sum(len(text_of(piece)) for value in values for piece in value if isinstance(piece, str | Literal))
            >= _LEAST
        ):
            values = [self.text_beside_value(term, value) for term, value in zip(terms, values, strict=True)]
        return self.added([self.goes_on(term, value, *values) for term, value in zip(terms, values, strict=True)])

    @staticmethod
    def _repeated_text(node: ast.BinOp, left: Value) -> Value:
        """A constant text as often as a constant says: `"=" * 40`."""
        times = node.right.value if isinstance(node.right, ast.Constant) else None
        if not isinstance(times, int) or len(left) != 1 or not isinstance(left[0], Literal):
            return ()
        text = left[0].text
        return (text * times,) if 0 < times * len(text) <= _LONGEST_REPEATED else ()

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        return either(self.value_of(node.body), self.value_of(node.orelse))

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        first, *others = map(self.value_of, node.values)
        known = isinstance(node.op, ast.And) or varies(first) or has_param(first) or self._says_what(node.values[0])
        return either(first, *(others if known else map(made_up, others)))

    def _says_what(self, node: ast.expr) -> bool:
        """Return whether a name says what it is: then what is made up for it is not rarer."""
        return bool(name := dotted(node)) and sure_kind(name) is not None

    def _of_lambda(self, node: ast.Lambda) -> Value:
        new = {one.arg for one in node.args.args} - self.given
        self.given |= new
        value = self.value_of(node.body)
        self.given -= new
        return value

    def _of_await(self, node: ast.Await) -> Value:
        return self.value_of(node.value)

    def _of_starred(self, node: ast.Starred) -> Value:
        return self.value_of(node.value)

    def _of_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value_of(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _of_list(self, node: ast.List) -> Value:
        put = self.put if any(map(is_written, node.elts)) else self._element
        values = [self.value_of(one) if isinstance(one, ast.Starred) else put(one) for one in node.elts[:MOST_ELEMENTS]]
        result: list[Value] = []
        order: Hole | None = None
        for element, value in zip(node.elts, values, strict=False):
            if not isinstance(element, ast.Starred):
                result.append(value)
                continue
            spread = self.goes_on(element.value, spread_out(value), *values)
            known = [part for piece in value if isinstance(piece, Items) for part in piece.values]
            result += known if known and spread == sum(known, ()) else [spread]
            order = order or next((one.order for one in value if isinstance(one, Items) and one.order), None)
        return (Items(tuple(result), order),)

    def _of_tuple(self, node: ast.Tuple) -> Value:
        if len(node.elts) == 2 and isinstance(first := node.elts[0], ast.Constant) and first.value in ROLES:
            return (Message(str(first.value), self.value_of(node.elts[1])),)
        return (Items(tuple(self._element(element) for element in node.elts[:MOST_ELEMENTS])),)

    def _of_set(self, node: ast.Set) -> Value:
        hole = unordered("set", "", self.source.spot_of(node))
        return (Items(tuple(self.value_of(element) for element in node.elts[:MOST_ELEMENTS]), hole),)

    def _of_dict(self, node: ast.Dict) -> Value:
        """A message is its content; others are kept by key."""
        pairs: list[tuple[str, Value]] = []
        put = self.put if _holds_sections(node) else self.value_of
        for key, one in zip(node.keys, node.values, strict=True):
            if key is None:
                for piece in self.value_of(one):
                    pairs += piece.pairs if isinstance(piece, Mapped) else []
                continue
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                pairs.append((key.value, put(one)))
            else:
                self.value_of(key)
                self.told(self.value_of(one), Evidence.NOTHING)
        mapped = Mapped(self._marked(node, pairs))
        role = mapped.get("role")
        content = next((value for name in MESSAGE_KEYS if (value := mapped.get(name)) is not None), None)
        if content is not None and role is not None:
            first = role[0] if role else ""
            return (Message(first.text if isinstance(first, Literal) else "", self._parts(content)),)
        return (mapped,) if pairs else ()

    def _marked(self, node: ast.Dict, pairs: list[tuple[str, Value]]) -> tuple[tuple[str, Value], ...]:
        """The parts of a block; of one with `cache_control` all of its text is to be read from the cache."""
        mark = self.mark_of(node, pairs)
        return tuple((key, (*one, *mark) if key in MESSAGE_KEYS else one) for key, one in pairs)

    def _next_number(self, node: ast.BinOp) -> str | None:
        """Return a constant more than the number of an element: nothing else is digits that a number is added to."""
        more = node.right.value if isinstance(node.right, ast.Constant) else None
        if type(more) is not int or not isinstance(node.left, ast.Name):
            return None
        value = self.value_of(node.left)
        digits = value[0] if len(value) == 1 and isinstance(value[0], str) else ""
        return str(int(digits) + more) if digits.isdecimal() else None

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        order: Hole | None = None
        if len(node.generators) == 1 and not isinstance(node, ast.SetComp):
            generator = node.generators[0]
            over = self.value_of(generator.iter)
            order = over[0].order if len(over) == 1 and isinstance(over[0], Items) else None
            known = self.each(in_order(over) if order is not None else over, _MOST_REPEATED)
            if known:
                order = self.order_of(over, generator.iter, "")
                return (Items(self._for_each(node, generator, known), order),)
        values = self.values
        mark = values.begin()
        elements = self.elements
        for number, generator in enumerate(node.generators):
            if self.element_name(generator.iter):
                self.elements = self.elements | names_in(generator.target)
            over = self.value_of(generator.iter)
            if not number:
                order = self.order_of(
                    over,
                    generator.iter,
                    ast.unparse(generator.target) if isinstance(generator.target, ast.Name) else "",
                )
            self.bind_element(generator.target, over, generator.iter)
        body = (
            self.as_text(self.value_of(node.elt), node.elt)
            if not isinstance(node.elt, ast.Dict)
            else self.value_of(node.elt)
        )
        values.undo(mark)
        self.elements = elements
        if isinstance(node, ast.SetComp):
            order = order or unordered("set", "", self.source.spot_of(node))
            order = of_unknown(order) if order is not None and not body else order
        if not body:
            return (Items((), order),)
        return (Items(((*self.answered(node.generators[0].iter, body), Many(body)),), order),)

    def _for_each(
        self, node: ast.ListComp | ast.GeneratorExp, generator: ast.comprehension, known: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """Something for each of a few known elements."""
        counted = counted_target(generator.target, generator.iter)
        first = first_number(generator.iter)
        results: list[Value] = []
        values = self.values
        mark = values.begin()
        for number, one in enumerate(known, first):
            self.bind_element(generator.target if counted is None else counted[1], (Items((one,)),), node)
            if counted is not None and isinstance(counted[0], ast.Name):
                self.values[counted[0].id] = (str(number),)
            value = self.value_of(node.elt)
            results.append(value if isinstance(node.elt, ast.Dict) else self.as_text(value, node.elt))
        values.undo(mark)
        return tuple(results)

    _of_generatorexp = _of_listcomp
    _of_setcomp = _of_listcomp

    def _of_name(self, node: ast.Name) -> Value:
        return self.variable(node, node.id)

    def _of_attribute(self, node: ast.Attribute) -> Value:
        name = dotted(node)
        if name:
            return self.variable(node, name)
        return self.attribute_of(self.value_of(node.value), node.attr)

    def _of_subscript(self, node: ast.Subscript) -> Value:
        name = dotted(node)
        if name:
            return self.variable(node, name)
        value = self.value_of(node.value)
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            for piece in value:
                if (
                    isinstance(piece, Items)
                    and piece.order is None
                    and -len(piece.values) <= node.slice.value < len(piece.values)
                ):
                    return piece.values[node.slice.value]
        if not isinstance(node.slice, ast.Slice | ast.Constant):
            if (picked := self.chance_in(node.slice)) is not None:
                return (picked,)
            if found := any_of(value):
                return found
        if isinstance(node.slice, ast.Slice):
            step = node.slice.step
            turned = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
            return self.reversed_origin(node.value) if turned else value
        return holes_of(value)
