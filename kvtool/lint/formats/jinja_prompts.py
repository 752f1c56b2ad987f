"""Jinja templates of prompts, read without rendering them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.errors import KvtoolError, Place
from kvtool.lint.evidence.placeholders import doubt_of, placeholder, section, unnamed, words_of
from kvtool.lint.evidence.value_precision import DATE, refined
from kvtool.lint.evidence.volatile_calls import TEMPLATE_CLOCK, called, named
from kvtool.lint.formats.included_texts import constant_nodes
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, TemplatePlaces, leaves
from kvtool.text.line_index import LineIndex
from kvtool.text.templates.code_generator import ParsedEnvironment
from kvtool.text.traced import Origin, Traced

_DEEPEST_MACRO = 4
_MOST_NODES = 100_000
_CHAT = re.compile(r"\bmessages\b")
_OWN_NAMES = frozenset(
    ("super", "caller", "self", "loop", "varargs", "kwargs", "_", "range", "dict", "cycler", "joiner", "namespace")
)
"""Names that Jinja, or who made templates of it, brings along."""
_PARTS_OF_PROGRAMS = frozenset(
    ("names", "tools", "functions", "labels", "strings", "constants", "fragments", "settings")
)
"""How the name of an object ends that holds what a program is made of: `tool_names.replace_text`."""
_TAG = re.compile(r"\{%[-+]?\s{0,80}(\w{1,40})[^%\n]{0,200}")
_DOLLAR = re.compile(r"\$\{\s{0,8}[A-Za-z_]\w{0,99}")
"""What shows, where there are no double braces, that variables are written as `${name}`."""
_CHAT_ONLY = re.compile(r"\b(?:add_generation_prompt|bos_token|eos_token|raise_exception|strftime_now)\b")


def jinja_template(
    source: Traced, known: Collection[str] = (), included: Mapping[str, str] | None = None, child: str = ""
) -> list[Node]:
    """A Jinja template as nodes; KvtoolError, with the place, where its syntax is wrong. `source` knows where it is.

    Of names in `known` is known what they get: there is a hole for each, whatever it is called. `included` are texts of files that
    it may include, by their names: they count as constant text. So do the blocks of `child`, the text of one that extends it.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")  # as for rendering: with others the text behind is lost
    if "{{" not in source and _DOLLAR.search(source):
        with suppress(TemplateSyntaxError):  # those of a shell may stand in a template, too
            return _nodes(ParsedEnvironment(source, chat=False, dollars=True), known, included, child)
    chat = is_chat_template(source)
    environment = ParsedEnvironment(source, chat=chat)
    try:
        return _nodes(environment, known, included, child, chat=chat)
    except TemplateSyntaxError as error:
        raise KvtoolError(f"template: {error.message}", place=_line_place(source, error.lineno)) from error
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise KvtoolError("template: too large, or nested too deeply to read", place=_line_place(source, 1)) from error


def _nodes(
    environment: ParsedEnvironment,
    known: Collection[str],
    included: Mapping[str, str] | None,
    child: str,
    *,
    chat: bool = False,
) -> list[Node]:
    blocks = _blocks_of(child, included or {}) if child else {}
    reader = _Reader(environment, chat=chat, known=known, included=included or {}, blocks=blocks)
    return reader.template(environment.parse(environment.source))


def _blocks_of(text: str, included: Mapping[str, str]) -> dict[str, list[Node]]:
    """Return the constant text of the blocks of a template that extends another one; nothing of one that cannot be read."""
    environment = ParsedEnvironment(Traced.of(text, Origin(_BASE, text=text)), chat=False)
    reader = _Reader(environment, chat=False, known=(), included=included)
    try:
        tree = environment.parse(environment.source)
        return {one.name: list(constant_nodes(reader.body(one.body))) for one in tree.find_all(nodes.Block)}
    except (TemplateSyntaxError, RecursionError, MemoryError, ValueError, OverflowError):
        return {}


_BASE = "\0"
"""The beginning of the path of a template that is read as the base of another one."""


_REPORTED_THERE = 160
"""Characters of constant text after a value in an included file, with which that file reports it."""


def _included_nodes(name: str, included: Mapping[str, str], known: Collection[str], spot: TemplatePlace) -> list[Node]:
    """Return the constant text of an included file; nothing of one that is not there, or that is no template.

    What surely varies near its end is a hole at `spot`: what it costs is in the file that includes it.
    """
    text = included.get(name, "")
    try:
        given = jinja_template(Traced.of(text, Origin(name, text=text)), known) if text else []
    except KvtoolError:
        return []
    result: list[Node] = []
    after = 0
    for node in reversed(given):
        if not isinstance(node, Hole):
            result += reversed(list(constant_nodes([node])))
            after += sum(len(leaf) for leaf in leaves([node]) if isinstance(leaf, str))
        elif after < _REPORTED_THERE and (node.certain or node.what.strip("`").partition(".")[0] in known):
            result.append(node.at(spot))
    return result[::-1]


