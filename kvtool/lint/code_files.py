"""Files of code in any language that lint reads: one syntax tree, so one set of rules."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePath

from kvtool.lint.lint_inputs import TYPESCRIPT_SUFFIXES
from kvtool.lint.python.built_prompts import CodePrompts
from kvtool.lint.python.python_source import PythonSource

_LONGEST_KEPT = 65_536
"""Characters of a file, up to which its tree is kept for the files that import it."""


def read_code(path: str, text: str) -> PythonSource:
    """Parse a file in the language that its name says; KvtoolError, with the place, where it does not parse.

    Nobody changes the tree: files that import the same module get one.
    """
    return (_kept if len(text) <= _LONGEST_KEPT else _parsed)(path, text)


def _parsed(path: str, text: str) -> PythonSource:
    if PurePath(path).suffix.lower() not in TYPESCRIPT_SUFFIXES:
        return PythonSource(path, text)
    from kvtool.lint.typescript.typescript_source import TypeScriptSource  # loads its parser, which few runs need

    return TypeScriptSource(path, text)


_kept = lru_cache(maxsize=64)(_parsed)


def code_prompts() -> CodePrompts:
    """Return the reader of the files of a run: what several of them import is read once."""
    return CodePrompts(read_code)
