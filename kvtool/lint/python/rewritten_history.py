"""Code that changes what was sent before: a history that is cut, old messages that are shortened, tools in order of arrival.

What a call sends to a model is followed backwards: through the names, attributes and functions of the file that its messages
are made of. On that way only, a slice is one of the history. A function of another file is followed from what it returns.
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
    latest_kept,
    makes_message,
    number_of_message,
    slides,
)
from kvtool.lint.python.python_source import PythonSource
from kvtool.lint.python.syntax import dotted, names_in
from kvtool.lint.python.value_origins import TURNS, holds_turns, is_request_body
from kvtool.lint.skeleton import Hole

_CUTS = (
    *(".pop(0)", ".pop(1)", "popleft(", "maxlen=", ".shift()", ".splice(", "trim_messages", "trimMessages", " del "),
    *("insert(0", "unshift(", "appendleft(", "reverse", "::-1]"),
)
_DISTANCES = ("[-", "[:-", "slice(-", "[len(", ".length -", ") - ")
_OF_TURNS = re.compile(
    r"(?:istory|ontext|onversation|hat|ranscript|ialogue|emory|hread|urns|essages)\s?"
    r"(?:\[\s?:?\s?-|\[len\(|\.slice\(\s?-|\.length -|\) - )"
)
"""A distance from the end of what is named as a conversation."""


def _may_rewrite(text: str) -> bool:
    """Return whether a file has the words of any of this: most have none, and are read no further."""
    if any(mark in text for mark in _DISTANCES) and _OF_TURNS.search(text):
        return True
    beside = ("gather(" in text or "Promise.all" in text) and "ools" in text
    return beside or any(mark in text for mark in _CUTS)


_TOOLS = frozenset(("tools", "functions"))
_ADDS = {"append": 1, "extend": 1, "insert": 2, "appendleft": 1, "update": 1}
"""Methods that add something to a collection, and how many arguments they take."""
_DROPS = frozenset(("popleft", "shift"))
_TRIMS = frozenset(("trim_messages", "trimMessages"))
_LONGEST = 60
_MOST_BASES = 4
_MOST = 4_000
"""Expressions that are followed."""


_Loop = ast.For | ast.AsyncFor | ast.While
_Guarded = tuple[ast.expr, ast.expr | None]
"""An expression, and the condition under which it is reached."""


@dataclass(slots=True, eq=False)
class _Code:
    """One function, or the module outside of its functions: what it binds, calls and returns."""

    node: ast.AST
    outer: _Code | None = None
    cls: str = ""
    bound: set[str] = field(default_factory=set)
    """Names that it assigns itself, without those that it only adds to."""
    positional: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    """Its parameters: in order, without the object of a method, and those that need a keyword."""
    returned: list[_Guarded] = field(default_factory=list)
    sent: list[tuple[ast.Call | ast.Dict, ast.expr | None]] = field(default_factory=list)
    """Calls that ask a model, and bodies of requests."""
    together: list[ast.Call] = field(default_factory=list)
    """Calls that run tasks side by side."""
    drops: list[tuple[str, ast.expr | ast.stmt]] = field(default_factory=list)
    """Statements that take the first elements of a list away, with its name."""
    of_old: set[int] = field(default_factory=set)
    """The identities of conditions under which a message far from the end becomes another one."""


_Key = tuple[object, str]
"""A name, with the function that binds it; an attribute of an object with its class."""


class RewrittenHistory:
    """Finds in one file what changes messages that were sent, as holes that the whole rest of a conversation follows.

    `cuts_elsewhere` says of the name of an imported function whether what it returns is a history that it cuts.
    """

    def __init__(self, source: PythonSource, cuts_elsewhere: Callable[[str], bool]) -> None:
        self._source = source
        self._cuts_elsewhere = cuts_elsewhere
        self._functions: dict[str, list[_Code]] = {}
        self._bases: dict[str, str] = {}
        """The first class that each class of the file is made of."""
        self._codes: list[_Code] = []
        self._assigned: list[tuple[_Code, str, _Guarded]] = []
        self._made: dict[_Key, list[tuple[_Code, _Guarded]]] = {}
        """What each name is made of, and in which function."""
        self._loops: list[tuple[_Code, _Loop]] = []
        self._sites: dict[str, list[tuple[_Code, ast.Call, ast.expr | None]]] = {}
        """Calls by the last name of what they call."""
        self._repeats: set[int] = set()
        """The identities of conditions of loops, which say nothing of when a slice cuts: it needs no second time."""
        self._found: dict[int, Hole] = {}

    def holes(self) -> list[Hole]:
        """Return what was found, by place; nothing where the file has none of the words that it takes."""
        text = self._source.text
        if ("essages" not in text and "istory" not in text) or not (_may_rewrite(text) or "import" in text):
            return []
        self._read_all()
        self._judge_all(self._sent(TURNS))
        if any(code.together for code in self._codes):
            tools = self._follow(self._sent(_TOOLS), lambda *_: None)
            self._in_order_of_arrival({key for key in tools if not any(map(_sorts, self._values_of(key)))})
        return sorted(self._found.values(), key=lambda hole: (hole.spot.line, hole.spot.column))

    def cuts(self, function: ast.AST) -> bool:
        """Return whether a function of the file returns a history that it cuts itself."""
        if not _may_rewrite(self._source.text):
            return False
        self._read_all()
        before, self._found = self._found, {}
        returned = [(code, one) for code in self._codes if code.node is function for one in code.returned]
        self._judge_all(returned, callers=False)
        found, self._found = self._found, before
        return any(hole.kind is WINDOW for hole in found.values())

    def _read_all(self) -> None:
        if self._codes:
            return
        self._read(_Code(self._source.tree), self._source.tree.body)
        for code, name, value in self._assigned:
            self._made.setdefault(self._key(code, name), []).append((code, value))
        for code, loop in self._loops:
            self._loop(code, loop)

    def _sent(self, keywords: Collection[str]) -> list[tuple[_Code, _Guarded]]:
        """Return what calls send under keywords."""
        return [
            (code, (one, guard)) for code in self._codes for call, guard in code.sent for one in _sent(call, keywords)
        ]

    def _follow(
        self,
        waiting: list[tuple[_Code, _Guarded]],
        judge: Callable[[_Code, ast.expr, ast.expr | None], None],
        *,
        callers: bool = True,
    ) -> set[_Key]:
        """Return the names that lead to some expressions; `judge` gets each part of these, and of what callers give for it."""
        followed: set[int] = set()
        names: set[_Key] = set()
        while waiting and len(followed) < _MOST:
            code, (expression, guard) = waiting.pop()
            if id(expression) in followed:
                continue
            followed.add(id(expression))
            for part in _messages_in(expression):
                judge(code, part, guard)
                waiting += self._made_of(code, part, names, callers=callers)
        return names

    def _judge_all(self, waiting: list[tuple[_Code, _Guarded]], *, callers: bool = True) -> None:
        """Add what cuts or shortens the history that these expressions lead to."""
        names = self._follow(waiting, self._judge, callers=callers)
        for code in self._codes:
            for name, node in code.drops:
                if self._key(code, name) in names:
                    self._add(node, WINDOW)

    # Reading

    def _read(self, code: _Code, body: list[ast.stmt]) -> None:
        self._codes.append(code)
        if isinstance(code.node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._functions.setdefault(code.node.name, []).append(code)
            given = code.node.args
            code.positional = [one.arg for one in (*given.posonlyargs, *given.args)]
            if code.cls and code.positional[:1] in (["self"], ["cls"]):
                code.positional.pop(0)
            code.named = {*code.positional, *(one.arg for one in given.kwonlyargs)}
        self._statements(code, body, None)

    def _statements_of(self, code: _Code, cls: ast.ClassDef) -> None:
        self._bases[cls.name] = next((dotted(base) for base in cls.bases), "")
        for statement in cls.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read(_Code(statement, code, cls.name), statement.body)
            else:
                self._statements(code, [statement], None)

    def _statements(self, code: _Code, body: list[ast.stmt], guard: ast.expr | None) -> None:
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read(_Code(statement, code, code.cls), statement.body)
                continue
            if isinstance(statement, ast.ClassDef):
                self._statements_of(code, statement)
                continue
            inside = statement.test if isinstance(statement, ast.If | ast.While) else guard
            if isinstance(statement, ast.While):
                self._repeats.add(id(statement.test))
                self._loops.append((code, statement))
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
                elif isinstance(node, ast.Dict) and is_request_body(getattr(key, "value", None) for key in node.keys):
                    code.sent.append((node, guard))
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._bind(code, target, (statement.value, guard))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._bind(code, statement.target, (statement.value, guard))
        elif isinstance(statement, ast.AugAssign):
            self._make(code, dotted(statement.target), (statement.value, guard))
        elif isinstance(statement, ast.For | ast.AsyncFor):
            code.bound |= names_in(statement.target)
            self._loops.append((code, statement))
        elif isinstance(statement, ast.Return) and statement.value is not None:
            code.returned.append((statement.value, guard))
        elif isinstance(statement, ast.Delete):
            for target in statement.targets:
                if isinstance(target, ast.Subscript) and is_front(target.slice) and is_limit(guard):
                    code.drops.append((dotted(target.value), statement))

    def _bind(self, code: _Code, target: ast.expr, value: _Guarded) -> None:
        if isinstance(target, ast.Name):
            code.bound.add(target.id)
        elif isinstance(target, ast.Subscript) and not dotted(target):
            target = target.value  # an element of it
        self._make(code, dotted(target), value)

    def _make(self, code: _Code, name: str, value: _Guarded) -> None:
        if name:
            self._assigned.append((code, name, value))

    def _call(self, code: _Code, node: ast.Call, guard: ast.expr | None) -> None:
        name = dotted(node.func)
        self._sites.setdefault(_last_name(node), []).append((code, node, guard))
        if call_sends(name or getattr(node.func, "attr", "")) is Evidence.ASKED:
            code.sent.append((node, guard))
        elif name.rpartition(".")[2] == "gather":
            code.together.append(node)
        if not isinstance(node.func, ast.Attribute):
            return
        base, method = dotted(node.func.value), node.func.attr
        if _sorts(node):
            self._make(code, base, (node, guard))
        if added := _added(node):
            self._make(code, added, (node.args[-1], guard))
        first = node.args[0] if node.args else None
        front = method in _DROPS or (method in ("pop", "splice") and first is not None and is_front(first))
        if front and base and is_limit(guard) and not (method == "splice" and len(node.args) != 2):
            code.drops.append((base, node))

    def _loop(self, code: _Code, loop: _Loop) -> None:
        """A loop that keeps the latest messages up to a limit, or makes others of those far from the end, by their number."""
        code.drops += latest_kept(loop)
        if isinstance(loop, ast.While):
            return
        number = number_of_message(loop.target, loop.iter)
        over = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        if isinstance(over, ast.Subscript) and is_all_but_latest(over) and makes_message(loop.body):
            code.of_old.add(id(over))
            self._made.setdefault(self._key(code, dotted(over.value)), []).append((code, (over, None)))
        if not number:
            return
        for one in ast.walk(loop):
            if isinstance(one, ast.If) and self._is_old(code, one.test, number) and makes_message(one.body):
                code.of_old.add(id(one.test))
                for name in _filled(loop):
                    self._made.setdefault(self._key(code, name), []).append((code, (one.test, None)))

    def _is_old(self, code: _Code, test: ast.expr, number: str) -> bool:
        """Return whether a condition compares the number of a message with a distance from the end."""
        for one in ast.walk(test):
            if not isinstance(one, ast.Compare) or number not in {
                dotted(side) for side in (one.left, *one.comparators)
            }:
                continue
            for side in (one.left, *one.comparators):
                values = [side, *self._values_of(self._key(code, dotted(side)))]
                if any(is_distance(value) for value in values):
                    return True
        return False

    # Following

    def _made_of(
        self, code: _Code, part: ast.expr, names: set[_Key], *, callers: bool
    ) -> Iterator[tuple[_Code, _Guarded]]:
        """What a part of the messages is made of: what its name was assigned, and what its function returns."""
        if isinstance(part, ast.Call):
            function = self._function(code, dotted(part.func) or _last_name(part))
            for one in function.returned if function is not None else ():
                assert function is not None
                yield function, one
            return
        name = dotted(part)
        if not name:
            return
        key = self._key(code, name)
        names.add(key)
        yield from self._made.get(key, ())
        home, attribute = key[0], name.partition(".")[2]
        if callers and isinstance(home, _Code) and (parameter := name.partition(".")[0]) in home.named:
            for site, given in self._given(home, parameter):
                yield from ((site, (one, None)) for one in (_part_of(given, attribute) if attribute else [given]))

    def _values_of(self, key: _Key) -> Iterator[ast.expr]:
        return (value for _, (value, _) in self._made.get(key, ()))

    def _key(self, code: _Code, name: str) -> _Key:
        """Return a name with the function that binds it, or the attribute with the class where it was written first."""
        root = name.partition(".")[0]
        if name.startswith("self."):
            cls = code.cls
            for _ in range(_MOST_BASES):
                cls = base if (base := self._bases.get(cls, "")) in self._bases else cls
            return cls, name
        home = code
        while root not in home.bound and root not in home.named and home.outer is not None:
            home = home.outer
        return home, name

    def _function(self, code: _Code, name: str) -> _Code | None:
        """Return the one function of the file that a name means; None where it may be one of several."""
        found = self._functions.get(name.rpartition(".")[2], [])
        own = [one for one in found if one.cls == code.cls] if name.startswith("self.") else found
        return own[0] if len(own) == 1 else None

    def _given(self, code: _Code, parameter: str) -> Iterator[tuple[_Code, ast.expr]]:
        """Yield what calls in the file give a function for a parameter, or the call with the parts of it as keywords."""
        assert isinstance(code.node, ast.FunctionDef | ast.AsyncFunctionDef)
        for site, call, _ in self._sites.get(code.node.name, ()):
            if self._function(site, dotted(call.func) or code.node.name) is not code:
                continue
            number = code.positional.index(parameter) if parameter in code.positional else len(call.args)
            words = (word.value for word in call.keywords if word.arg == parameter)
            given = call.args[number] if number < len(call.args) else next(words, call)
            if given is not call or code.positional[-1:] == [parameter]:
                yield site, given

    def _judge(self, code: _Code, part: ast.expr, guard: ast.expr | None) -> None:
        if id(part) in code.of_old:
            self._add(part, CUT_SHORT)
        elif isinstance(part, ast.Subscript) and holds_turns(dotted(part.value)):
            kept = kept_of(part.slice)
            if kept is not None and slides(None if id(guard) in self._repeats else guard, kept):
                self._add(part, WINDOW)
        elif isinstance(part, ast.Call):
            last = dotted(part.func).rpartition(".")[2]
            if last in _TRIMS:
                self._add(part, WINDOW, minor=True)
            elif (last == "deque" and any(word.arg == "maxlen" for word in part.keywords)) or (
                self._function(code, dotted(part.func)) is None and self._cuts_elsewhere(dotted(part.func))
            ):
                self._add(part, WINDOW)
        elif isinstance(part, ast.ListComp | ast.GeneratorExp):
            number = number_of_message(part.generators[0].target, part.generators[0].iter)
            choice = part.elt if isinstance(part.elt, ast.IfExp) else None
            if number and choice is not None and self._is_old(code, choice.test, number):
                self._add(choice.test, CUT_SHORT)

    def _in_order_of_arrival(self, tools: set[_Key]) -> None:
        """Tools that tasks add to one list, which run side by side: each adds its own when it is done."""
        for code in self._codes:
            names = {
                one.attr if isinstance(one, ast.Attribute) else one.id
                for call in code.together
                for one in ast.walk(call)
                if isinstance(one, ast.Name | ast.Attribute)
            }
            for task in filter(None, (self._function(code, name) for name in names)):
                if any(isinstance(one, ast.Await) for one in ast.walk(task.node)):
                    self._added_by(task, tools)

    def _added_by(self, task: _Code, tools: set[_Key]) -> None:
        added = [(_added(call), call.func) for call in _own_calls(task.node)]
        assigned = (one for node in ast.walk(task.node) if isinstance(node, ast.Assign) for one in node.targets)
        added += [(dotted(one.value), one) for one in assigned if isinstance(one, ast.Subscript) and not dotted(one)]
        for called, place in added:
            home, name = self._key(task, called)
            given = self._given(task, name) if home is task and name in task.named else ()
            keys = [self._key(site, dotted(one)) for site, one in given] if home is task else [(home, name)]
            if name and not tools.isdisjoint(keys):
                self._add(place, order_kind("tools"), "` in tasks that run side by side", order=True)

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


def _sent(call: ast.Call | ast.Dict, keywords: Collection[str]) -> Iterator[ast.expr]:
    """The messages that a call or a body sends, or what else it gets under keywords."""
    if isinstance(call, ast.Dict):
        yield from _in_mapping(call, keywords)
        return
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
        if one is None or _sorts(one) or isinstance(one, ast.Dict | ast.JoinedStr | ast.Constant | ast.Lambda):
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


def _sorts(node: ast.expr) -> bool:
    """Return whether it puts a list into an order of its own, whatever it was in before."""
    return isinstance(node, ast.Call) and _last_name(node) in ("sort", "sorted")


def _last_name(call: ast.Call) -> str:
    return dotted(call.func).rpartition(".")[2] or getattr(call.func, "attr", "")


def _added(call: ast.Call) -> str:
    """Return the name of the collection that a call adds to; empty for any other call."""
    if dotted(call.func) == "Object.assign" and len(call.args) > 1:
        return dotted(call.args[0])
    function = call.func
    takes = _ADDS.get(function.attr) if isinstance(function, ast.Attribute) else None
    return dotted(function.value) if isinstance(function, ast.Attribute) and takes == len(call.args) else ""


def _part_of(given: ast.expr, attribute: str) -> Iterator[ast.expr]:
    """Yield what an attribute of an argument is, where the argument is written in place, or its parts as keywords."""
    yield from _in_mapping(given, (attribute,))
    if isinstance(given, ast.Call):
        yield from (word.value for word in given.keywords if word.arg == attribute)
    elif dotted(given):
        yield ast.copy_location(ast.Attribute(given, attribute, ast.Load()), given)


def _filled(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The lists that a loop adds to, and what it goes over: what of them is sent was changed."""
    names = {added for call in _own_calls(loop) if (added := _added(call))}
    return names | ({first_argument(loop.iter)} if isinstance(loop.iter, ast.Call) else set())
