"""Texts and functions that a module imports from another one of the same project: found by its path, and read, never run."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Protocol

from kvtool.errors import KvtoolError
from kvtool.lint.python.changed_values import changed
from kvtool.lint.python.module import Imported
from kvtool.lint.python.python_source import python_text
from kvtool.lint.python.text_values import Callee, Either, Items, Literal, Many, Mapped, Message, Piece, Value, inner
from kvtool.lint.python.work_budget import set_apart
from kvtool.text.files.text_files import decode, file_bytes

_MOST_FOLDERS = 12
"""Folders above a file in which a module is looked for."""
_MOST_BYTES = 1 << 20
"""Bytes of a module."""
MOST_KEPT = 256
"""Modules that are kept for the next file."""
_MOST_DEPTH = 6
_MOST_CALLS = 1
"""Imports that are followed one after the other, for a text and for what a function gives."""
_MOST_STEPS = 200_000
_SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
OF_PROJECT = (".", "@/", "~", "#")
"""How the path of a module of the same project begins in TypeScript: no package can be named so."""
_ROOTS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg", "package.json")
"""What only the top folder of a project has; a repository goes before the packages in it."""
_TEXTS = (str, Literal, Items, Mapped, Message, Either, Many)


class ImportedModule(Protocol):
    """A module that another one imports; a `scope` is the reader of the function that calls (`name_values.Names`)."""

    @property
    def imports(self) -> ImportedTexts: ...
    def text_of(self, name: str) -> Value | None: ...
    def read_all(self) -> None: ...
    def origins(self, name: str) -> Iterable[Imported]: ...
    def function(self, name: str) -> Callee | None: ...
    def call_from(self, called: Callee, node: ast.Call, scope: Any) -> Value: ...
    def cuts(self, called: Callee) -> bool: ...


class ReadModules:
    """The modules of a run. `read` makes one of its path and its text.

    What a module says depends on its own text and on the modules that it imports, never on who asks: so the next file gets the
    same one. A module is read once for each number of imports between it and a file, as that says how far its own are followed:
    modules that import each other have an end there.
    """

    def __init__(self, read: Callable[[str, str, ImportedTexts], ImportedModule]) -> None:
        self._read = read
        self._files: dict[str, bytes] = {}
        self._known: dict[tuple[str, int], ImportedModule | None] = {}

    def imports_of(self, path: str) -> ImportedTexts:
        """Return the imports of the next file that is read for itself."""
        if len(self._known) > MOST_KEPT:
            self._known.clear()
            self._files.clear()
        return ImportedTexts(path, self)

    def get(self, path: str, word: str, depth: int) -> ImportedModule | None:
        """Return the module in a file; None for one that does not write a word, or does not parse."""
        if path not in self._files:
            self._files[path] = self._bytes_of(path)
        data = self._files[path]
        if not re.search(rf"\b{word}\b|(?:im|ex)port\s*\*".encode(), data):
            return None
        if (path, depth) not in self._known:
            self._known[path, depth] = None
            with suppress(KvtoolError, RecursionError), set_apart(_MOST_STEPS):
                text = python_text(data, path) if path.endswith(".py") else decode(data, shown=path)
                self._known[path, depth] = self._read(path, text, ImportedTexts(path, self, depth))
        return self._known[path, depth]

    @staticmethod
    def _bytes_of(path: str) -> bytes:
        with suppress(KvtoolError):
            return file_bytes(Path(path), shown=path, limit=_MOST_BYTES)
        return b""

    def looked_at(self, imports: ImportedTexts) -> tuple[str, ...]:
        """Return the files that decide what some imports mean, those that do not exist too."""
        found: dict[str, None] = {}
        waiting, seen = [imports], {id(imports)}
        while waiting:
            one = waiting.pop()
            found |= one.looked_at
            inside = [each.imports for path in one.looked_at if (each := self._known.get((path, one.depth + 1)))]
            waiting += [each for each in inside if id(each) not in seen]
            seen.update(map(id, inside))
        return tuple(found)


class ImportedTexts:
    """The texts and functions of the modules that one module imports."""

    def __init__(self, path: str, modules: ReadModules, depth: int = 0) -> None:
        self._path = path
        self.depth = depth
        """Imports between the module and the file that is read for itself."""
        self._modules = modules
        self._folders: list[str] = []
        self._values: dict[tuple[Imported, str], Value | None] = {}
        self._functions: dict[tuple[Imported, str], tuple[ImportedModule, Callee] | None] = {}
        self.looked_at: dict[str, None] = {}

    def value_of(self, origin: Imported, rest: str) -> Value | None:
        """Return the texts that an imported name, or an attribute below it, means; None where that is not known."""
        if (origin, rest) not in self._values:
            self._values[origin, rest] = self._find(origin, rest)
        return self._values[origin, rest]

    def call(self, origin: Imported, rest: str, node: ast.Call, scope: Any) -> Value | None:
        """Return what an imported function gives for a call; None where it is not known."""
        found = self.function(origin, rest) if self.depth < _MOST_CALLS else None
        if found is not None:
            with suppress(RecursionError), set_apart(_MOST_STEPS):
                found[0].read_all()
            with suppress(RecursionError), set_apart(_MOST_STEPS):
                return found[0].call_from(found[1], node, scope)
        return None

    def function(self, origin: Imported, rest: str) -> tuple[ImportedModule, Callee] | None:
        """Return the function that an imported name means, with its module; None where it means anything else."""
        if (origin, rest) not in self._functions:
            self._functions[origin, rest] = self._find_function(origin, rest)
        return self._functions[origin, rest]

    def _find_function(self, origin: Imported, rest: str) -> tuple[ImportedModule, Callee] | None:
        for path, name in self._places(origin, rest):
            module = self._module(path, name)
            if module is None:
                continue
            with suppress(RecursionError), set_apart(_MOST_STEPS):
                if (callee := module.function(name)) is not None:
                    return module, callee
            root, _, below = name.partition(".")
            for further in module.origins(root):
                if (found := module.imports.function(further, below)) is not None:
                    return found
        return None

    def _find(self, origin: Imported, rest: str) -> Value | None:
        for path, name in self._places(origin, rest):
            value = self._value_in(path, name)
            if value is not None:
                return value
        return None

    def _places(self, origin: Imported, rest: str) -> Iterator[tuple[str, str]]:
        """Yield the files that an imported name can be written in, each with its name there."""
        if self.depth >= _MOST_DEPTH:
            return
        if not self._path.endswith(".py") and origin.module.startswith(OF_PROJECT):
            name = ".".join(one for one in (origin.name, rest) if one)
            for path in self._scripts(origin.module):
                yield from ((path, each) for each in ((name, f"default.{name}") if name else ("default",)))
        if not self._path.endswith(".py"):
            return
        level = len(origin.module) - len(origin.module.lstrip("."))
        names = [name for name in f"{origin.module[level:]}.{origin.name}.{rest}".split(".") if name]
        for split in range(len(names) - 1, -1, -1):
            if all(name.isidentifier() for name in names[: split + 1]):
                yield from ((path, ".".join(names[split:])) for path in self._paths(level, names[:split]))

    def _scripts(self, source: str) -> Iterator[str]:
        """Yield the existing file that `./lib/prompts` means in TypeScript, whatever its suffix, or the index of a folder.

        `@/lib/prompts` is below a package, or its `src`: nearly all that set another name for it set this one.
        """
        self._folders = folders = self._folders or list(_folders(self._path))
        inside = source.lstrip("@~#/")
        bases = [
            os.path.join(each, below, inside)  # noqa: PTH118
            for each in folders
            if not source.startswith(".") and os.path.isfile(os.path.join(each, "package.json"))  # noqa: PTH113, PTH118
            for below in ("", "src")
        ]
        for each in bases or [os.path.join(folders[0], source)]:  # noqa: PTH118
            base = os.path.normpath(each)
            stem = base[: -len(suffix)] if (suffix := PurePath(base).suffix) in _SCRIPTS else base
            for path in (f"{one}{end}" for one in (stem, os.path.join(base, "index")) for end in _SCRIPTS):  # noqa: PTH118
                self.looked_at[path] = None
                if os.path.isfile(path) and _is_below(path, folders[-1]):  # noqa: PTH113
                    yield path
                    return

    def _paths(self, level: int, names: list[str]) -> Iterator[str]:
        """Yield the existing files that a module can be, the nearest first."""
        if not names and not level:
            return
        self._folders = folders = self._folders or list(_folders(self._path))
        for folder in folders[level - 1 : level] if level else folders:
            base = os.path.join(folder, *names)  # noqa: PTH118 - paths stay as the user wrote them
            files = [os.path.join(base, "__init__.py")]  # noqa: PTH118
            for path in [f"{base}.py", *files] if names else files:
                self.looked_at[path] = None
                if os.path.isfile(path) and _is_below(path, folders[-1]):  # noqa: PTH113
                    yield path

    def _value_in(self, path: str, name: str) -> Value | None:
        """Return the texts that a name means in a file."""
        module = self._module(path, name)
        with suppress(RecursionError), set_apart(_MOST_STEPS):
            value = module.text_of(name) if module is not None else None
            return value if value and _is_text(value) else None
        return None

    def _module(self, path: str, name: str) -> ImportedModule | None:
        if os.path.realpath(path) == os.path.realpath(self._path):
            return None
        return self._modules.get(path, name.partition(".")[0], self.depth + 1)


def _folders(path: str) -> Iterator[str]:
    """Yield the folder of a file and those above it, to the top of its project."""
    start = os.path.dirname(path)  # noqa: PTH120
    above = [start]
    while len(above) < _MOST_FOLDERS and os.path.realpath(above[-1] or ".") != os.path.realpath(
        parent := _parent(above[-1])
    ):
        above.append(parent)
    for marks in (_ROOTS[:2], _ROOTS[2:]):
        for number, folder in enumerate(above):
            if any(os.path.exists(os.path.join(folder, mark)) for mark in marks):  # noqa: PTH110, PTH118
                yield from above[: number + 1]
                return
    packages = next((at for at, folder in enumerate(above) if not (Path(folder) / "__init__.py").is_file()), 0)
    yield from above[: packages + 1]


def _parent(folder: str) -> str:
    return os.path.normpath(os.path.join(folder or ".", os.pardir))  # noqa: PTH118


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder or "."), ""))  # noqa: PTH118


def _is_text(value: Value) -> bool:
    """Return whether all of a value is constant text, alone or in collections."""
    return all(
        isinstance(piece, _TEXTS)
        and not (isinstance(piece, Items) and piece.order is not None)
        and all(map(_is_text, inner(piece)))
        for piece in value
    )


def at_use(value: Value, make: Callable[[str], Piece]) -> Value:
    """Return imported texts as `make` writes them where the module uses them: places in other files mean nothing there."""
    return changed(value, lambda piece: (make(piece.text),) if isinstance(piece, Literal) else None)
