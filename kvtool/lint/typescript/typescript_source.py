"""A TypeScript or JavaScript file: its syntax tree in the form that the rules for Python read, and where things are in it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import PurePath

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from kvtool.lint.python.python_source import PythonSource
from kvtool.lint.skeleton import TemplatePlace
from kvtool.lint.typescript.statements import Statements

_WITHOUT_TAGS = (".ts", ".mts", ".cts")
"""Files in which `<T>value` is a type; in all others it may be a tag of JSX."""


@cache
def _parser(*, tags: bool) -> Parser:
    language = tree_sitter_typescript.language_tsx() if tags else tree_sitter_typescript.language_typescript()
    return Parser(Language(language))


class TypeScriptSource(PythonSource):
    """The tree of a file; what does not parse in it is left out, as the parser goes on after it."""

    fills_strings = False
    trusts_names = False
    formatted = "a template literal"

    def _parsed(self) -> ast.Module:
        root = _parser(tags=PurePath(self.path).suffix.lower() not in _WITHOUT_TAGS).parse(self._bytes()).root_node
        reader = Statements()
        body = reader.program(root)
        self._fields = reader.fields
        return ast.Module(body, [])

    def _bytes(self) -> bytes:
        return self.text.encode("utf-8", "replace")

    def fields(self, node: ast.JoinedStr) -> list[TemplatePlace]:
        """The places of the `${…}` of a template literal, in order."""
        return [self._spot_of_field(field) for field in self._fields[node]]

    def _spot_of_field(self, node: Node) -> TemplatePlace:
        start, end = node.start_point, node.end_point
        return self.spot(self.offset(start.row + 1, start.column), self.offset(end.row + 1, end.column))
