"""Statements of a function, class body or module, in the order of the file, and the values that they give to names."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.lint.evidence.prompt_evidence import (
    Evidence,
    is_example_name,
    is_prompt_decorator,
    is_prompt_name,
    is_system_name,
    is_template_name,
)
from kvtool.lint.evidence.volatile_calls import of_unknown, unordered
from kvtool.lint.passed_values import Constant
from kvtool.lint.python.changed_values import backwards, changed
from kvtool.lint.python.control_flow import Flow
from kvtool.lint.python.filled_templates import filled_text
from kvtool.lint.python.module import FunctionCode, imported
from kvtool.lint.python.name_values import Summary
from kvtool.lint.python.stored_values import steady_names
from kvtool.lint.python.syntax import dotted, names_in
from kvtool.lint.python.text_values import (
    MOST_PIECES,
    Callee,
    FilePath,
    Items,
    Literal,
    Mapped,
    Param,
    Value,
    either,
)
from kvtool.lint.python.varying_texts import without_holes
from kvtool.lint.skeleton import Hole

_SET_TYPES = frozenset(("set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet"))
_MOST_YIELDS = 40
_ADDS_ONE = frozenset(("append", "appendleft", "insert"))
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _holds_texts(value: Value) -> bool:
    """Return whether it is a list that written texts are in."""
    return any(
        isinstance(part, Literal | str)
        for piece in value
        if isinstance(piece, Items)
        for one in piece.values
        for part in one
    )


class PythonStatements(Flow):
    """The statements of one function, class body or module, in the order of the file."""

    stored: frozenset[str] = frozenset()
    """Names of values that the function stores where it looks for them first: they are the same from call to call."""

    def read_function(self, function: FunctionCode) -> Summary:
        """Read a function's body, and say what it gives."""
        stored, self.listed = steady_names(function.node.body)
        self._returns: list[Value] = []
        self._yields: list[Value] = []
        self._returned: list[ast.expr | None] = []
        self.in_function = True
        self.asks_for = bool(function.parameters())
        self._parameters(function)
        if any(is_prompt_decorator(dotted(getattr(one, "func", one))) for one in function.node.decorator_list):
            self._says = Evidence.ASKED
        self.stored = stored
        self.run(function.node.body)
        value = either(*self._returns[:8]) if self._returns else ()
        if self._yields:
            value = (Items(tuple(self._yields[:_MOST_YIELDS])),)  # one behind the other
        attributes = {name: one for name, one in self.values.items() if name.startswith("self.")}
        sinks = tuple((without_holes(one), evidence) for one, evidence in self.sinks)
        return Summary(value, sinks, attributes, tuple(self.renders), tuple(self.chats), self._returned_constant())

    def _returned_constant(self) -> Constant | None:
        """Return the first of the constants that the function returns; None where it returns anything else, too."""
        values = [one.value if isinstance(one, ast.Constant) else None for one in self._returned]
        constants = [one for one in values if isinstance(one, str | int | float)]
        return constants[0] if constants and len(constants) == len(values) else None

    def _parameters(self, function: FunctionCode) -> None:
        arguments = function.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([one.arg for one in positional[::-1]], arguments.defaults[::-1], strict=False))
        defaults |= {
            one.arg: value
            for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if value is not None
        }
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.arg in ("self", "cls"):
                continue
            spot = self.source.spot(*self.source.span(one))
            types = (
                {
                    node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
                    for node in ast.walk(one.annotation)
                }
                if one.annotation
                else set()
            )
            if types & _SET_TYPES:
                order = unordered("set", one.arg, spot)
                self.values[one.arg] = (Items((), order and of_unknown(order)),)
                continue
            default = self.as_text(self.value_of(defaults[one.arg]), one) if one.arg in defaults else ()
            hole = default[0] if len(default) == 1 and isinstance(default[0], Hole) else self.by_name(one.arg, spot)
            hole = None if hole is not None and hole.doubt and one.arg in self.listed else hole
            if hole is not None:
                self.program.declared.add(spot)
            template = default if hole is None and filled_text(default) else ()
            told = None if hole is None else replace(hole, spot=spot)
            self.values[one.arg] = (Param(one.arg, told, template, one.annotation),)
        self.keywords_name = arguments.kwarg.arg if arguments.kwarg is not None else ""

    def run(self, body: Iterable[ast.stmt]) -> None:
        """Read statements; at the end of those of a whole function or module its names are reported."""
        self._body(body)
        for name, forwards in list(self.values.items()):
            value = backwards(forwards) if name in self.turned else forwards
            kept = name.startswith("self.") and is_template_name(name)
            if name not in self.unread or not self.in_function or is_prompt_name(name) or kept:
                self.reported_as(name, value)  # what nobody reads goes to files or to people

    def _body(self, body: Iterable[ast.stmt]) -> bool:
        """Return whether what is after is still reached."""
        for statement in body:
            self.known.clear()
            method = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            else:
                self._inner(statement)
            if isinstance(statement, _ENDS):
                return False
        return True

    def _inner(self, statement: ast.stmt) -> None:
        """The bodies of any other statement, one after the other."""
        for name in ("body", "orelse", "finalbody"):
            self._body(getattr(statement, name, ()))

    def _do_functiondef(self, statement: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if (
            self.module.functions.get(statement.name, None) is not None
            and self.module.functions[statement.name].node is statement
        ):
            return
        if self.values or any(self.outer):
            function = FunctionCode(statement)
            summary = self.program.nested(function, self)
            self.sinks += summary.sinks[:5]
            self.values[statement.name] = (Callee(function),)

    _do_asyncfunctiondef = _do_functiondef

    def _do_import(self, statement: ast.Import | ast.ImportFrom) -> None:
        self.imports |= imported(statement)

    _do_importfrom = _do_import

    def _passed_over(self, _: ast.stmt) -> None:
        """Skip a statement: `raise` and `assert` are for people, and classes within functions are not followed."""

    _do_raise = _passed_over
    _do_assert = _passed_over
    _do_classdef = _passed_over

    def _do_assign(self, statement: ast.Assign) -> None:
        if isinstance(statement.value, ast.Lambda) and self._is_known_function(statement.targets[0], statement.value):
            return
        value = self._assigned(statement.targets[0], statement.value)
        if any(isinstance(target, ast.Name) and target.id.startswith("__") for target in statement.targets):
            return  # a docstring, and what else Python reads itself
        for target in statement.targets:
            self.assign(target, value, statement.value)

    def _do_annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.assign(statement.target, self._assigned(statement.target, statement.value), statement.value)

    def _is_known_function(self, target: ast.expr, node: ast.Lambda) -> bool:
        """Return whether a lambda is read as a function of the module."""
        function = self.module.functions.get(dotted(target))
        return function is not None and function.node.args is node.args

    def _assigned(self, target: ast.expr, node: ast.expr) -> Value:
        """Return an assigned value; one that is an example by its name is no prompt by itself, and its placeholders are shown."""
        name = dotted(target)
        if not is_example_name(name):
            before = self.naming, self.subject
            self.naming = isinstance(node, ast.Call) and is_system_name(name)
            self.subject = name if not self.in_function else ""
            value = self.value_of(node)
            self.naming, self.subject = before
            return value
        silent, self._silent = self._silent, True
        value = self.value_of(node)
        self._silent = silent
        return changed(value, lambda piece: (replace(piece, shown=True),) if isinstance(piece, Literal) else None)

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        name = dotted(statement.target)
        value = self.value_of(statement.value)
        if self._counts(name, statement):
            self._set(name, (Hole(self.source.spot_of(statement.target), COUNTER, f"`{name}`", certain=True),))
            return
        if isinstance(statement.op, ast.Add) and name:
            before = self.values.get(name)
            if before is None:
                before = self.variable(statement.target, name)
            if any(isinstance(piece, str | Literal) for piece in before):
                value = self.text_beside_value(statement.value, value)
            value = self.goes_on(statement.value, value, before)
            self._set(name, self.added([before, value]))

    def _counts(self, name: str, statement: ast.AugAssign) -> bool:
        """Return whether it counts in a name that keeps its value from call to call: an attribute or a global name."""
        kept = name.startswith("self.") or name in self.globals
        number = isinstance(statement.value, ast.Constant) and type(statement.value.value) is int
        return kept and number and isinstance(statement.op, ast.Add | ast.Sub)

    def _do_global(self, statement: ast.Global) -> None:
        self.globals |= set(statement.names)

    def _do_return(self, statement: ast.Return) -> None:
        if hasattr(self, "_returned"):
            self._returned.append(statement.value)
        if statement.value is None:
            return
        value = self._as_named(self.value_of(statement.value))
        self.returned(value)
        if hasattr(self, "_returns"):
            self._returns.append(value)

    def _do_expr(self, statement: ast.Expr) -> None:
        node = statement.value
        if isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Yield | ast.YieldFrom):
            if node.value is not None and hasattr(self, "_returns"):
                value = self.value_of(node.value)
                self.returned(value)
                if isinstance(node, ast.Yield):
                    self._yields.append(value)
                else:
                    self._returns.append((Items((value,)),))
            return
        if isinstance(node, ast.Await):
            node = node.value
        if isinstance(node, ast.Call) and (self._reorders(node) or self._grows(node)):
            return
        self.told(self.value_of(node), Evidence.NOTHING)

    def _grows(self, node: ast.Call) -> bool:
        """Return whether a call makes a list grow."""
        if not isinstance(node.func, ast.Attribute):
            return False
        method = node.func.attr
        if method == "update" and node.keywords:
            return self._updates(node, dotted(node.func.value))
        if not node.args:
            return False
        name = dotted(node.func.value)
        if method not in ("append", "extend", "write", "add", "insert", "update", "appendleft") or not name:
            return False
        known, rest = self._base(name)
        if known is None or rest:
            return False
        if method == "write" and known and all(isinstance(piece, Param | FilePath) for piece in known):
            return True  # into a file: for people, or for other programs
        added = node.args[-1] if method == "insert" else node.args[0]
        value = self.put(added) if method in _ADDS_ONE and _holds_texts(known) else self.value_of(added)
        if method == "write":
            self._set(name, self.added([known, value]))
            return True
        if method == "update" and any(isinstance(piece, Mapped) for piece in (*known, *value)):
            pairs = [pair for piece in (*known, *value) if isinstance(piece, Mapped) for pair in piece.pairs]
            self._set(name, (Mapped(tuple(pairs)),))
            return True
        if method == "extend":
            value = self.goes_on(node.args[0], value, known)
        if method not in ("extend", "update"):
            value = (Items((value,)),)
        elif not any(isinstance(piece, Items) for piece in value):
            value = (Items((value,)),) if value else ()
        known = self.goes_on(node.func.value, known, value) if method != "insert" else known
        first = method == "insert" and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        self._set(name, self.added([value, known] if first else [known, value]))
        return True

    def _reorders(self, node: ast.Call) -> bool:
        """Return whether a call puts a list into another order: `items.sort()`, `random.shuffle(items)`."""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method == "shuffle" and node.args:
            over = node.args[0]
        elif method == "sort" and isinstance(node.func, ast.Attribute):
            over = node.func.value
        else:
            return False
        name, spot = dotted(over), self.source.spot_of(node)
        value = self.variable(over, name) if name else ()
        if method == "shuffle" and name:
            self.values[name] = self.mixed(value, over, spot, "random.shuffle")
        elif any(isinstance(piece, Items) for piece in value):
            self.values[name] = self.in_new_order(node, over, spot)
        return True

    def _updates(self, node: ast.Call, name: str) -> bool:
        """`values.update(now=…)`."""
        known, rest = self._base(name) if name else (None, "")
        if known is None or rest:
            return False
        pairs = [pair for piece in known if isinstance(piece, Mapped) for pair in piece.pairs]
        pairs += [(word.arg, self.value_of(word.value)) for word in node.keywords if word.arg is not None]
        self._set(name, (Mapped(tuple(pairs)),))
        return True

    def _set(self, name: str, value: Value) -> None:
        if len(value) <= MOST_PIECES:
            self.values[name] = value

    def assign(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            known = next(
                (piece.values for piece in value if isinstance(piece, Items) and len(piece.values) == len(target.elts)),
                None,
            )
            for number, one in enumerate(target.elts):
                self.assign(one, known[number] if known is not None else (), node)
            return
        name = dotted(target)
        if isinstance(target, ast.Subscript):
            self.swap(target)
        if isinstance(target, ast.Subscript) and name:
            base = dotted(target.value)
            before = self.values.get(base)
            key = name.rpartition(".")[2]
            if before is not None and any(isinstance(piece, Mapped) for piece in before):
                held = [piece.pairs for piece in before if isinstance(piece, Mapped)]
                pairs = held[0] if len(held) == 1 else tuple(chain(*held))
                self._set(base, (Mapped((*pairs, (key, value))),))
        if not name:
            if not self.changes_last(target, value):
                self.told(value, Evidence.NOTHING)
            return
        if name in self.values and self.values[name] is not value and name not in self.unread:
            self.reported_as(name, self.values[name])
        self.values[name] = without_holes(value) if name in self.stored else value
        self.unread.add(name)
        if isinstance(target, ast.Name):
            self.values.forget_below(name)
        written = isinstance(node, ast.Dict) and None not in node.keys
        known_nothing = (
            not value
            and not written
            and not isinstance(node, ast.Constant | ast.List | ast.Compare | ast.JoinedStr | None)
        )
        (self.unknown.add if known_nothing else self.unknown.discard)(name)
        turned = bool(self.turns) and known_nothing and node is not None and not self.turns.isdisjoint(names_in(node))
        (self.turns.add if turned else self.turns.discard)(name)
        answer = known_nothing and node is not None and self.is_answer(node)
        (self.answers.add if answer else self.answers.discard)(name)
        given = known_nothing and node is not None and self._is_new(node)
        (self.given.add if given else self.given.discard)(name)
        (self.kept.add if known_nothing and node is not None and self.is_kept(node) else self.kept.discard)(name)

    def _is_new(self, node: ast.expr) -> bool:
        """Return whether it is made of what callers give, or is awaited: that differs in each call of the function."""
        if isinstance(node, ast.Await) and self.in_function:
            return True
        return self.is_given(node) and self.asked_of(node) is not None
