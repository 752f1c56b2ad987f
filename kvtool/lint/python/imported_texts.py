"""Texts that a module imports from another one of the same project: found by its path, and read, never run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.lint.python.changed_values import changed
from kvtool.lint.python.module import Imported, Module
from kvtool.lint.python.python_source import PythonSource, python_text
from kvtool.lint.python.text_values import Either, Items, Literal, Many, Mapped, Message, Piece, Value, inner
from kvtool.lint.python.work_budget import set_apart
from kvtool.text.files.text_files import file_bytes

_MOST_FOLDERS = 12
"""Folders above a file in which a module is looked for."""
_MOST_MODULES = 24
_MOST_BYTES = 1 << 20
"""Modules that are read for one file, and bytes of all of them."""
_MOST_DEPTH = 6
"""Modules that import a text from each other."""
_MOST_STEPS = 200_000
_ROOTS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""What only the top folder of a project has; a repository goes before the packages in it."""
_TEXTS = (str, Literal, Items, Mapped, Message, Either, Many)


@dataclass(slots=True)
class ImportBudget:
    """What may still be read for one file, and the files that decide what its imports mean, those that do not exist too."""

    modules: int = _MOST_MODULES
    bytes: int = _MOST_BYTES
    looked_at: dict[str, None] = field(default_factory=dict)


class ImportedTexts:
    """The texts of the modules that one module imports. `read` makes what tells the value of a name of a module."""

    def __init__(
        self, path: str, read: Callable[[Module, ImportedTexts], Callable[[str], Value | None]], depth: int = 0
    ) -> None:
        self._path = path
        self._read = read
        self._depth = depth
        self._files: dict[str, bytes] = {}
        self._known: dict[str, Callable[[str], Value | None]] = {}
        self._folders: list[str] = []
        self._values: dict[tuple[Imported, str], Value | None] = {}
        self.budget = ImportBudget()

    def value_of(self, origin: Imported, rest: str) -> Value | None:
        """Return the texts that an imported name, or an attribute below it, means; None where that is not known."""
        if (origin, rest) not in self._values:
            self._values[origin, rest] = None  # while it is looked for
            self._values[origin, rest] = self._find(origin, rest)
        return self._values[origin, rest]

    def _find(self, origin: Imported, rest: str) -> Value | None:
        if self._depth >= _MOST_DEPTH or not self._path.endswith(".py"):
            return None
        level = len(origin.module) - len(origin.module.lstrip("."))
        names = [name for name in f"{origin.module[level:]}.{origin.name}.{rest}".split(".") if name]
        for split in range(len(names) - 1, -1, -1):
            if not all(name.isidentifier() for name in names[: split + 1]):
                continue
            for path in self._paths(level, names[:split]):
                value = self._value_in(path, ".".join(names[split:]))
                if value is not None:
                    return value
        return None

    def _paths(self, level: int, names: list[str]) -> Iterator[str]:
        """Yield the existing files that a module can be, the nearest first."""
        if not names and not level:
            return
        self._folders = folders = self._folders or list(_folders(self._path))
        for folder in folders[level - 1 : level] if level else folders:
            base = os.path.join(folder, *names)  # noqa: PTH118 - paths stay as the user wrote them
            files = [os.path.join(base, "__init__.py")]  # noqa: PTH118
            for path in [f"{base}.py", *files] if names else files:
                self.budget.looked_at[path] = None
                if os.path.isfile(path) and _is_below(path, folders[-1]):  # noqa: PTH113
                    yield path

    def _value_in(self, path: str, name: str) -> Value | None:
        """Return the texts that a name means in a file; a file that does not write the name is not parsed."""
        if path not in self._files:
            self._files[path] = self._bytes_of(path)
        if not re.search(rf"\b{name.partition('.')[0]}\b|import\s*\*".encode(), self._files[path]):
            return None
        with suppress(KvtoolError, RecursionError), set_apart(_MOST_STEPS):
            if path not in self._known:
                inside = ImportedTexts(path, self._read, self._depth + 1)
                inside.budget = self.budget
                source = PythonSource(path, python_text(self._files[path], path))
                self._known[path] = self._read(Module(path, source), inside)
            value = self._known[path](name)
            return value if value and _is_text(value) else None
        self._files[path] = b""  # it does not parse
        return None

    def _bytes_of(self, path: str) -> bytes:
        budget = self.budget
        if not budget.modules or os.path.realpath(path) == os.path.realpath(self._path):
            return b""
        with suppress(KvtoolError):
            data = file_bytes(Path(path), shown=path, limit=budget.bytes)
            budget.modules -= 1
            budget.bytes -= len(data)
            return data
        return b""


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
