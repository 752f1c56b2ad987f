"""What nothing in a project refers to: a text that no code of it uses is sent by nobody, and costs nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from kvtool.lint.folders.unused_definitions import Definitions
from kvtool.lint.folders.unused_files import TextFiles, is_text_file
from kvtool.lint.lint_inputs import TextInput
from kvtool.results.finding import Finding

_ABANDONED = re.compile(r"(?:^|[/\\])(_{0,2}(?:deprecated|obsolete|attic|graveyard))(?=[/\\])", re.IGNORECASE)
"""A folder of what nobody uses any more, by its name."""
_PAST = re.compile(r"(?:^|[/\\])_{0,2}migrations(?=[/\\])", re.IGNORECASE)
"""A folder of how texts were before: they are read to be compared, and replaced."""


def without_unused(findings: Iterable[Finding], texts: Sequence[TextInput]) -> list[Finding]:
    """The findings but those in what no linted file names, where a project is linted whole: functions and constants of Python
    files, methods that only their own class could call, text files, and folders named for what nobody uses any more.

    A file alone, the files of one folder, and a part of a package leave open who uses them: all of theirs are told.
    """
    given = list(findings)
    python = {one.path: one for one in texts if one.kind == "python"}
    if not all(one.found for one in python.values()) or not _is_whole(list(python)):
        return given
    others = {one.path: one for one in texts if is_text_file(one)}
    definitions, text_files = Definitions(texts), TextFiles(texts)
    top, aside = _top(python), dict[tuple[str, str], bool]()
    kept: list[Finding] = []
    for one in given:
        if _is_laid_aside(one.path, top, texts, aside):
            continue
        if one.path in python and definitions.is_unused(python[one.path], one.line or 1):
            continue
        if one.path in others and text_files.is_unused(others[one.path]):
            continue
        kept.append(one)
    return kept


def _top(paths: Iterable[str]) -> int:
    """The length of the folder that all of these files lie below: what it is called says nothing of them."""
    try:
        return len(os.path.commonpath([os.path.dirname(path) for path in paths]))  # noqa: PTH120 - of thousands, each time
    except ValueError:  # none, or some with a root and some without one
        return 0


def _is_laid_aside(path: str, top: int, texts: Sequence[TextInput], known: dict[tuple[str, str], bool]) -> bool:
    """Whether a file lies in a folder that is named so, and nothing outside of that names the folder; of migrations, the file."""
    if (folder := _ABANDONED.search(path, top)) is not None:
        name = folder[1]
    elif (folder := _PAST.search(path, top)) is not None:
        name = PurePath(path).stem
    else:
        return False
    key = path[: folder.end()], name
    if key not in known:
        known[key] = not _names_folder(name, key[0], texts)
    return known[key]


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
