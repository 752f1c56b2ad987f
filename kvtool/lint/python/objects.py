"""Objects of a module's own classes: what their attributes mean, and which of their methods a call means."""

from __future__ import annotations

import ast
from dataclasses import replace

from kvtool.lint.evidence.prompt_evidence import is_prompt_name, is_system_name
from kvtool.lint.evidence.value_precision import refined
from kvtool.lint.python.module import ClassCode
from kvtool.lint.python.syntax import dotted
from kvtool.lint.python.text_values import (
    Callee,
    Either,
    FilePath,
    Instance,
    Literal,
    Mapped,
    Param,
    Piece,
    Value,
    ways,
)
from kvtool.lint.python.value_origins import ValueOrigins
from kvtool.lint.skeleton import Hole

_MOST_NAMES = 6
"""Names in an annotation that are looked up."""
CLASS: tuple[tuple[str, Value], ...] = (("", ()),)
"""Marks an `Instance` that is the class itself."""


class Objects(ValueOrigins):
    """Tells what attributes and methods of objects are."""

    def attribute_of(self, value: Value, attribute: str) -> Value:
        """An attribute or a key of a value."""
        result: list[Piece] = []
        for piece in value:
            if isinstance(piece, Mapped):
                result += piece.get(attribute) or ()
            elif isinstance(piece, Instance):
                result += self._of_instance(piece, attribute)
            elif isinstance(piece, str | Literal) and attribute == "value":
                result.append(piece)  # a text that is a member of an enumeration
            elif isinstance(piece, Hole):
                hole = refined(piece, attribute)
                result += [hole] if hole is not None else []
            elif isinstance(piece, Either):
                result.append(Either(tuple(self.attribute_of(one, attribute) for one in piece.branches)))
            elif isinstance(piece, FilePath) and attribute in ("parent", "parents"):
                result.append(piece)
            elif isinstance(piece, Param) and (cls := self._declared(piece)) is not None:
                result += self.program.attribute(cls, attribute, self.depth)
            elif isinstance(piece, Param) and (is_prompt_name(attribute) or is_system_name(attribute)):
                result.append(self._part_of(piece, attribute))  # `options.system`
        return tuple(result)

    def _part_of(self, param: Param, attribute: str) -> Param:
        """Return the prompt in an object that a caller gives."""

        def part(given: Value) -> Value:
            return self.attribute_of(given if param.filled is None else param.filled(given), attribute)

        return Param(param.name, filled=part)

    def _of_instance(self, piece: Instance, attribute: str) -> Value:
        given = dict(piece.given).get(attribute)
        if given is not None:
            return given
        return tuple(
            replace(one, bound=(*one.bound, *piece.given))
            if isinstance(one, Callee) and piece.given is not CLASS
            else one
            for one in self.program.attribute(piece.cls, attribute, self.depth, piece.given)
        )

    def _declared(self, param: Param) -> ClassCode | None:
        """The class of the module that a parameter is declared to be of."""
        if param.declared is None:
            return None
        names = [one for one in map(_named, ast.walk(param.declared)) if one][:_MOST_NAMES]
        for name in names:
            value, rest = self._base(name)
            if value is not None and not rest:
                for piece in value:
                    if isinstance(piece, Instance) and piece.given is CLASS:
                        return piece.cls
        return None

    def callee(self, node: ast.expr, written: str) -> Callee | Instance | None:
        """The function or class of the module that is called."""
        if written:
            value = self._callable(written)
        elif isinstance(node, ast.Attribute):
            value = self._of_bases(node.attr) if _is_super(node.value) else ()
            value = value or self.attribute_of(self.value_of(node.value), node.attr)
        else:
            value = ()
        return next((one for one in map(_called, ways(value)) if one is not None), None)

    def _of_bases(self, method: str) -> Value:
        """A method as the classes that this one is made of have it."""
        for one in list(self.program.bases(self.cls))[1:] if self.cls is not None else ():
            if method in one.methods:
                return (Callee(one.methods[method], self.cls),)
        return ()

    def _callable(self, written: str) -> Value:
        owner, _, method = written.rpartition(".")
        if owner in ("self", "cls") and self.cls is not None:
            function = self.program.method(self.cls, method)
            if function is not None:
                return (Callee(function, self.cls),)
        value, rest = self._base(owner or written)
        if value is None:
            value, rest = self._base(written)
            return value if value is not None and not rest else ()
        for attribute in rest.split(".") if rest else ():
            value = self.attribute_of(value, attribute)
        if not owner:
            return value
        for piece in ways(value):
            if isinstance(piece, Instance):
                function = self.program.method(piece.cls, method)
                if function is not None:
                    return (Callee(function, piece.cls, () if piece.given is CLASS else piece.given),)
            if isinstance(piece, Param) and (cls := self._declared(piece)) is not None:
                function = self.program.method(cls, method)
                if function is not None:
                    return (Callee(function, cls),)
            if isinstance(piece, Mapped) and (held := piece.get(method)):
                return held
        name = self._base(written)
        return name[0] if name[0] is not None and not name[1] else ()


def _called(piece: Piece) -> Callee | Instance | None:
    if isinstance(piece, Callee):
        return piece
    return Instance(piece.cls) if isinstance(piece, Instance) and piece.given is CLASS else None


def _named(node: ast.AST) -> str:
    """The name of a class in an annotation; one in quotes, too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return node.value
    return dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
