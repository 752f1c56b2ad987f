"""Prompts that a Python file builds, found in its syntax tree: nothing is executed or imported.

Each function is read from top to bottom once, for any arguments; a name means what was last assigned to it, in branches for
one of what they assign. What its callers in the same file give is put in where they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from kvtool.engine.no_garbage_collection import uncollected
from kvtool.errors import KvtoolError, Place
from kvtool.lint.passed_values import RenderedFile
from kvtool.lint.python.chats import Chat
from kvtool.lint.python.imported_texts import MOST_KEPT, ImportedTexts, ReadModules
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
    return CodePrompts(PythonSource).of(path, text)


class CodePrompts:
    """Prompts that the files of a run build; `parse` reads these and those that they import, in whatever language."""

    def __init__(self, parse: Callable[[str, str], PythonSource]) -> None:
        self._module = lru_cache(MOST_KEPT)(lambda path, text: Module(path, parse(path, text)))
        """A file as it is written, however many imports are between it and the file that is read for itself."""
        self._modules = ReadModules(self._imported)

    def _program(self, path: str, text: str, imports: ImportedTexts) -> Program:
        return Program(self._module(path, text), PythonStatements, imports)

    def _imported(self, path: str, text: str, imports: ImportedTexts) -> Program:
        program = self._program(path, text, imports)
        program.values()
        return program

    def of(self, path: str, text: str) -> PythonPrompts:
        """Return the prompts that a file builds; KvtoolError, with the place, where it does not parse."""
        try:
            with uncollected():  # syntax trees are many small objects, none garbage yet: to look takes half of the time
                imports = self._modules.imports_of(path)
                program = self._program(path, text, imports)
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
                    self._modules.looked_at(imports),
                    program.chats.all(),
                    program.names(),
                )
        except RecursionError as error:
            raise KvtoolError("the file is nested too deeply to read", place=Place(path)) from error
