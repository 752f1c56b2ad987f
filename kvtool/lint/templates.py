"""Templates in files of their own: Jinja, and texts with `{name}` or `$name` placeholders. Nothing is rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from kvtool.diagnose.codes.kv101 import TIME
from kvtool.diagnose.codes.kv105 import COUNTER
from kvtool.diagnose.codes.kv107 import FLAG
from kvtool.diagnose.names import kind_of_name
from kvtool.errors import KvtoolError, Place
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, placeholders, text_nodes
from kvtool.lint.volatile import TEMPLATE_CLOCK, called, named
from kvtool.text.templates.environment import TracedEnvironment
from kvtool.text.traced import Origin, Traced

_DEEPEST_MACRO = 4
_MOST_NODES = 100_000
_CHAT = re.compile(r"\bmessages\b")
_CHAT_ONLY = re.compile(r"\b(?:add_generation_prompt|bos_token|eos_token|raise_exception|strftime_now)\b")


def text_template(path: str, text: str, style: str) -> list[Node]:
    """A text with `{name}` (`format`) or `$name` (`dollar`) placeholders as nodes."""
    spots = Spots(path, text)
    return text_nodes(text, style, lambda start, stop, name: named(name, spots.at(start, stop)))


def placeholder_count(text: str, style: str) -> int:
    return sum(1 for _ in placeholders(text, style))


class Spots:
    """Places of offsets in a text that are asked for in order."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text
        self._line = 1
        self._start = self._seen = 0

    def at(self, start: int, stop: int) -> TemplatePlace:
        self._line += self._text.count("\n", self._seen, start)
        self._start = max(self._start, self._text.rfind("\n", self._seen, start) + 1)
        self._seen = start
        return TemplatePlace(self._path, self._line, start - self._start + 1, stop - start)


