"""Constants, functions and methods of Python files that no file uses: named nowhere, or only by others that are used nowhere."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from kvtool.lint.evidence.prompt_evidence import is_prompt_name
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.python.python_source import parsed, with_line_feeds

_OF_NOBODY = frozenset(("object", "ABC", "Generic", "Protocol"))
"""Classes that call none of the methods of those that inherit from them."""
_MOST_BASES = 4
_MOST_CALLERS = 40
_BY_NAME = re.compile(r"\bgetattr\(\s{0,8}(?:self|cls)\s{0,8},\s{0,8}(?:f[\"']|[^\"'\s])")
"""How a class takes a method of its own whose name it puts together."""
_OF_TESTS = re.compile(r"(?:^|[/\\])tests?[/\\]|(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test)\.py$")


@dataclass(frozen=True, slots=True)
class Defined:
    """A name, and the first and last line of what it is. `made`: a call gave it, so that it may be what a program begins with."""

    first: int
    last: int
    name: str
    made: bool = False


@dataclass(frozen=True, slots=True)
class _Module:
    """Definitions of a file that may be unused, and the lines of its imports."""

    defined: tuple[Defined, ...] = ()
    imports: frozenset[int] = frozenset()

    def around(self, line: int) -> Defined | None:
        return next((one for one in self.defined if one.first <= line <= one.last), None)


class Definitions:
    """Definitions in the files of a project, and which of them are used; to be asked about files among `texts`."""

    def __init__(self, texts: Sequence[TextInput]) -> None:
        self._texts = texts
        self._modules: dict[str, _Module] = {}
        self._starts: dict[str, list[int]] = {}
        self._unused: dict[tuple[str, Defined], bool] = {}

    def is_unused(self, source: TextInput, line: int) -> bool:
        """Return whether what is in a line is part of something that no file uses."""
        found = self._module(source).around(line)
        if found is None:
            return False
        key = source.path, found
        if key not in self._unused:
            self._unused[key] = not self._is_reached(found, source)
        return self._unused[key]

    def _is_reached(self, one: Defined, source: TextInput) -> bool:
        """Return whether anything that is used leads to it: those that only use each other are used by nobody."""
        waiting, seen = [(one, source)], {(source.path, one)}
        while waiting:
            here, where = waiting.pop()
            if len(seen) > _MOST_CALLERS or self._is_taken(here, where):
                return True
            for other, caller in self._mentions(here, where):
                if caller is None:
                    return True
                if (other.path, caller) not in seen:
                    seen.add((other.path, caller))
                    waiting.append((caller, other))
        return False

    def _mentions(self, one: Defined, source: TextInput) -> Iterator[tuple[TextInput, Defined | None]]:
        """The files that name it, and what unsure thing its name is in there; None: in nothing that may be unused.

        A name in a comment, or in a test, is none. Where a file imports it and names it too, the import says nothing more.
        """
        in_tests = _OF_TESTS.search(source.path) is not None
        for text in self._texts:
            if one.name not in text.text or (not in_tests and text is not source and _OF_TESTS.search(text.path)):
                continue
            lines = [line for line in self._lines(one, text) if text is not source or not one.first <= line <= one.last]
            module = self._module(text) if text.kind == "python" else _Module()
            named = [line for line in lines if line not in module.imports]
            if len(named) < len(lines) and (not named or PurePath(text.path).name == "__init__.py"):
                yield text, None
            for line in named:
                caller = module.around(line)
                yield text, None if caller is None or caller.made else caller

    def _lines(self, one: Defined, text: TextInput) -> Iterator[int]:
        """The lines in which a file names it, but for comments."""
        for found in re.finditer(rf"\b{re.escape(one.name)}\b", text.text):
            begins = text.text[text.text.rfind("\n", 0, found.start()) + 1 : found.start()].lstrip(" \t")
            if text.kind != "python" or not begins.startswith("#"):
                yield self._line(text, found.start())

    def _is_taken(self, one: Defined, source: TextInput) -> bool:
        """Return whether a file takes what it does not name out of the module."""
        lines = source.text.splitlines(keepends=True)
        rest = "".join([*lines[: one.first - 1], *lines[one.last :]])
        if "globals()" in rest or "__name__]" in rest or (_is_private(one.name) and _BY_NAME.search(rest)):
            return True
        module = PurePath(source.path).stem
        taken = re.compile(
            r"\b(?:getattr|vars|dir|getmembers|import_module)\([^()\n]{{0,80}}\b{0}\b|\b{0}\.__dict__".format(
                re.escape(module)
            )
        )
        return any(module in text.text and taken.search(text.text) for text in self._texts)

    def _line(self, text: TextInput, at: int) -> int:
        if text.path not in self._starts:
            self._starts[text.path] = [found.start() for found in re.finditer("\n", text.text)]
        return bisect_right(self._starts[text.path], at - 1) + 1

    def _module(self, source: TextInput) -> _Module:
        if source.path not in self._modules:
            self._modules[source.path] = self._read(source)
        return self._modules[source.path]

    def _read(self, source: TextInput) -> _Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = parsed(with_line_feeds(source.text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _Module()
        imports = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        return _Module(tuple(self._defined(tree)), frozenset(imports))

    def _defined(self, tree: ast.Module) -> Iterator[Defined]:
        """The constants of a module, its functions that build prompts by their names, and all functions and methods with a
        leading underscore.

        What else a function does is for who calls it from outside; what is decorated is used by its decorator.
        """
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                yield from self._own_methods(statement)
                continue
            name, made = "", False
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                own = is_prompt_name(statement.name) or _is_private(statement.name)
                name = "" if statement.decorator_list or not own else statement.name
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
                made = any(isinstance(node, ast.Call) for node in ast.walk(statement))
            if name and not name.startswith("__"):
                yield Defined(statement.lineno, statement.end_lineno or statement.lineno, name, made)

    def _own_methods(self, statement: ast.ClassDef) -> Iterator[Defined]:
        """The methods of a class that are no part of what it offers, where no class of another package could call them."""
        if not all(isinstance(base, ast.Name) and self._is_own(base.id) for base in statement.bases):
            return
        for one in statement.body:
            if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) or one.decorator_list:
                continue
            if _is_private(one.name):
                yield Defined(one.lineno, one.end_lineno or one.lineno, one.name)

    def _is_own(self, name: str, deep: int = _MOST_BASES) -> bool:
        """Return whether a class inherits from classes of these files only."""
        if name in _OF_NOBODY:
            return True
        written = re.compile(rf"^class {re.escape(name)}\b(?:\(([^()]*)\))?", re.MULTILINE)
        found = next((one for each in self._texts if name in each.text and (one := written.search(each.text))), None)
        if found is None or not deep:
            return False
        bases = [base.strip().partition("[")[0] for base in (found[1] or "").split(",") if "=" not in base]
        return all(self._is_own(base, deep - 1) for base in bases if base)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
