"""Texts that Python expressions give, as far as syntax tells: f-strings, `str.format`, `%`, `string.Template`, sums, joins."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kvtool.errors import KvtoolError
from kvtool.lint.python_source import PythonSource
from kvtool.lint.python_values import (
    MESSAGE_KEYS,
    Items,
    Literal,
    Value,
    cut,
    dotted,
    is_message,
    keyed,
    percents,
    plain,
)
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, style_of, text_nodes
from kvtool.lint.templates import jinja_template
from kvtool.lint.volatile import JSON_KEYS, called, environment, named, unordered
from kvtool.text.traced import Origin, Traced

_MOST_WORK = 2_000_000
_TEXT_METHODS = frozenset(
    (
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "title",
        "capitalize",
        "removeprefix",
        "removesuffix",
        "replace",
        "expandtabs",
    )
)
_TEXT_CALLS = frozenset(("str", "textwrap.dedent", "dedent", "inspect.cleandoc", "cleandoc", "textwrap.indent"))
_READING = ("read", "load", "open")
_TEMPLATES = frozenset(("Template", "PromptTemplate", "ChatPromptTemplate", "JinjaTemplate"))
_DUMPS = frozenset(("json.dumps", "dumps"))


class Expressions:
    """Tells what is known of expressions, with what names stand for at the moment."""

    def __init__(
        self,
        source: PythonSource,
        emit: Callable[[list[Node]], None],
        outer: Mapping[str, Value],
        hidden: frozenset[str],
    ) -> None:
        """`outer` are the names of the module, of which the function's own parameters hide some."""
        self.source = source
        self._emit = emit
        self.outer = {name: value for name, value in outer.items() if name not in hidden}
        self.values: dict[str, Value] = {}
        self.loop_names: list[str] = []
        self._work = 0

    def value_of(self, node: ast.expr) -> Value:
        """What is known of the text that an expression gives."""
        if isinstance(node, ast.Constant):
            return (Literal(node.value, *self.source.span(node)),) if isinstance(node.value, str) else ()
        if isinstance(node, ast.JoinedStr):
            return tuple(self._joined_string(node))
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            sides = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return self._choice([self.value_of(side) for side in sides])
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return self._elements(node)
        if isinstance(node, ast.Dict):
            return self._dict(node)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self._comprehension(node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            return self._variable(node)
        if isinstance(node, ast.Await | ast.NamedExpr | ast.Starred):
            return self.value_of(node.value)
        return ()

    def _joined_string(self, node: ast.JoinedStr) -> Iterator[Node | Literal | Items]:
        spots = iter(self.source.fields(node))
        for part in node.values:
            if isinstance(part, ast.Constant):
                yield str(part.value)
            elif isinstance(part, ast.FormattedValue):
                spot = next(spots)
                for piece in self.value_of(part.value):
                    yield replace(piece, spot=spot) if isinstance(piece, Hole) else piece

    def _operation(self, node: ast.BinOp) -> Value:
        if isinstance(node.op, ast.Mod):
            left = self.value_of(node.left)
            return self._percent(left, node.right) if any(isinstance(piece, Literal) for piece in left) else ()
        if not isinstance(node.op, ast.Add):
            return ()
        terms: list[ast.expr] = []
        side: ast.expr = node
        while isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add):
            terms.append(side.right)
            side = side.left
        return cut(piece for term in [side, *reversed(terms)] for piece in self.value_of(term))

    def _percent(self, left: Value, right: ast.expr) -> Value:
        """`text % values`: the values stand where the text has `%`; each `%(name)s` by its name."""
        given = keyed(right) if isinstance(right, ast.Dict) else {}
        positional = list(right.elts) if isinstance(right, ast.Tuple) else [right]
        result: list[Node | Literal | Items] = []
        for piece in left:
            if not isinstance(piece, Literal):
                result.append(piece)
                continue
            at = 0
            for start, stop, name in percents(piece.text):
                result.append(piece.text[at:start])
                at = stop
                node = given.get(name) if name else positional.pop(0) if positional else None
                spot = self._spot_in(piece, piece.text[start:stop])
                result += self._filled(node, name, spot)
            result.append(piece.text[at:])
        return cut(result)

    def _filled(self, node: ast.expr | None, name: str, spot: TemplatePlace) -> Value:
        """What is put into a placeholder, where it is put."""
        if node is None:
            hole = named(name, spot) if name else None
            return (hole,) if hole is not None else ()
        return tuple(replace(piece, spot=spot) if isinstance(piece, Hole) else piece for piece in self.value_of(node))

    def _call(self, node: ast.Call) -> Value:
        name = dotted(node.func)
        spot = self.source.spot_of(node)
        if hole := called(name, spot):
            return (hole,)
        if hole := unordered(name, name, spot):
            return (hole,)
        if name in _DUMPS:
            return self._dumps(node, name, spot)
        if name == "sorted":
            return ()
        if name in _TEXT_CALLS and node.args:
            return self.value_of(node.args[0])
        if name.rpartition(".")[2] in _TEMPLATES and node.args:
            return self.value_of(node.args[0])
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, spot)
        for argument in [*node.args, *(word.value for word in node.keywords)]:
            self.done(self.value_of(argument))
        return self._function(name, spot)

    @staticmethod
    def _function(name: str, spot: TemplatePlace) -> Value:
        """What a function gives, by its name (`current_time`); a class says nothing (`Path`)."""
        hole = named(name, spot) if name.rpartition(".")[2][:1].islower() else None
        return (hole,) if hole is not None else ()

    @staticmethod
    def _dumps(node: ast.Call, name: str, spot: TemplatePlace) -> Value:
        """JSON keeps the order of keys unless it is told to sort them; of what is written in place the order is known."""
        if (
            any(word.arg == "sort_keys" for word in node.keywords)
            or not node.args
            or isinstance(node.args[0], ast.Dict)
        ):
            return ()
        return (Hole(spot, JSON_KEYS, f"`{name}()` without sort_keys", certain=True, order=True, minor=True),)

    def _method(self, node: ast.Call, function: ast.Attribute, spot: TemplatePlace) -> Value:
        method = function.attr
        if method == "join" and node.args:
            return self._join(node.args[0])
        base = self.value_of(function.value)
        if method in _TEXT_METHODS:
            return base
        given: dict[str, ast.expr] = {word.arg: word.value for word in node.keywords if word.arg is not None}
        if method in ("format", "format_map", "substitute", "safe_substitute", "render"):
            if node.args and isinstance(node.args[0], ast.Dict):
                given |= keyed(node.args[0])
            return cut(part for piece in base for part in self._formatted(piece, given))
        for argument in [*node.args, *given.values()]:
            self.done(self.value_of(argument))
        if method.startswith(_READING):
            return ()  # what a file holds does not follow from what its path is called
        if base:
            return tuple(piece for piece in base if isinstance(piece, Hole))
        return self._function(dotted(function), spot)

    def _join(self, argument: ast.expr) -> Value:
        value = self.value_of(argument)
        known = any(isinstance(piece, Hole) and piece.order for piece in value)
        hole = None if known else self.order_of(argument, dotted(argument))
        pieces: list[Node | Literal | Items] = [hole] if hole is not None else []
        for piece in value:
            if isinstance(piece, Items):
                pieces += [part for value in piece.values for part in value]
            else:
                pieces.append(piece)
        return cut(pieces)

    def _formatted(self, piece: Node | Literal | Items, given: Mapping[str, ast.expr]) -> list[Node | Literal | Items]:
        if not isinstance(piece, Literal):
            return [piece]
        filled: dict[str, Value] = {}
        for name, node in given.items():
            filled[name] = tuple(part for part in self.value_of(node))
        return list(self._template(piece, filled))

    def _template(self, literal: Literal, filled: Mapping[str, Value]) -> Iterator[Node | Literal | Items]:
        """A string constant with its placeholders, filled with what is known."""
        style = style_of(literal.text)
        if not style:
            yield literal.text
            return
        if style == "jinja":
            yield from self._jinja(literal)
            return
        position = literal.start

        def hole(start: int, stop: int, name: str) -> Node | None:
            nonlocal position
            written = literal.text[start:stop]
            found = self.source.text.find(written, position, literal.stop)
            position = found + len(written) if found >= 0 else position
            spot = self.source.spot(found, found + len(written)) if found >= 0 else self._spot_in(literal, "")
            value = filled.get(name)
            if value is None:
                return named(name, spot)
            nodes = [replace(one, spot=spot) if isinstance(one, Hole) else one for one in plain(value)]
            return Choice((tuple(nodes),)) if nodes else None

        yield from text_nodes(literal.text, style, hole)

    def _jinja(self, literal: Literal) -> Iterator[Node]:
        """A Jinja template in a string; one that is none after all is text."""
        written = self.source.text[literal.start : literal.stop]
        spot = self.source.spot(literal.start, literal.stop)
        at = written.find(literal.text)
        verbatim = at >= 0
        if verbatim:
            spot = self.source.spot(literal.start + at, literal.start + at + 1)
        origin = Origin(spot.path, spot.line, spot.column, 1, verbatim, text=literal.text)
        try:
            yield from jinja_template(Traced.of(literal.text, origin))
        except KvtoolError:
            yield literal.text

    def _spot_in(self, literal: Literal, written: str) -> TemplatePlace:
        found = self.source.text.find(written, literal.start, literal.stop) if written else -1
        start = found if found >= 0 else literal.start
        return self.source.spot(start, start + max(len(written), 1))

    def _choice(self, sides: list[Value]) -> Value:
        return (Choice(tuple(tuple(self._nodes(side)) for side in sides)),) if any(sides) else ()

    def _elements(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        messages = bool(node.elts) and all(is_message(element) for element in node.elts)
        values = tuple(self.value_of(element) for element in node.elts)
        items = Items(values, messages=messages)
        return (items,) if values or isinstance(node, ast.List) else ()

    def _dict(self, node: ast.Dict) -> Value:
        """A message is its content; of any other mapping each value stands alone."""
        pairs = keyed(node)
        content = next((pairs[key] for key in MESSAGE_KEYS if key in pairs), None)
        for other in node.values:
            if other is not content:
                self.done(self.value_of(other))
        if content is None:
            return ()
        value = self.value_of(content)
        if len(value) == 1 and isinstance(value[0], Items):
            return tuple(part for one in value[0].values for part in one)
        return value

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        names = [name.id for each in node.generators for name in ast.walk(each.target) if isinstance(name, ast.Name)]
        hole = self.order_of(node.generators[0].iter, names[0] if names else "")
        self.loop_names += names
        body = self._nodes(self.value_of(node.elt))
        del self.loop_names[len(self.loop_names) - len(names) :]
        pieces: list[Node] = [hole] if hole is not None else []
        return (Items(((*pieces, Repeat(tuple(body))),)),)

    def _variable(self, node: ast.Name | ast.Attribute | ast.Subscript) -> Value:
        name = dotted(node)
        if not name:
            if isinstance(node, ast.Subscript | ast.Attribute):
                return tuple(piece for piece in self.value_of(node.value) if isinstance(piece, Hole))
            return ()
        spot = self.source.spot_of(node)
        for values in (self.values, self.outer):
            if name in values:
                return values[name]
        root = name.partition(".")[0]
        if root in self.loop_names:
            return ()
        if root in self.values:
            return tuple(piece for piece in self.values[root] if isinstance(piece, Hole))
        hole = environment(name, spot) or named(name, spot)
        return (hole,) if hole is not None else ()

    def order_of(self, node: ast.expr, items: str) -> Hole | None:
        """The hole of going over something that has no order; the name that it has may say what it holds."""
        if isinstance(node, ast.Set | ast.SetComp):
            return unordered("set", items, self.source.spot_of(node))
        if isinstance(node, ast.Name):
            value = self.values.get(node.id, self.outer.get(node.id, ()))
            found = next((piece for piece in value if isinstance(piece, Hole) and piece.order), None)
            return None if found is None or found.minor else replace(found, spot=self.source.spot_of(node))
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in ("enumerate", "list", "tuple", "reversed", "map", "filter") and node.args:
                return self.order_of(node.args[-1], items)
            inner = dotted(node.args[0]) if node.args else ""
            return unordered(name, f"{items} {inner}", self.source.spot_of(node))
        return None

    def _nodes(self, value: Value) -> list[Node]:
        """A value as the text it becomes: constants that nothing fills, with the placeholders that are left in them."""
        result: list[Node] = []
        for piece in value:
            if isinstance(piece, Literal):
                result += plain(tuple(self._template(piece, {})))
            elif isinstance(piece, Items):
                result += [node for one in piece.values for node in self._nodes(one)] if piece.messages else []
            else:
                result.append(piece)
        return result

    def done(self, value: Value) -> None:
        """Hand on a text that is finished; the elements of a list that nothing joins are texts of their own."""
        self._work += len(value)
        if self._work >= _MOST_WORK:
            return
        for piece in value:
            if isinstance(piece, Items) and not piece.messages:
                for one in piece.values:
                    self.done(one)
        nodes = self._nodes(value)
        if any(not isinstance(node, str) for node in nodes):
            self._emit(nodes)
