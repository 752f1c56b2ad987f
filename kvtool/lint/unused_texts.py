"""What nothing in a project refers to: a text that no code of it uses is sent by nobody, and costs nothing."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from kvtool.lint.python_evidence import name_says_prompt
from kvtool.lint.python_source import with_line_feeds
from kvtool.lint.sources import TextInput
from kvtool.results.finding import Finding


def without_unused(findings: Iterable[Finding], texts: Sequence[TextInput]) -> list[Finding]:
    """The findings but those in functions and constants of Python files that no linted file names, where a project is linted whole.

    A file alone, the files of one folder, and a part of a package leave open who uses them: all of theirs are told.
    """
    given = list(findings)
    files = {one.path: one for one in texts if one.kind == "python"}
    if not all(one.found for one in files.values()) or not _is_whole(list(files)):
        return given
    names: dict[str, list[tuple[int, int, str]]] = {}
    kept: list[Finding] = []
    for one in given:
        source = files.get(one.path)
        if source is None:
            kept.append(one)
            continue
        if one.path not in names:
            names[one.path] = list(_defined(source.text))
        found = next((each for each in names[one.path] if each[0] <= one.line <= each[1]), None)
        if found is None or _is_used(found, source, texts):
            kept.append(one)
    return kept


def _is_whole(paths: Sequence[str]) -> bool:
    """Whether files are all of a project: they lie in several folders, and their top folder is no part of a package."""
    folders = {os.path.dirname(os.path.realpath(path)) for path in paths}  # noqa: PTH120 - of thousands, each time
    if len(folders) < 2:
        return False
    top = os.path.commonpath(folders)
    return not all(os.path.isfile(os.path.join(at, "__init__.py")) for at in (top, os.path.dirname(top)))  # noqa: PTH113, PTH118, PTH120


def _defined(text: str) -> Iterator[tuple[int, int, str]]:
    """First and last line, and name, of the constants of a module, and of its functions that build prompts by their names.

    What else a function does is for who calls it from outside; what is decorated is used by its decorator.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(with_line_feeds(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            name = "" if statement.decorator_list or not name_says_prompt(statement.name) else statement.name
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = statement.targets[0].id if isinstance(statement.targets[0], ast.Name) else ""
        elif isinstance(statement, ast.AnnAssign):
            name = statement.target.id if isinstance(statement.target, ast.Name) else ""
        else:
            name = ""
        if name:
            yield statement.lineno, statement.end_lineno or statement.lineno, name


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
    if "globals()" in rest or "__name__]" in rest:
        return True  # how code takes what it does not name
    others = [rest, *(one.text for one in texts if one is not source)]
    return any(name in text and word.search(text) for text in others) or any(
        module in text and taken.search(text) for text in others
    )