def is_chat_template(text: str) -> bool:
    """Return whether a Jinja template renders a conversation: it asks for `messages` and for what chat templates are given."""
    return _CHAT.search(text) is not None and _CHAT_ONLY.search(text) is not None


def _line_place(source: Traced, line: int) -> Place | None:
    """A line of the template, in the file where it is written."""
    lines = LineIndex(source)
    origin, offset = source.at(min(lines.start(line), len(source) - 1))
    if origin is None:
        return None
    excerpt = lines.content(line).removesuffix("\n")
    return Place(origin.path, *origin.position(offset), excerpt=excerpt if len(excerpt) <= 400 else None)


class _Reader:
    """Walks the tree of a template in the order of its output."""

    def __init__(
        self,
        environment: ParsedEnvironment,
        *,
        chat: bool,
        known: Collection[str],
        included: Mapping[str, str],
        blocks: dict[str, list[Node]] | None = None,
    ) -> None:
        self._environment = environment
        self._included = included
        self._blocks = blocks or {}
        """Blocks of a template that extends this one."""
        self._known = known
        self._chat = chat
        self._values: dict[str, list[Node]] = {}
        self._loop_names: list[str] = []
        self._set: set[str] = set()
        self._macros: dict[str, nodes.Macro] = {}
        self._imported: set[str] = set()
        """Names of other templates, or of macros in them: constants."""
        self._tags = _Tags(environment.source)
        self._depth = 0
        self._left = _MOST_NODES

    def template(self, tree: nodes.Template) -> list[Node]:
        """Return the nodes of a whole template: of one that extends another, the blocks are within the constant text of that."""
        parent = next((one for one in tree.body if isinstance(one, nodes.Extends)), None)
        name = parent.template.value if parent is not None and isinstance(parent.template, nodes.Const) else None
        text = self._included.get(name, "") if isinstance(name, str) else ""
        if text:  # names that its blocks use
            list(self.body([one for one in tree.body if not isinstance(one, nodes.Block | nodes.Output)]))
        own = {one.name: list(self.body(one.body)) for one in tree.find_all(nodes.Block)} if text else {}
        blocks = own | self._blocks
        with suppress(TemplateSyntaxError):
            if text:
                source = Traced.of(text, Origin(f"{_BASE}{name}", text=text))
                environment = ParsedEnvironment(source, chat=self._chat)
                left = {each: inner for each, inner in self._included.items() if each != name}
                base = _Reader(environment, chat=self._chat, known=(), included=left, blocks=blocks)
                return list(constant_nodes(base.template(environment.parse(source)), _BASE))
        return list(self.body(tree.body))

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
            yield from self._condition(statement)
        elif isinstance(statement, nodes.For):
            yield from self._loop(statement)
        elif isinstance(statement, nodes.Assign | nodes.AssignBlock):
            self._assign(statement)
        elif isinstance(statement, nodes.Macro):
            self._macros[statement.name] = statement
        elif isinstance(statement, nodes.Include):
            if isinstance(statement.template, nodes.Const) and isinstance(statement.template.value, str):
                spot = self._tags.spot(statement.lineno, "include")
                yield from _included_nodes(statement.template.value, self._included, self._known, spot)
        elif isinstance(statement, nodes.Block) and statement.name in self._blocks:
            yield from self._blocks[statement.name]
        elif isinstance(statement, nodes.Import):
            self._imported.add(statement.target)
        elif isinstance(statement, nodes.FromImport):
            self._imported.update(name if isinstance(name, str) else name[1] for name in statement.names)
        elif isinstance(body := getattr(statement, "body", None), list):
            yield from self.body(body)

    def _assign(self, statement: nodes.Assign | nodes.AssignBlock) -> None:
        """Read an assignment: a name varies if one of its assignments does; one that only gets constants is constant."""
        if not isinstance(statement.target, nodes.Name):
            return
        self._set.add(statement.target.name)
        if isinstance(statement, nodes.AssignBlock):
            value = list(self.body(statement.body))
        else:
            value = list(self._pieces(statement.node, self._tags.spot(statement.lineno, "set")))
            if not value and not isinstance(statement.node, nodes.Const):
                self._values.pop(statement.target.name, None)
                return
        before = self._values.get(statement.target.name, [])
        if any(isinstance(node, Hole) for node in before) and not any(isinstance(node, Hole) for node in value):
            return
        self._values[statement.target.name] = value

    def _condition(self, statement: nodes.If) -> Iterator[Node]:
        """A flag or a clock that decides whether text is there, before it."""
        if (hole := self._test(statement)) is not None:
            yield hole
        branches = [statement.body, *(branch.body for branch in statement.elif_), statement.else_]
        yield Choice(tuple(tuple(self.body(branch)) for branch in branches))

    def _test(self, statement: nodes.If) -> Hole | None:
        spot = self._tags.spot(statement.lineno, "if")
        for name in [*statement.test.find_all(nodes.Name), statement.test]:
            if not isinstance(name, nodes.Name) or self._is_own(name.name):
                continue
            if (hole := section(name.name, spot)) is not None:
                return None if _asks_if_defined(statement.test) else hole
        return None

    def _loop(self, statement: nodes.For) -> Iterator[Node]:
        """Its text any number of times; after it what it goes over, which decides how often."""
        spot = self._tags.spot(statement.lineno, "for")
        names = [name.name for name in statement.target.find_all(nodes.Name)]
        names += [statement.target.name] if isinstance(statement.target, nodes.Name) else []
        self._loop_names += names
        repeat = Repeat(tuple(self.body(statement.body)))
        del self._loop_names[len(self._loop_names) - len(names) :]
        yield repeat
        over = _dotted(statement.iter.node if isinstance(statement.iter, nodes.Call | nodes.Filter) else statement.iter)
        over = over.removesuffix(".items").removesuffix(".values")
        if (
            over
            and any(statement.find_all(nodes.Output))
            and not self._chat
            and not self._is_own(over.partition(".")[0])
        ):
            hole = placeholder(over, spot)
            if hole is not None:
                yield replace(hole, kind=OTHER, doubt=doubt_of(over))

    def _is_own(self, name: str) -> bool:
        return name in self._loop_names or name in self._values or name in self._set or name in _OWN_NAMES

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
            macro = self._macros[node.node.name]
            names = [argument.name for argument in macro.args]
            for argument in [*node.args, *(pair.value for pair in node.kwargs)]:
                yield from (part for part in self._pieces(argument, spot) if isinstance(part, Hole))
            self._depth += 1
            self._loop_names += names
            yield from self.body(macro.body)
            del self._loop_names[len(self._loop_names) - len(names) :]
            self._depth -= 1
            return
        hole = called(name, spot) if name else None
        if hole is not None:
            leads = self._chat and hole.kind is TIME
            yield replace(hole, kind=TEMPLATE_CLOCK if leads else hole.kind, leads=leads)
            return
        if isinstance(node.node, nodes.Getattr) and name.partition(".")[0] not in self._imported:
            yield from self._pieces(node.node.node, spot)
            return
        if isinstance(node.node, nodes.Name) and (hole := self._named(node.node.name, spot)) is not None:
            yield hole
            return
        for argument in node.args:
            yield from (part for part in self._pieces(argument, spot) if isinstance(part, Hole))

    def _variable(self, node: nodes.Node, spot: TemplatePlace) -> Iterator[Node]:
        name = _dotted(node)
        root = name.partition(".")[0]
        if not name and isinstance(node, nodes.Getattr):
            clocks = (
                each for each in self._pieces(node.node, spot) if isinstance(each, Hole) and each.kind in (TIME, DATE)
            )
            yield from filter(None, (refined(clock, node.attr) for clock in clocks))
        elif root in self._values:
            for value in self._values[root]:
                yield value.at(spot) if isinstance(value, Hole) else value
        elif name and (hole := self._named(name, spot)) is not None:
            yield hole

    def _named(self, name: str, spot: TemplatePlace) -> Hole | None:
        """The hole of a name that the template has from outside. Of chat templates only what its name says: all of it is asked."""
        root = name.partition(".")[0]
        if root in self._loop_names or root in self._imported or root in _OWN_NAMES:
            return None
        if root != name and words_of(root)[-1:] and words_of(root)[-1] in _PARTS_OF_PROGRAMS:
            return None
        if name in self._known:
            return placeholder(name, spot) or unnamed(name, spot)
        return named(name, spot) if self._chat or root in self._set else placeholder(name, spot)


class _Tags:
    """Places of the tags of a template; each is asked for once, in the order of the template."""

    def __init__(self, source: Traced) -> None:
        self._places = TemplatePlaces(source)
        self._found: dict[tuple[int, str], deque[tuple[int, int]]] = {}
        self._lines = LineIndex(source)
        for tag in _TAG.finditer(source):
            key = self._lines.number(tag.start(1)), "if" if tag[1] == "elif" else tag[1]
            self._found.setdefault(key, deque()).append((tag.start(), len(tag[0].rstrip(" -")) + 2))

    def spot(self, line: int, word: str) -> TemplatePlace:
        found = self._found.get((line, word))
        if not found:
            begin = min(self._lines.start(line), len(self._lines.text) - 1)
            return replace(self._places.at(begin, begin + 1), column=1)
        start, width = found.popleft() if len(found) > 1 else found[0]  # a macro's are read once for each call
        return self._places.at(start, start + width)


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