def jinja_template(source: Traced) -> list[Node]:
    """A Jinja template as nodes; KvtoolError, with the place, where its syntax is wrong. `source` knows where it stands."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")  # as for rendering: with others the text behind is lost
    chat = _CHAT.search(source) is not None and _CHAT_ONLY.search(source) is not None
    environment = TracedEnvironment(source, chat=chat)
    try:
        tree = environment.parse(source)
        return list(_Reader(environment, chat=chat).body(tree.body))
    except TemplateSyntaxError as error:
        raise KvtoolError(f"template: {error.message}", place=_line_place(source, error.lineno)) from error
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise KvtoolError("template: nested too deeply or too large to read", place=_line_place(source, 1)) from error


def jinja_file(path: str, text: str) -> list[Node]:
    """The template that a file is."""
    return jinja_template(Traced.of(text, Origin(path, text=text)))


def _line_place(source: Traced, line: int) -> Place | None:
    """A line of the template, in the file where it is written."""
    start = 0
    for _ in range(line - 1):
        start = source.find("\n", start) + 1
    if start >= len(source):
        start = len(source) - 1
    origin, offset = source.at(start)
    if origin is None:
        return None
    stop = source.find("\n", start)
    excerpt = str.__getitem__(source, slice(start, stop if stop >= 0 else len(source)))
    return Place(origin.path, *origin.position(offset), excerpt=excerpt if len(excerpt) <= 400 else None)


class _Reader:
    """Walks the tree of a template in the order of its output."""

    def __init__(self, environment: TracedEnvironment, *, chat: bool) -> None:
        self._environment = environment
        self._chat = chat
        self._values: dict[str, list[Node]] = {}
        self._loop_names: list[str] = []
        self._macros: dict[str, nodes.Macro] = {}
        self._depth = 0
        self._left = _MOST_NODES

    def body(self, statements: Sequence[nodes.Node]) -> Iterator[Node]:
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                raise MemoryError
            yield from self._statement(statement)

    def _statement(self, statement: nodes.Node) -> Iterator[Node]:
        if isinstance(statement, nodes.Output):
            for child in statement.nodes:
                if isinstance(child, nodes.TemplateData):
                    yield child.data
                else:
                    yield from self._output(child)
        elif isinstance(statement, nodes.If):
            yield from self._test(statement)
            branches = [statement.body, *(branch.body for branch in statement.elif_), statement.else_]
            yield Choice(tuple(tuple(self.body(branch)) for branch in branches))
        elif isinstance(statement, nodes.For):
            names = [name.name for name in statement.target.find_all(nodes.Name)]
            names += [statement.target.name] if isinstance(statement.target, nodes.Name) else []
            self._loop_names += names
            yield Repeat(tuple(self.body(statement.body)))
            del self._loop_names[len(self._loop_names) - len(names) :]
        elif isinstance(statement, nodes.Assign | nodes.AssignBlock):
            self._assign(statement)
        elif isinstance(statement, nodes.Macro):
            self._macros[statement.name] = statement
        elif isinstance(body := getattr(statement, "body", None), list):
            yield from self.body(body)

    def _assign(self, statement: nodes.Assign | nodes.AssignBlock) -> None:
        """What varies in one assignment of a name varies in all; a name that only gets constants is constant."""
        if not isinstance(statement.target, nodes.Name):
            return
        if isinstance(statement, nodes.AssignBlock):
            value = list(self.body(statement.body))
        else:
            value = list(self._pieces(statement.node, self._spot(statement)))
            if not value and not isinstance(statement.node, nodes.Const):
                self._values.pop(statement.target.name, None)
                return
        before = self._values.get(statement.target.name, [])
        if any(isinstance(node, Hole) for node in before) and not any(isinstance(node, Hole) for node in value):
            return
        self._values[statement.target.name] = value

    def _test(self, statement: nodes.If) -> Iterator[Node]:
        """A flag that decides whether text is there, or a clock."""
        for name in [*statement.test.find_all(nodes.Name), statement.test]:
            if not isinstance(name, nodes.Name) or name.name in self._loop_names or name.name in self._values:
                continue
            if kind_of_name(name.name) in (FLAG, TIME) and not _asks_if_defined(statement.test):
                hole = named(name.name, self._line_spot(statement.lineno))
                if hole is not None:
                    yield hole
                return

    def _output(self, expression: nodes.Node) -> Iterator[Node]:
        number = self._environment.expression(expression)
        origin = self._environment.origins[number]
        if origin is None:
            return
        yield from self._pieces(expression, TemplatePlace(origin.path, origin.line, origin.column, origin.width))

    def _pieces(self, node: nodes.Node, spot: TemplatePlace) -> Iterator[Node]:
        """An expression's text, from left to right, as far as it is known."""
        if isinstance(node, nodes.TemplateData):
            yield node.data
        elif isinstance(node, nodes.Const):
            yield str(node.value)
        elif isinstance(node, nodes.Add):
            for side in _chain(node):
                yield from self._pieces(side, spot)
        elif isinstance(node, nodes.Concat):
            for part in node.nodes:
                yield from self._pieces(part, spot)
        elif isinstance(node, nodes.CondExpr):
            sides = [node.expr1, *([node.expr2] if node.expr2 is not None else [])]
            yield Choice(tuple(tuple(self._pieces(side, spot)) for side in sides))
        elif isinstance(node, nodes.Filter):
            yield from self._filtered(node, spot)
        elif isinstance(node, nodes.Call):
            yield from self._called(node, spot)
        elif isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            yield from self._variable(node, spot)
        elif isinstance(node, nodes.Test | nodes.Compare | nodes.Not):
            return
        else:
            for child in node.iter_child_nodes():
                yield from (part for part in self._pieces(child, spot) if isinstance(part, Hole))

    def _filtered(self, node: nodes.Filter, spot: TemplatePlace) -> Iterator[Node]:
        if node.name in ("random", "shuffle"):
            yield from filter(None, [called("random.choice", spot)])
        elif node.node is not None and node.name not in ("length", "count"):
            yield from self._pieces(node.node, spot)

    def _called(self, node: nodes.Call, spot: TemplatePlace) -> Iterator[Node]:
        name = _dotted(node.node)
        if isinstance(node.node, nodes.Name) and node.node.name in self._macros and self._depth < _DEEPEST_MACRO:
            self._depth += 1
            yield from self.body(self._macros[node.node.name].body)
            self._depth -= 1
            return
        hole = called(name, spot) if name else None
        if hole is not None:
            leads = self._chat and hole.kind is TIME
            yield replace(hole, kind=TEMPLATE_CLOCK if leads else hole.kind, leads=leads)
            return
        if isinstance(node.node, nodes.Getattr):
            yield from self._pieces(node.node.node, spot)
        elif isinstance(node.node, nodes.Name) and (hole := named(node.node.name, spot)) is not None:
            yield hole
            return
        for argument in node.args:
            yield from (part for part in self._pieces(argument, spot) if isinstance(part, Hole))

    def _variable(self, node: nodes.Node, spot: TemplatePlace) -> Iterator[Node]:
        name = _dotted(node)
        root = name.partition(".")[0]
        if name in ("loop.index", "loop.index0", "loop.revindex", "loop.revindex0"):
            yield Hole(spot, COUNTER, f"`{name}`, which numbers items anew where one is added or moved,", minor=True)
        elif root in self._values:
            for value in self._values[root]:
                yield replace(value, spot=spot) if isinstance(value, Hole) else value
        elif root not in self._loop_names and name and (hole := named(name, spot)) is not None:
            yield hole

    def _line_spot(self, line: int) -> TemplatePlace:
        place = _line_place(self._environment.source, line)
        if place is None:
            return TemplatePlace("", line, 1, 1)
        found = re.search(r"\{%[^%\n]{0,200}", place.excerpt or "")
        column = (place.column or 1) + (found.start() if found else 0)
        return TemplatePlace(place.path, place.line or line, column, len(found[0].rstrip()) + 2 if found else 1)

    def _spot(self, statement: nodes.Node) -> TemplatePlace:
        return self._line_spot(statement.lineno)


def _chain(node: nodes.Add) -> list[nodes.Node]:
    """The terms of a sum, however many, without recursion."""
    terms: list[nodes.Node] = []
    left: nodes.Node = node
    while isinstance(left, nodes.Add):
        terms.append(left.right)
        left = left.left
    return [left, *reversed(terms)]


def _dotted(node: nodes.Node | None) -> str:
    """`user.name` for the variable it is; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        if isinstance(node, nodes.Getattr):
            parts.append(node.attr)
        elif isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            parts.append(node.arg.value)
        node = node.node
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, nodes.Name) else ""


def _asks_if_defined(test: nodes.Node) -> bool:
    return any(
        inner.name in ("defined", "undefined", "none")
        for inner in [*test.find_all(nodes.Test), test]
        if isinstance(inner, nodes.Test)
    )
