"""The modules of one program, read when something in them is asked for: names of other files, and text files beside them.

Why `ast` with resolution of our own: to parse 200,000 lines, in CPU seconds, one after the other in one run, `ast` needs 1.4,
libcst 14.5 and astroid 17.7; inference by astroid or jedi comes on top of that. Texts with what varies in them have to be
followed here either way.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.lint.python.python_source import PythonSource, python_text
from kvtool.text.files.checkout_links import leads_out
from kvtool.text.files.root_folder import RootFolder, git_root

MOST_BYTES = 4 * 1024 * 1024
_MOST_UP = 12
_MOST_HOPS = 6
_GROWING = frozenset(("append", "extend", "insert", "appendleft", "add", "update", "write"))
"""Methods that add something to a collection or a text."""
PROMPT_SUFFIXES = (".md", ".txt", ".prompt", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl")


@dataclass(slots=True, eq=False)
class FunctionCode:
    """A function or method as it is written."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    module: Module
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
    module: Module
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
                function = FunctionCode(statement, self.module, self)
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

    def __init__(self, path: str, source: PythonSource, real: str) -> None:
        self.path = path
        self.real = real
        self.folder = Path(os.path.realpath(path)).parent
        self.source = source
        self.looked: set[str] = set()
        """Paths that were looked at for it, whether a file is there or not."""
        self.functions: dict[str, FunctionCode] = {}
        self.classes: dict[str, ClassCode] = {}
        self.imports: dict[str, Imported] = {}
        self.assigned: set[str] = set()
        self.stars: list[str] = []
        """Modules of which all names are imported."""
        for statement in _top(source.tree.body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = FunctionCode(statement, self)
            elif isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = ClassCode(statement, self)
                self.classes[statement.name].read()
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                new = imported(statement)
                if "*" in new:
                    self.stars.append(new.pop("*").module)
                self.imports |= new
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                self.assigned |= set(names)
                if isinstance(statement.value, ast.Lambda) and names:
                    self.functions[names[0]] = FunctionCode(_as_function(names[0], statement.value), self)

    def has(self, name: str) -> bool:
        """Return whether it defines, assigns or imports a name by itself."""
        return any(name in names for names in (self.functions, self.classes, self.imports, self.assigned))


class PythonFiles:
    """The files of programs, each read and parsed once; what cannot be read is as if it were not there."""

    def __init__(self) -> None:
        self._modules: dict[str, Module | None] = {}
        self._roots: dict[Path, Path] = {}
        self._files: dict[str, bool] = {}
        self._names: dict[tuple[Path, str], tuple[Module | None, frozenset[str]]] = {}
        self._texts: dict[str, str] = {}
        self._looked: set[str] = set()
        self._new_uses: dict[str, set[str]] = {}

    def given(self, path: str, text: str) -> Module:
        """The module of a file that was read already; KvtoolError, with the place, where it does not parse."""
        real = os.path.realpath(path)
        module = self._modules.get(real)
        if module is None or module.path != path or module.source.text != text:
            module = Module(path, PythonSource(path, text), real)
            self._modules[real] = module
        return module

    def new_uses(self) -> dict[str, tuple[str, ...]]:
        """Return, for each file by its real path, the paths that were looked at since the last call."""
        new = {path: tuple(sorted(looked)) for path, looked in self._new_uses.items()}
        self._new_uses = {}
        return new

    def _uses(self, module: Module, paths: frozenset[str]) -> None:
        if not paths <= module.looked:
            module.looked |= paths
            self._new_uses.setdefault(module.real, set()).update(paths)

    def imported_module(self, module: Module, name: str) -> Module | None:
        """The module that a dotted name means in another one; None for one that is not part of the same program."""
        key = (module.folder, name)
        if key not in self._names:
            self._looked = set()
            found = self._imported(module.folder, name)
            self._names[key] = found, frozenset(self._looked)
        target, looked = self._names[key]
        self._uses(module, looked)
        return target

    def _imported(self, at: Path, name: str) -> Module | None:
        level = len(name) - len(name.lstrip("."))
        parts = [part for part in name[level:].split(".") if part]
        if level:
            inside = RootFolder(git_root(str(at)))
            for _ in range(level - 1):
                at = at.parent
            return self._load(at, parts) if inside.holds(at) else None
        root = self._root(at)
        if parts and parts[0] == root.name and self._is_file(root / "__init__.py"):
            return self._load(root.parent, parts)
        found = self._load(root, parts) or (self._load(at, parts) if at != root else None)
        return found or self._under_its_old_name(at, root, parts)

    def _under_its_old_name(self, at: Path, root: Path, parts: list[str]) -> Module | None:
        """A module of a package that was moved into another one: the package is a folder above, the module in it or beside."""
        if len(parts) < 2:
            return None
        above = [folder for folder in (at, *at.parents) if root in folder.parents and folder.name == parts[0]]
        return (self._load(above[0], parts[1:]) or self._load(at, parts[-1:])) if above else None

    def _load(self, folder: Path, parts: list[str]) -> Module | None:
        base = folder.joinpath(*parts)
        paths = [base / "__init__.py"]
        if parts:
            paths.insert(0, base.with_name(f"{base.name}.py"))
        for path in paths:
            if self._is_file(path):
                key = str(path)
                if key not in self._modules:
                    self._modules[key] = self._read(path)
                return self._modules[key]
        return None

    def _is_file(self, path: Path) -> bool:
        key = str(path)
        self._looked.add(key)
        if key not in self._files:
            self._files[key] = path.is_file() and not leads_out(path)
        return self._files[key]

    @staticmethod
    def _read(path: Path) -> Module | None:
        try:
            if path.stat().st_size > MOST_BYTES:
                return None
            key = str(path)
            return Module(key, PythonSource(key, python_text(path.read_bytes(), key)), key)
        except (OSError, ValueError, KvtoolError):
            return None

    def _root(self, folder: Path) -> Path:
        """The top folder of the package that a folder is a part of, else the folder."""
        if folder not in self._roots:
            root = folder
            for _ in range(_MOST_UP):
                if not (self._is_file(root / "__init__.py") and self._is_file(root.parent / "__init__.py")):
                    break
                root = root.parent
            self._roots[folder] = root
        return self._roots[folder]

    def prompt_file(self, module: Module, parts: tuple[str, ...]) -> tuple[str, str] | None:
        """Path and text of a prompt file that code reads: as far as constants say it, from the module's folder upwards."""
        name = "/".join(parts).replace("\\", "/")
        if not name.lower().endswith(PROMPT_SUFFIXES) or name.startswith("/") or ".." in name.split("/"):
            return None
        root = self._root(module.folder)
        for folder in (module.folder, *module.folder.parents):
            path = folder.joinpath(*name.split("/"))
            self._uses(module, frozenset([str(path)]))
            if self._is_file(path):
                text = self._text(path)
                return None if text is None else (str(path), text)
            if folder == root:
                break
        return None

    def _text(self, path: Path) -> str | None:
        key = str(path)
        if key not in self._texts:
            try:
                self._texts[key] = path.read_text(encoding="utf-8") if path.stat().st_size <= MOST_BYTES else ""
            except (OSError, ValueError):
                self._texts[key] = ""
        return self._texts[key] or None

    def find(self, module: Module, name: str) -> tuple[Module, str] | None:
        """Find the module that defines a name, through imports."""
        for _ in range(_MOST_HOPS):
            if module.stars and not module.has(name) and (source := self._of_stars(module, name)) is not None:
                module = source
                continue
            if name in module.functions or name in module.classes or name not in module.imports:
                return module, name
            origin = module.imports[name]
            if not origin.name:
                return None
            below = self.imported_module(module, _below(origin.module, origin.name))
            if below is not None:
                return None
            target = self.imported_module(module, origin.module)
            if target is None or target is module:
                return None
            module, name = target, origin.name
        return None

    def _of_stars(self, module: Module, name: str) -> Module | None:
        """The module that a name comes from where all names of some modules are imported."""
        for star in module.stars[-_MOST_HOPS:][::-1]:
            target = self.imported_module(module, star)
            if target is not None and target is not module and (target.has(name) or target.stars):
                return target
        return None

    def module_of(self, module: Module, name: str) -> Module | None:
        """The module that a name of a module means: `from . import prompts`, `import pkg.prompts as p`."""
        origin = module.imports.get(name)
        if origin is None:
            return None
        return self.imported_module(module, _below(origin.module, origin.name) if origin.name else origin.module)


def _below(module: str, name: str) -> str:
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


def imported(statement: ast.Import | ast.ImportFrom) -> dict[str, Imported]:
    """The names that a statement imports."""
    if isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        return {alias.asname or alias.name: Imported(module, alias.name) for alias in statement.names}
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
