"""Prompts that a Python file builds, found in its syntax tree: nothing is executed or imported.

Each function is read from top to bottom once, for any arguments; a name means what was last assigned to it, in branches for
one of what they assign. What its callers in the same file give is put in where they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from kvtool.engine.no_garbage_collection import uncollected
from kvtool.errors import KvtoolError, Place
from kvtool.lint.passed_values import RenderedFile
from kvtool.lint.python.chats import Chat
from kvtool.lint.python.imported_texts import ImportedTexts
from kvtool.lint.python.module import Module
from kvtool.lint.python.program import Program
from kvtool.lint.python.python_source import PythonSource
from kvtool.lint.python.python_statements import PythonStatements
from kvtool.lint.skeleton import Node


class PythonPrompts(NamedTuple):
    """Texts of a file that may be prompts, as nodes; functions that were too much work to be read; templates that it renders.

    `imported`: the files that decide what it imports, those that do not exist too. `chats`: the messages
    that it sends together, of all or of some of the prompts. `names`: what the code calls each prompt.
    """

    prompts: list[list[Node]]
    unread: tuple[str, ...]
    rendered: tuple[RenderedFile, ...]
    imported: tuple[str, ...]
    chats: list[Chat]
    names: tuple[str, ...]


def python_prompts(path: str, text: str) -> PythonPrompts:
    """Return the prompts of a file.

    KvtoolError, with the place, where the file does not parse.
    """
    return built_prompts(path, text, PythonSource)


def built_prompts(path: str, text: str, parse: Callable[[str, str], PythonSource]) -> PythonPrompts:
    """Return the prompts that code builds; `parse` reads a file and those that it imports, in whatever language."""

    def read(path: str, text: str, inside: ImportedTexts) -> Program:
        return Program(Module(path, parse(path, text)), PythonStatements, inside)

    try:
        with (
            uncollected()
        ):  # syntax trees are many small objects, none of them garbage yet: to look takes half of the time
            imports = ImportedTexts(path, read)
            program = read(path, text, imports)
            prompts = program.prompts()
            unread = dict.fromkeys(program.unread)
            rendered = [
                replace(one, roles=tuple(sorted(role for name, role in program.found.roles if name == one.name)))
                for one in program.rendered
            ]
            return PythonPrompts(
                prompts,
                tuple(unread),
                tuple(rendered),
                tuple(imports.budget.looked_at),
                program.chats.all(),
                program.names(),
            )
    except RecursionError as error:
        raise KvtoolError("the file is nested too deeply to read", place=Place(path)) from error
