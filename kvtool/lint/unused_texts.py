"""What nothing in a project refers to: a text that no code of it uses is sent by nobody, and costs nothing."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import PurePath

from kvtool.lint.python_evidence import name_says_prompt
from kvtool.lint.python_source import with_line_feeds
from kvtool.lint.sources import TextInput
from kvtool.results.finding import Finding

_ABANDONED = re.compile(r"(?:^|[/\\])(_{0,2}(?:deprecated|obsolete|attic|graveyard))(?=[/\\])", re.IGNORECASE)
"""A folder of what nobody uses any more, by its name."""
_OF_NOBODY = frozenset(("object", "ABC", "Generic", "Protocol"))
"""Classes that call none of the methods of those that inherit from them."""
_MOST_BASES = 4
_BY_NAME = re.compile(r"\bgetattr\(\s{0,8}(?:self|cls)\s{0,8},\s{0,8}(?:f[\"']|[^\"'\s])")
"""How a class takes a method of its own whose name it puts together."""


def without_unused(findings: Iterable[Finding], texts: Sequence[TextInput]) -> list[Finding]:
    """The findings but those in what no linted file names, where a project is linted whole: functions and constants of Python
    files, methods that only their own class could call, and folders named for what nobody uses any more.

    A file alone, the files of one folder, and a part of a package leave open who uses them: all of theirs are told.
    """
    given = list(findings)
    files = {one.path: one for one in texts if one.kind == "python"}
    if not all(one.found for one in files.values()) or not _is_whole(list(files)):
        return given
    abandoned: dict[str, bool] = {}
    names: dict[str, list[tuple[int, int, str]]] = {}
    kept: list[Finding] = []
    for one in given:
        if (folder := _ABANDONED.search(one.path)) is not None:
            at = one.path[: folder.end()]
            if at not in abandoned:
                abandoned[at] = not _names_folder(folder[1], at, texts)
            if abandoned[at]:
                continue
        source = files.get(one.path)
        if source is None:
            kept.append(one)
            continue
        if one.path not in names:
            names[one.path] = list(_defined(source.text, partial(_is_own, texts=texts)))
        found = next((each for each in names[one.path] if each[0] <= one.line <= each[1]), None)
        if found is None or _is_used(found, source, texts):
            kept.append(one)
    return kept


def _names_folder(name: str, folder: str, texts: Sequence[TextInput]) -> bool:
    """Whether a file outside of a folder imports it or from it, or holds a path of it."""
    word = re.escape(name)
    taken = re.compile(
        rf"\b{word}(?:\.\w|[/\\\\]|\s+import\b)|\bfrom\s+\.[\w.]{{0,200}}\s+import\b[^\n]{{0,200}}\b{word}\b"
    )
    return any(
        name in one.text and taken.search(one.text) is not None for one in texts if not one.path.startswith(folder)
    )


def _is_whole(paths: Sequence[str]) -> bool:
    """Whether files are all of a project: they lie in several folders, and their top folder is no part of a package."""
    folders = {os.path.dirname(os.path.realpath(path)) for path in paths}  # noqa: PTH120 - of thousands, each time
    if len(folders) < 2:
        return False
    top = os.path.commonpath(folders)
    return not all(os.path.isfile(os.path.join(at, "__init__.py")) for at in (top, os.path.dirname(top)))  # noqa: PTH113, PTH118, PTH120


def _defined(text: str, is_own: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """First and last line, and name, of the constants of a module, of its functions that build prompts by their names, and of
    all functions and methods with a leading underscore.

    What else a function does is for who calls it from outside; what is decorated is used by its decorator.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(with_line_feeds(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from _own_methods(statement, is_own)
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            own = name_says_prompt(statement.name) or _is_private(statement.name)
            name = "" if statement.decorator_list or not own else statement.name
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = statement.targets[0].id if isinstance(statement.targets[0], ast.Name) else ""
        elif isinstance(statement, ast.AnnAssign):
            name = statement.target.id if isinstance(statement.target, ast.Name) else ""
        else:
            name = ""
        if name:
            yield statement.lineno, statement.end_lineno or statement.lineno, name


def _own_methods(statement: ast.ClassDef, is_own: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """The methods of a class that are no part of what it offers, where no class of another package could call them."""
    if not all(isinstance(base, ast.Name) and is_own(base.id) for base in statement.bases):
        return
    for one in statement.body:
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) or one.decorator_list:
            continue
        if _is_private(one.name):
            yield one.lineno, one.end_lineno or one.lineno, one.name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(name: str, texts: Sequence[TextInput], deep: int = _MOST_BASES) -> bool:
    """Whether a class inherits from classes of these files only."""
    if name in _OF_NOBODY:
        return True
    written = re.compile(rf"^class {re.escape(name)}\b(?:\(([^()]*)\))?", re.MULTILINE)
    found = next((one for each in texts if name in each.text and (one := written.search(each.text))), None)
    if found is None or not deep:
        return False
    bases = [base.strip().partition("[")[0] for base in (found[1] or "").split(",") if "=" not in base]
    return all(_is_own(base, texts, deep - 1) for base in bases if base)


def _is_used(defined: tuple[int, int, str], source: TextInput, texts: Sequence[TextInput]) -> bool:
    """Whether any file names it outside of its own lines, or takes what it does not name out of its module."""
    first, last, name = defined
    word = re.compile(rf"\b{re.escape(name)}\b")
    lines = source.text.splitlines(keepends=True)
    rest = "".join([*lines[: first - 1], *lines[last:]])
    module = PurePath(source.path).stem
    taken = re.compile(
        r"\b(?:getattr|vars|dir|getmembers|import_module)\([^()\n]{{0,80}}\b{0}\b|\b{0}\.__dict__".format(
            re.escape(module)
        )
    )
    if "globals()" in rest or "__name__]" in rest or (_is_private(name) and _BY_NAME.search(rest)):
        return True  # how code takes what it does not name
    others = [rest, *(one.text for one in texts if one is not source)]
    return any(name in text and word.search(text) for text in others) or any(
        module in text and taken.search(text) for text in others
    )
