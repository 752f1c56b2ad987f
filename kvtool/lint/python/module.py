"""A module: its functions, classes, imports and constants as they are written.

Why `ast` with resolution of our own: to parse 200,000 lines, in CPU seconds, one after the other in one run, `ast` needs 1.4,
libcst 14.5 and astroid 17.7; inference by astroid or jedi comes on top of that. Texts with what varies in them have to be
followed here either way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvtool.lint.python.python_source import PythonSource

_GROWING = frozenset(("append", "extend", "insert", "appendleft", "add", "update", "write"))
"""Methods that add something to a collection or a text."""


@dataclass(slots=True, eq=False)
class FunctionCode:
    """A function or method as it is written."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    cls: ClassCode | None = None

    @property
    def is_property(self) -> bool:
        return any(_last(one).endswith("property") for one in self.node.decorator_list)

    @property
    def is_setup(self) -> bool:
        """Return whether Python calls it where an object is made."""
        return self.node.name.startswith("__") or self.is_property

    def parameters(self) -> list[str]:
        """Names in the order of positional arguments, then those that need a keyword; without `self` of a method."""
        arguments = self.node.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        static = any(_last(one) == "staticmethod" for one in self.node.decorator_list)
        if self.cls is not None and names and not static:
            names = names[1:]
        return names + [one.arg for one in arguments.kwonlyargs]


_DATA_CLASSES = frozenset(("dataclass", "BaseModel", "NamedTuple", "TypedDict", "define", "frozen", "Struct"))
"""What makes a class one whose objects hold data, by its last name."""
_SET_UP_NAME = re.compile(r"Config|Setting|Option|Template|Agent|Tools?$|Client|Model$|Persona|Params$")
"""What a program is set up with, by the name of a class."""


@dataclass(slots=True, eq=False)
class ClassCode:
    """A class as it is written; `written`: the methods that change an attribute; `grown`: attributes that grow bit by bit."""

    node: ast.ClassDef
    methods: dict[str, FunctionCode] = field(default_factory=dict)
    written: dict[str, list[FunctionCode]] = field(default_factory=dict)
    grown: set[str] = field(default_factory=set)

    @property
    def is_set_up(self) -> bool:
        """Return whether its name says that a program is set up with its objects."""
        return _SET_UP_NAME.search(self.node.name) is not None

    @property
    def holds_data(self) -> bool:
        """Return whether it is written as a class whose objects hold data, one set of it each."""
        marks = [one.func if isinstance(one, ast.Call) else one for one in self.node.decorator_list]
        names = {_last(one.value if isinstance(one, ast.Subscript) else one) for one in (*marks, *self.node.bases)}
        return not _DATA_CLASSES.isdisjoint(names)

    def read(self) -> None:
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                function = FunctionCode(statement, self)
                self.methods.setdefault(statement.name, function)
                assigned, grown = _attributes(statement)
                for name in assigned | grown:
                    self.written.setdefault(name, []).append(function)
                self.grown |= grown


@dataclass(frozen=True, slots=True)
class Imported:
    """The origin of a name: a dotted module (leading dots for a relative one), and a name in it (may be empty)."""

    module: str
    name: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


class Module:
    """A file, with what its names mean; nothing of it is evaluated here."""

    def __init__(self, path: str, source: PythonSource) -> None:
        self.path = path
        self.source = source
        self.functions: dict[str, FunctionCode] = {}
        self.classes: dict[str, ClassCode] = {}
        self.imports: dict[str, Imported] = {}
        self.assigned: set[str] = set()
        for statement in _top(source.tree.body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = FunctionCode(statement)
            elif isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = ClassCode(statement)
                self.classes[statement.name].read()
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports |= imported(statement)
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                self.assigned |= set(names)
                if isinstance(statement.value, ast.Lambda) and names:
                    self.functions[names[0]] = FunctionCode(_as_function(names[0], statement.value))

    def has(self, name: str) -> bool:
        """Return whether it defines, assigns or imports a name by itself."""
        return any(name in names for names in (self.functions, self.classes, self.imports, self.assigned))


def imported(statement: ast.Import | ast.ImportFrom) -> dict[str, Imported]:
    """The names that a statement imports."""
    if isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        return {
            alias.asname or (f"*{module}" if alias.name == "*" else alias.name): Imported(module, alias.name)
            for alias in statement.names
        }
    return {
        alias.asname or alias.name.partition(".")[0]: Imported(
            alias.name if alias.asname else alias.name.partition(".")[0], ""
        )
        for alias in statement.names
    }


def _as_function(name: str, node: ast.Lambda) -> ast.FunctionDef:
    """A lambda that has a name as the function that it is."""
    body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
    return ast.copy_location(ast.FunctionDef(name, node.args, body, []), node)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in its conditions and attempts too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _top(statement.body)
            yield from _top(getattr(statement, "orelse", []))
            for handler in getattr(statement, "handlers", []):
                yield from _top(handler.body)


def _attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[set[str], set[str]]:
    """The attributes of its own object that a method assigns, and those that it adds something to."""
    assigned: set[str] = set()
    grown: set[str] = set()
    waiting: list[ast.stmt] = list(function.body)
    while waiting:
        statement = waiting.pop()
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        elif isinstance(statement, ast.AugAssign):
            grown |= _own(statement.target)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            grown |= _own(called.value) if isinstance(called, ast.Attribute) and called.attr in _GROWING else set()
        for target in targets:
            if isinstance(target, ast.Subscript):
                grown |= _own(target.value)
            assigned |= _own(target)
        for name in ("body", "orelse", "finalbody"):
            waiting += getattr(statement, name, ())
        for handler in getattr(statement, "handlers", ()):
            waiting += handler.body
    return assigned, grown


def _own(node: ast.expr) -> set[str]:
    """The name of an attribute of a method's own object; nothing for anything else."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return {node.attr} if own and isinstance(node, ast.Attribute) else set()


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
