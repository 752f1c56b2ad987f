"""Code that changes what was sent before: a history that is cut, old messages that are shortened, tools in order of arrival.

What a call sends to a model is followed backwards: through the names, attributes and functions of the file that its messages
are made of. On that way only, a slice is one of the history.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT
from kvtool.lint.evidence.prompt_evidence import Evidence, call_sends
from kvtool.lint.evidence.volatile_calls import order_kind
from kvtool.lint.python.history_cuts import (
    first_argument,
    is_all_but_latest,
    is_distance,
    is_front,
    is_limit,
    kept_of,
    makes_message,
    number_of_message,
    slides,
)
from kvtool.lint.python.python_source import PythonSource
from kvtool.lint.python.syntax import dotted
from kvtool.lint.python.value_origins import TURNS, holds_turns
from kvtool.lint.skeleton import Hole

_CUTS = (".pop(0)", ".pop(1)", "popleft(", "maxlen=", ".shift()", ".splice(", "trim_messages", "trimMessages", " del ")
_DISTANCES = ("[-", "[:-", "slice(-", "[len(", ".length -", ") - ")
_OF_TURNS = re.compile(
    r"(?:istory|ontext|onversation|hat|ranscript|ialogue|emory|hread|urns|essages)\s?"
    r"(?:\[\s?:?\s?-|\[len\(|\.slice\(\s?-|\.length -|\) - )"
)
"""A distance from the end of what is named as a conversation."""


def _may_rewrite(text: str) -> bool:
    """Return whether a file has the words of any of this: most have none, and are read no further."""
    if "essages" not in text and "istory" not in text:
        return False
    if any(mark in text for mark in _DISTANCES) and _OF_TURNS.search(text):
        return True
    beside = ("gather(" in text or "Promise.all" in text) and "ools." in text
    return beside or any(mark in text for mark in _CUTS)


_TOOLS = frozenset(("tools", "functions"))
_ADDS = frozenset(("append", "extend", "insert", "appendleft"))
_DROPS = frozenset(("popleft", "shift"))
_TRIMS = frozenset(("trim_messages", "trimMessages"))
_LONGEST = 60
_MOST = 4_000
"""Expressions that are followed."""


_Guarded = tuple[ast.expr, ast.expr | None]
"""An expression, and the condition under which it is reached."""


@dataclass(slots=True)
class _Code:
    """One function, or the module outside of its functions: what its names are made of, and what it returns."""

    node: ast.AST
    made: dict[str, list[_Guarded]] = field(default_factory=dict)
    returned: list[_Guarded] = field(default_factory=list)
    calls: list[tuple[ast.Call, ast.expr | None]] = field(default_factory=list)
    together: list[ast.Call] = field(default_factory=list)
    """Calls that run tasks side by side."""
    drops: list[tuple[str, ast.expr | ast.stmt]] = field(default_factory=list)
    """Statements that take the first elements of a list away, with its name."""
    of_old: set[int] = field(default_factory=set)
    """The identities of conditions under which a message far from the end becomes another one."""


_Key = tuple[int, str]
"""A name in a function; an attribute of an object in all of the file."""


def _key(code: _Code, name: str) -> _Key:
    return 0 if name.startswith("self.") else id(code), name


class RewrittenHistory:
    """Finds in one file what changes messages that were sent, as holes that the whole rest of a conversation follows."""

    def __init__(self, source: PythonSource) -> None:
        self._source = source
        self._functions: dict[str, _Code] = {}
        self._codes: list[_Code] = []
        self._attributes: dict[str, list[tuple[_Code, _Guarded]]] = {}
        self._found: dict[int, Hole] = {}

    def holes(self) -> list[Hole]:
        """Return what was found, by place; nothing where the file has none of the words that it takes."""
        if not _may_rewrite(self._source.text):
            return []
        self._read(self._source.tree, self._source.tree.body)
        messages = self._follow(TURNS, self._judge)
        for code in self._codes:
            for name, node in code.drops:
                if _key(code, name) in messages:
                    self._add(node, WINDOW)
        tools = self._follow(_TOOLS, lambda *_: None) if any(code.together for code in self._codes) else set()
        self._in_order_of_arrival(tools)
        return sorted(self._found.values(), key=lambda hole: (hole.spot.line, hole.spot.column))

    def _follow(
        self, keywords: Collection[str], judge: Callable[[_Code, ast.expr, ast.expr | None], None]
    ) -> set[_Key]:
        """Return the names that lead to what calls send under keywords; `judge` gets each part of that."""
        followed: set[int] = set()
        names: set[_Key] = set()
        waiting = [
            (code, (one, guard)) for code in self._codes for call, guard in code.calls for one in _sent(call, keywords)
        ]
        while waiting and len(followed) < _MOST:
            code, (expression, guard) = waiting.pop()
            if id(expression) in followed:
                continue
            followed.add(id(expression))
            for part in _messages_in(expression):
                judge(code, part, guard)
                waiting += self._made_of(code, part, names)
        return names

    # Reading

    def _read(self, node: ast.AST, body: list[ast.stmt]) -> None:
        code = _Code(node)
        self._codes.append(code)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._functions.setdefault(node.name, code)
        self._statements(code, body, None)

    def _statements(self, code: _Code, body: list[ast.stmt], guard: ast.expr | None) -> None:
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read(statement, statement.body)
                continue
            if isinstance(statement, ast.ClassDef):
                self._statements(code, statement.body, None)
                continue
            inside = statement.test if isinstance(statement, ast.If | ast.While) else guard
            self._statement(code, statement, guard)
            for name in ("body", "orelse", "finalbody"):
                self._statements(code, getattr(statement, name, []), inside if name == "body" else guard)
            for handler in getattr(statement, "handlers", ()):
                self._statements(code, handler.body, guard)

    def _statement(self, code: _Code, statement: ast.stmt, guard: ast.expr | None) -> None:
        for one in _own_expressions(statement):
            for node in ast.walk(one):
                if isinstance(node, ast.Call):
                    self._call(code, node, guard)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._make(code, dotted(target), (statement.value, guard))
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            self._make(code, dotted(statement.target), (statement.value, guard))
        elif isinstance(statement, ast.For | ast.AsyncFor):
            self._loop(code, statement)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            code.returned.append((statement.value, guard))
        elif isinstance(statement, ast.Delete):
            for target in statement.targets:
                if isinstance(target, ast.Subscript) and is_front(target.slice) and is_limit(guard):
                    code.drops.append((dotted(target.value), statement))

    def _make(self, code: _Code, name: str, value: _Guarded) -> None:
        if not name:
            return
        code.made.setdefault(name, []).append(value)
        if name.startswith("self."):
            self._attributes.setdefault(name, []).append((code, value))

    def _call(self, code: _Code, node: ast.Call, guard: ast.expr | None) -> None:
        name = dotted(node.func)
        if call_sends(name or getattr(node.func, "attr", "")) is Evidence.ASKED:
            code.calls.append((node, guard))
        elif name.rpartition(".")[2] == "gather":
            code.together.append(node)
        if not isinstance(node.func, ast.Attribute):
            return
        base, method = dotted(node.func.value), node.func.attr
        if method in _ADDS and node.args and base:
            self._make(code, base, (node.args[-1], guard))
        first = node.args[0] if node.args else None
        front = method in _DROPS or (method in ("pop", "splice") and first is not None and is_front(first))
        if front and base and is_limit(guard) and not (method == "splice" and len(node.args) != 2):
            code.drops.append((base, node))

    def _loop(self, code: _Code, loop: ast.For | ast.AsyncFor) -> None:
        """A loop that makes other messages of those far from the end, by their number."""
        number = number_of_message(loop.target, loop.iter)
        over = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        if isinstance(over, ast.Subscript) and is_all_but_latest(over) and makes_message(loop.body):
            code.of_old.add(id(over))
            self._make(code, dotted(over.value), (over, None))
        if not number:
            return
        for one in ast.walk(loop):
            if isinstance(one, ast.If) and self._is_old(code, one.test, number) and makes_message(one.body):
                code.of_old.add(id(one.test))
                for name in _filled(loop):
                    self._make(code, name, (one.test, None))

    @staticmethod
    def _is_old(code: _Code, test: ast.expr, number: str) -> bool:
        """Return whether a condition compares the number of a message with a distance from the end."""
        for one in ast.walk(test):
            if not isinstance(one, ast.Compare) or number not in {
                dotted(side) for side in (one.left, *one.comparators)
            }:
                continue
            for side in (one.left, *one.comparators):
                values = [side, *(value for value, _ in code.made.get(dotted(side), ()))]
                if any(is_distance(value) for value in values):
                    return True
        return False

    # Following

    def _made_of(self, code: _Code, part: ast.expr, names: set[_Key]) -> Iterator[tuple[_Code, _Guarded]]:
        """What a part of the messages is made of: what its name was assigned, and what its function returns."""
        if isinstance(part, ast.Call):
            function = self._functions.get(dotted(part.func).rpartition(".")[2] or getattr(part.func, "attr", ""))
            for one in function.returned if function is not None else ():
                assert function is not None
                yield function, one
            return
        name = dotted(part)
        if not name:
            return
        names.add(_key(code, name))
        if name.startswith("self."):
            yield from self._attributes.get(name, ())
        for one in code.made.get(name, ()):
            yield code, one

    def _judge(self, code: _Code, part: ast.expr, guard: ast.expr | None) -> None:
        if id(part) in code.of_old:
            self._add(part, CUT_SHORT)
        elif isinstance(part, ast.Subscript) and holds_turns(dotted(part.value)):
            kept = kept_of(part.slice)
            if kept is not None and slides(guard, kept):
                self._add(part, WINDOW)
        elif isinstance(part, ast.Call):
            last = dotted(part.func).rpartition(".")[2]
            if last in _TRIMS:
                self._add(part, WINDOW, minor=True)
            elif last == "deque" and any(word.arg == "maxlen" for word in part.keywords):
                self._add(part, WINDOW)
        elif isinstance(part, ast.ListComp | ast.GeneratorExp):
            number = number_of_message(part.generators[0].target, part.generators[0].iter)
            choice = part.elt if isinstance(part.elt, ast.IfExp) else None
            if number and choice is not None and self._is_old(code, choice.test, number):
                self._add(choice.test, CUT_SHORT)

    def _in_order_of_arrival(self, tools: set[_Key]) -> None:
        """Tools that tasks add to one list, which run side by side: each adds its own when it is done."""
        sent = {name for _, name in tools}
        for code in self._codes:
            names = {
                one.attr if isinstance(one, ast.Attribute) else one.id
                for call in code.together
                for one in ast.walk(call)
                if isinstance(one, ast.Name | ast.Attribute)
            }
            for task in (self._functions[name] for name in names if name in self._functions):
                if any(isinstance(one, ast.Await) for one in ast.walk(task.node)):
                    self._added_by(task, sent)

    def _added_by(self, task: _Code, sent: set[str]) -> None:
        own = _assigned(task)
        for call in _own_calls(task.node):
            target = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            if target in sent and target not in own and getattr(call.func, "attr", "") in _ADDS:
                self._add(call.func, order_kind("tools"), "` in tasks that run side by side", order=True)

    def _add(
        self,
        node: ast.expr | ast.stmt,
        kind: DifferenceKind,
        words: str = "`",
        *,
        minor: bool = False,
        order: bool = False,
    ) -> None:
        start, stop = self._source.span(node)
        written = " ".join(self._source.text[start:stop].split())
        shown = written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"
        spot = self._source.spot(start, stop)
        hole = Hole(spot, kind, f"`{shown}{words}", certain=True, clock=order, order=order, minor=minor, leads=True)
        self._found[id(node)] = hole


def _sent(call: ast.Call, keywords: Collection[str]) -> Iterator[ast.expr]:
    """The messages that a call sends, or what else it gets under keywords."""
    for word in call.keywords:
        if word.arg in keywords:
            yield word.value
        elif word.arg is None:
            yield from _in_mapping(word.value, keywords)
    for one in call.args:
        yield from _in_mapping(one, keywords)
        if keywords is not TURNS:
            continue
        if isinstance(one, ast.List | ast.BinOp | ast.Call) or holds_turns(dotted(one) or _sliced(one)):
            yield one


def _sliced(node: ast.expr) -> str:
    return dotted(node.value) if isinstance(node, ast.Subscript) else ""


def _in_mapping(node: ast.expr, keywords: Collection[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in keywords:
                yield value


def _messages_in(node: ast.expr) -> Iterator[ast.expr]:
    """An expression for messages and its parts that are messages too; not what one message is made of."""
    waiting: list[ast.expr | None] = [node]
    while waiting:
        one = waiting.pop()
        if one is None or isinstance(one, ast.Dict | ast.JoinedStr | ast.Constant | ast.Lambda):
            continue
        yield one
        if isinstance(one, ast.Call):
            waiting += [*one.args, *(word.value for word in one.keywords)]
            waiting.append(one.func.value if isinstance(one.func, ast.Attribute) else None)
        elif isinstance(one, ast.List | ast.Tuple):
            waiting += one.elts
        elif isinstance(one, ast.Starred | ast.Await | ast.NamedExpr | ast.Subscript | ast.Attribute):
            waiting.append(one.value)
        elif isinstance(one, ast.BinOp):
            waiting += [one.left, one.right]
        elif isinstance(one, ast.BoolOp):
            waiting += one.values
        elif isinstance(one, ast.IfExp):
            waiting += [one.body, one.orelse]
        elif isinstance(one, ast.ListComp | ast.GeneratorExp):
            waiting += [generator.iter for generator in one.generators]


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without those of statements in it."""
    for _, value in ast.iter_fields(statement):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.expr):
                yield one


def _own_calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def _assigned(code: _Code) -> set[str]:
    """The names that a function assigns itself, without those that it only adds to."""
    return {
        dotted(target)
        for one in ast.walk(code.node)
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
    }


def _filled(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The lists that a loop adds to, and what it goes over: what of them is sent was changed."""
    names = {
        dotted(call.func.value)
        for call in _own_calls(loop)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDS
    }
    return names | ({first_argument(loop.iter)} if isinstance(loop.iter, ast.Call) else set())
