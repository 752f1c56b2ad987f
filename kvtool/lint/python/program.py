"""Functions and classes of a module: each is read once, when its result is needed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from kvtool.lint.evidence.prompt_evidence import speaks_of_models
from kvtool.lint.passed_values import Constant, RenderedFile
from kvtool.lint.python.changed_values import changed, substituted
from kvtool.lint.python.imported_texts import ImportedTexts
from kvtool.lint.python.module import ClassCode, FunctionCode, Imported, Module
from kvtool.lint.python.name_values import Names, Summary
from kvtool.lint.python.objects import CLASS
from kvtool.lint.python.program_prompts import ModulePrompts
from kvtool.lint.python.rewritten_history import RewrittenHistory
from kvtool.lint.python.text_values import (
    Callee,
    Instance,
    Literal,
    Param,
    Piece,
    RenderCall,
    Value,
    either,
    has_param,
    pieces_of,
    varies,
)
from kvtool.lint.python.varying_texts import (
    OF_TOOLS,
    filler,
    is_tool,
    leading,
    reported_once,
)
from kvtool.lint.python.work_budget import TooMuchWorkError, allow, work_left
from kvtool.lint.skeleton import Hole, Node, TemplatePlace, leaves

_MOST_DEPTH = 10
_LEAST_STEPS = 1_000_000
"""Steps for a file, with one more for each of its characters: what most files need is far below."""
_MOST_NODES = 5_000
_MOST_BASES = 8
_MOST_WRITERS = 4
"""Methods that assign one attribute, of which is looked at what they assign; twice as many that add to it."""
_SILENT = frozenset(("__repr__", "__str__", "__hash__", "__eq__", "__repr_args__", "_repr_html_"))


_NOTHING = Summary()
_OWN_BODY = "code outside of functions"


class Program:
    """One module. `scope` makes the reader of one function, class body or module."""

    def __init__(self, module: Module, scope: Callable[..., Names], imports: ImportedTexts) -> None:
        self._module = module
        self.imports = imports
        self._scope = scope
        self._summaries: dict[FunctionCode, Summary] = {}
        self._partly: dict[FunctionCode, tuple[Summary, frozenset[FunctionCode]]] = {}
        """Functions that were read while others that they ask for were being read, which gave them nothing; and those others."""
        self._asked: set[FunctionCode] = set()
        """Functions being read that were asked for by what they ask for themselves."""
        self._values: dict[str, Value] | None = None
        self._bodies: dict[ClassCode, dict[str, Value]] = {}
        self.unread: list[str] = []
        """Functions for which nothing was left to be spent."""
        self.rendered: list[RenderedFile] = []
        self.declared: set[TemplatePlace] = set()
        """Where parameters are declared whose names say what they are."""
        self._running: set[FunctionCode] = set()
        self._is_whole = False
        self.found = ModulePrompts(module, self._returned)
        self.chats = self.found.chats

    def prompts(self) -> list[list[Node]]:
        """Everything that the module builds that may be a prompt, with something in it that varies."""
        allow(_LEAST_STEPS + len(self._module.source.text))
        self.read_all()
        return reported_once(self.found.all(), self.declared)

    def read_all(self) -> None:
        """Read everything in the order of the module, so that no answer depends on what was asked before."""
        if self._is_whole:
            return
        self._is_whole = True
        self.found.add_holes(self._history.holes())
        self.values()
        functions = list(self._module.functions.values())
        for cls in self._module.classes.values():
            self.body(cls)
            functions += cls.methods.values()
        for function in functions:
            self.summary(function)

    def names(self) -> tuple[str, ...]:
        """Return the names of the prompts, in their order."""
        return self.found.names()

    # Names

    def values(self) -> dict[str, Value]:
        """Return the values of the module's names after the module ran."""
        if self._values is None:
            scope = self._scope(self, self._module)
            self._values = scope.values
            self._run(scope, self._module.source.tree.body)
        return self._values

    def value_in_module(self, name: str) -> Value | None:
        """Return the value of a name of the module; None where it has none of that name, or imports it."""
        if name in self._module.functions:
            return (Callee(self._module.functions[name]),)
        if name in self._module.classes:
            return (Instance(self._module.classes[name], CLASS),)
        return None if name in self._module.imports else self.values().get(name)

    def text_of(self, name: str) -> Value | None:
        """Return the value of a name or a chain of names of the module, for one that imports it."""
        return self._scope(self, self._module, outer=(self.values(),)).text_of(name)

    def origins(self, name: str) -> Iterable[Imported]:
        """Return the imports that a name of the module can come from, for one that imports it from here."""
        return self._scope(self, self._module).origins(name)

    def function(self, name: str) -> Callee | None:
        """Return a function of the module, or what it exports as its default."""
        if name in self._module.functions:
            return Callee(self._module.functions[name])
        exported = self.values().get("default", ()) if name == "default" else ()
        return next((one for one in exported if isinstance(one, Callee)), None)

    @cached_property
    def _history(self) -> RewrittenHistory:
        return RewrittenHistory(self._module.source, self._cuts_elsewhere)

    def _cuts_elsewhere(self, name: str) -> bool:
        root, _, rest = name.partition(".")
        found = (self.imports.function(origin, rest) for origin in self.origins(root))
        return any(one[0].cuts(one[1]) for one in found if one is not None)

    def cuts(self, called: Callee) -> bool:
        """Return whether a function of the module returns a history that it cuts."""
        return self._history.cuts(called.function.node)

    def call_from(self, called: Callee, node: ast.Call, scope: Names) -> Value:
        """Return what a function of the module gives for a call in another one.

        What its own file reports is hidden there, and what may vary by a name that only that file has.
        """
        spot = scope.source.spot_of(node)

        def change(piece: Piece) -> Value | None:
            if isinstance(piece, Literal):
                return (replace(piece, start=0, stop=0, source=None),) if piece.source is not scope.source else None
            if isinstance(piece, Callee | Instance):
                return ()  # the code of another file has no places in this one
            if not isinstance(piece, Hole) or piece.spot.path != self._module.path:
                return None
            given = piece.made is not None and piece.made != spot and piece.made.path == spot.path
            unsure = not piece.certain and not given and self._is_read
            reported = self._reported_places.get(piece.spot)
            put = piece.at(spot) if reported is None else replace(piece, spot=spot, made=piece.spot)
            return (replace(put, hidden=piece.hidden or unsure or reported is True),)

        return changed(self.call(called, node, scope), change)

    @cached_property
    def _reported_places(self) -> dict[TemplatePlace, bool]:
        """The places that lint of this file reports, and whether it says all of them: what it does not see to be sent,
        where names are not trusted, is information there."""
        reported: dict[TemplatePlace, bool] = {}
        names = self._module.source.trusts_names
        for nodes in reported_once(self.found.all(), self.declared) if self._is_read else ():
            for leaf in leaves(nodes):
                if isinstance(leaf, Hole):
                    reported[leaf.spot] = reported.get(leaf.spot, False) or names or not leaf.minor
        return reported

    @cached_property
    def _is_read(self) -> bool:
        """Whether lint of a folder reads the file: of TypeScript only what speaks of models."""
        return self._module.path.endswith(".py") or speaks_of_models(self._module.source.text)

    def body(self, cls: ClassCode) -> dict[str, Value]:
        """Return the values of the names in the body of a class."""
        if cls not in self._bodies:
            self._bodies[cls] = {}
            scope = self._scope(self, self._module, outer=(self.values(),))
            self._run(
                scope, [one for one in cls.node.body if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            )
            self._bodies[cls] = scope.values
            if is_tool(cls.node):
                self.found.add_holes(
                    leading([piece for name in OF_TOOLS for piece in scope.values.get(name, ())], dates=True)
                )
        return self._bodies[cls]

    def bases(self, cls: ClassCode) -> Iterable[ClassCode]:
        """A class and those that it inherits from, as far as the module defines them."""
        waiting, seen = [cls], 0
        while waiting and seen < _MOST_BASES:
            seen += 1
            one = waiting.pop(0)
            yield one
            names = [base.id for base in one.node.bases if isinstance(base, ast.Name)]
            waiting += [self._module.classes[name] for name in names if name in self._module.classes]

    def is_text(self, cls: ClassCode) -> bool:
        """Return whether an object of a class is a text: the class is made of `str`."""
        return any(
            isinstance(base, ast.Name) and base.id == "str" for one in self.bases(cls) for base in one.node.bases
        )

    def method(self, cls: ClassCode, name: str) -> FunctionCode | None:
        return next((one.methods[name] for one in self.bases(cls) if name in one.methods), None)

    def attribute(self, cls: ClassCode, name: str, depth: int, given: tuple[tuple[str, Value], ...] = ()) -> Value:
        """Return the value of an attribute: a property, an assignment in methods, or one in the class.

        `given` is what the object was made with; without it, what its constructor is given stays a parameter of that name.
        """
        value = self._attribute(cls, name, depth)
        return substituted(value, filler(dict(given), {}), [_MOST_NODES]) if given and given is not CLASS else value

    def _attribute(self, cls: ClassCode, name: str, depth: int) -> Value:
        if depth > _MOST_DEPTH:
            return ()
        function = self.method(cls, name)
        if function is not None:
            if function.is_property:
                return self._free(self.summary(function, depth + 1).value)
            return (Callee(function, cls),)
        for one in self.bases(cls):
            written = one.written.get(name, ())
            values = [self.body(one)[name]] if name in self.body(one) else []
            grown = name in one.grown
            for writer in written[: _MOST_WRITERS * (1 + grown)]:
                if grown and writer in self._running and writer.node.name != "__init__":
                    break  # what methods add stands in the order in which they do
                attributes = self.summary(writer, depth + 1).attributes or {}
                if f"self.{name}" in attributes:
                    values.append(_of_object(attributes[f"self.{name}"], writer))
            values = [value for value in values if value]
            if values:
                return either(*values[: _MOST_WRITERS * (1 + grown)])
            if written or name in self.body(one):
                return ()
        return ()

    @staticmethod
    def _free(value: Value) -> Value:
        return substituted(value, lambda param: (param.hole,) if param.hole is not None else (), [_MOST_NODES])

    # Calls

    def summary(self, function: FunctionCode, depth: int = 0, outer: Sequence[Mapping[str, Value]] = ()) -> Summary:
        """Return the result of a function for any arguments; nothing while it is being read (it calls itself) or too deep.

        What it gave to others that were read meanwhile was not all: those are read once more when they are asked for again.
        """
        known = self._summaries.get(function)
        if known is not None:
            return known
        if function in self._running:
            self._asked.add(function)
            return _NOTHING
        partly, missing = self._partly.get(function, (_NOTHING, frozenset()))
        if not missing.isdisjoint(self._running):
            self._asked |= missing & self._running
            return partly
        if depth > _MOST_DEPTH:
            return _NOTHING
        if not work_left():
            self.unread.append(function.node.name)
            return partly
        self._running.add(function)
        asked, self._asked = self._asked, set()
        try:
            scope = self._scope(
                self,
                self._module,
                cls=function.cls,
                outer=outer or (self.values(),),
                label=function.node.name,
                depth=depth,
                silent=function.node.name in _SILENT,
            )
            result = scope.read_function(function)  # type: ignore[attr-defined]  # the reader of statements adds it
            assert isinstance(result, Summary)
        except (RecursionError, TooMuchWorkError):
            self.unread.append(function.node.name)
            result = _NOTHING
        finally:
            self._running.discard(function)
            self._asked.discard(function)
            unknown = frozenset(self._asked)
            self._asked |= asked
        if unknown and function not in self._partly:
            self._partly[function] = result, unknown  # to be read once more when those are known
            return result
        self._summaries[function] = result
        return result

    def _returned(self, function: FunctionCode, depth: int) -> Value:
        """Return what a function gives, with what its arguments may be."""
        return self._free(self.summary(function, depth).value)

    def nested(self, function: FunctionCode, scope: Names) -> Summary:
        """A function within another: it sees what is around it."""
        return self.summary(function, scope.depth + 1, (scope.values, *scope.outer))

    def _run(self, scope: Names, body: list[ast.stmt]) -> None:
        try:
            scope.run(body)  # type: ignore[attr-defined]  # the same
        except (RecursionError, TooMuchWorkError):
            self.unread.append(_OWN_BODY)

    def constant_of(self, target: Callee) -> Constant | None:
        """Return the first constant of a function that is seen to return constants only; None for any other."""
        return self._summaries.get(target.function, _NOTHING).constant

    def call(self, target: Callee, node: ast.Call, scope: Names) -> Value:
        """Return the value of a call with its arguments, and hand on what goes into prompts."""
        given = self._bound(target.function, target.bound, node, scope)
        summary = self.summary(target.function, scope.depth + 1)
        self._hand_on(summary, given, scope)
        unknown = self._unknown(given, target.function, node, scope)
        fill, named = filler(given, unknown), target.function.parameters()

        def bare(param: Param) -> Value:
            return given.get(param.name, (param,) if param.name.startswith("self.") else ())

        for one in summary.renders:
            scope.render_with(_given_to(one, lambda value: substituted(value, bare, [_MOST_NODES])), node, named)
        for chat in summary.chats:
            texts = ((role, substituted(text, fill, [_MOST_NODES])) for role, text in chat.messages)
            scope.send(replace(chat, messages=tuple(texts)), node)
        return substituted(summary.value, fill, [_MOST_NODES], scope.source.spot_of(node))

    @staticmethod
    def _unknown(given: Mapping[str, Value], function: FunctionCode, node: ast.Call, scope: Names) -> dict[str, Hole]:
        """The parameters that a call gives something of which nothing is known but that it is given, and what that says."""
        names = [*zip(function.parameters(), node.args, strict=False)]
        names += [(word.arg, word.value) for word in node.keywords if word.arg is not None]
        holes = ((name, scope.asked_of(one)) for name, one in names if not given.get(name))
        return {name: hole for name, hole in holes if hole is not None}

    def made(self, target: Instance, node: ast.Call, scope: Names) -> Instance:
        """An object is made: what its constructor hands on, and the object with what it was given."""
        init = self.method(target.cls, "__init__")
        if init is None:
            words = {word.arg: scope.value_of(word.value) for word in node.keywords if word.arg}
            fields = [
                one.target.id
                for one in target.cls.node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
            words |= {name: scope.value_of(one) for name, one in zip(fields, node.args, strict=False)}
            return Instance(target.cls, tuple(words.items()))
        given = self._bound(init, (), node, scope)
        self._hand_on(self.summary(init, scope.depth + 1), given, scope)
        return Instance(target.cls, tuple((f"self.{name}", value) for name, value in given.items()))

    def called_method(self, target: Instance, name: str, depth: int) -> Value:
        function = self.method(target.cls, name)
        return () if function is None else self._free(self.summary(function, depth + 1).value)

    def _bound(
        self, function: FunctionCode, bound: tuple[tuple[str, Value], ...], node: ast.Call, scope: Names
    ) -> dict[str, Value]:
        given = dict(bound)
        names = [name for name in function.parameters() if name not in given]
        for name, argument in zip(names, node.args, strict=False):
            if isinstance(argument, ast.Starred):
                break
            given[name] = self._given(argument, scope)
        for word in node.keywords:
            if word.arg is not None:
                given[word.arg] = self._given(word.value, scope)
        return given

    @staticmethod
    def _given(node: ast.expr, scope: Names) -> Value:
        return scope.value_of(node)

    def _hand_on(self, summary: Summary, given: dict[str, Value], scope: Names) -> None:
        telling = {name for name, value in given.items() if varies(value) or has_param(value)}
        if not telling:
            return
        for value, evidence in summary.sinks:
            if not any(isinstance(piece, Param) and piece.name in telling for piece in pieces_of(value)):
                continue
            own = substituted(value, filler(given, {}), [_MOST_NODES])
            scope.told(own, evidence)


def _given_to(rendering: RenderCall, fill: Callable[[Value], Value]) -> RenderCall:
    """Return a rendering with what a caller gives."""
    values = tuple((key, fill(value)) for key, value in rendering.values)
    return replace(rendering, name=fill(rendering.name), values=values, mappings=tuple(map(fill, rendering.mappings)))


def _of_object(value: Value, writer: FunctionCode) -> Value:
    """Return the value that a method assigns to an attribute, for other methods: its own arguments belong to the object."""
    prefix = "self." if writer.node.name == "__init__" else f"self.{writer.node.name}()."

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Param) and not piece.name.startswith("self."):
            return (replace(piece, name=f"{prefix}{piece.name}"),)
        if isinstance(piece, Hole) and piece.given:
            return (replace(piece, given=False),)
        return None

    return changed(value, change)
