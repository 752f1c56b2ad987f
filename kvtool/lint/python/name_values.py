"""Values of names: variables and attributes; and the handling of finished texts."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.evidence.placeholders import constant_text
from kvtool.lint.evidence.prompt_evidence import (
    Evidence,
    is_prompt_file,
    is_prompt_name,
    is_system_name,
    is_template_name,
    speaks_of_models,
)
from kvtool.lint.evidence.value_precision import DATE, id_of, sure_kind
from kvtool.lint.evidence.volatile_calls import RANDOM, order_hole, process_variable
from kvtool.lint.passed_values import Constant, RenderedFile
from kvtool.lint.python.assignments import Assigned
from kvtool.lint.python.changed_values import backwards
from kvtool.lint.python.chats import Chats
from kvtool.lint.python.imported_texts import ImportedTexts, at_use
from kvtool.lint.python.module import ClassCode, FunctionCode, Imported, Module
from kvtool.lint.python.syntax import KNOWN_ROOT, counted_target, dotted
from kvtool.lint.python.text_values import (
    MOST_INSIDE,
    Callee,
    Instance,
    Items,
    Literal,
    Many,
    Param,
    RenderCall,
    SentChat,
    Value,
    either,
    has_fields,
    has_param,
    pieces_of,
    varies,
    ways,
)
from kvtool.lint.skeleton import Hole, TemplatePlace

_MOST_SINKS = 30
_MOST_ELEMENTS = 40
_MOST_VARYING = 8
"""Elements of a collection that are looked at, and of those that vary, that a name of a loop may mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The result of a function, the values that it hands to prompts, and the attributes that it leaves."""

    value: Value = ()
    sinks: tuple[tuple[Value, Evidence], ...] = ()
    attributes: dict[str, Value] | None = None
    renders: tuple[RenderCall, ...] = ()
    chats: tuple[SentChat, ...] = ()
    constant: Constant | None = None
    """The first constant that it returns, where it is seen to return constants only."""


class PromptCollector(Protocol):
    """Where finished texts go (`program_prompts.ModulePrompts`)."""

    def done(self, scope: Names, value: Value, evidence: Evidence) -> None: ...
    def lead(self, value: Value) -> None: ...
    def add_holes(self, holes: Iterable[Hole]) -> None: ...


class ProgramReader(Protocol):
    """The program that scopes belong to: it reads functions and classes, and collects prompts (`program.Program`)."""

    declared: set[TemplatePlace]
    rendered: list[RenderedFile]
    imports: ImportedTexts
    chats: Chats

    @property
    def found(self) -> PromptCollector: ...

    def value_in_module(self, name: str) -> Value | None: ...
    def attribute(self, cls: ClassCode, name: str, depth: int, given: tuple[tuple[str, Value], ...] = ()) -> Value: ...
    def bases(self, cls: ClassCode) -> Iterable[ClassCode]: ...
    def is_text(self, cls: ClassCode) -> bool: ...
    def method(self, cls: ClassCode, name: str) -> FunctionCode | None: ...
    def called_method(self, target: Instance, name: str, depth: int) -> Value: ...
    def call(self, target: Callee, node: ast.Call, scope: Names) -> Value: ...
    def made(self, target: Instance, node: ast.Call, scope: Names) -> Instance: ...
    def nested(self, function: FunctionCode, scope: Names) -> Summary: ...
    def summary(self, function: FunctionCode, depth: int = 0) -> Summary: ...
    def constant_of(self, target: Callee) -> Constant | None: ...


class Names(ABC):
    """Values of names in one function, class body or module; `values` are those that it assigns itself."""

    def __init__(
        self,
        program: ProgramReader,
        module: Module,
        *,
        cls: ClassCode | None = None,
        outer: Sequence[Mapping[str, Value]] = (),
        label: str = "",
        depth: int = 0,
        silent: bool = False,
    ) -> None:
        self.program = program
        self.module = module
        self.source = module.source
        self.cls = cls
        self.outer = outer
        """What the names around it mean, the innermost first."""
        self.depth = depth
        self.values = Assigned()
        self.unknown: set[str] = set()
        """Names that were assigned something of which nothing is known: what they are called may say it."""
        self.imports: dict[str, Imported] = {}
        self.renders: list[RenderCall] = []
        self.chats: list[SentChat] = []
        self.globals: set[str] = set()
        self.keywords_name = ""
        self.sinks: list[tuple[Value, Evidence]] = []
        self._label = label
        self.subject = ""
        """The name that a text is reported under."""
        self.naming = False
        """Whether what is reported is named for what is before a conversation."""
        self._says = Evidence.NAME if is_prompt_name(label) else Evidence.NOTHING
        self._silent = silent
        self.in_function = False
        self.asks_for = False
        """Whether the function that is read takes something of its own, beside the object that it belongs to."""
        self.known: dict[ast.expr, tuple[int, tuple[bool, bool], Value]] = {}
        """What expressions of the statement that is read gave, and after which assignment: some are asked for several times."""
        self.unread: set[str] = set()
        """Names that nothing has asked for since they were assigned: what is assigned over them takes nothing away."""
        self.turned: set[str] = set()
        """Names of lists that are read backwards: they are reported so."""
        self.elements: frozenset[str] | set[str] = frozenset()
        """Names of elements of what callers give, in the loop that is read."""
        self.given: set[str] = set()
        """Names that were assigned something of which only is known that it is made of what callers give."""
        self.turns: set[str] = set()
        """Names of loops that ask a model in each of their turns, and what is made of them there: another in each request."""
        self.answers: set[str] = set()
        """Names that were assigned what a model answered or the world gave, or something of it: another in each request."""
        self.kept: set[str] = set()
        """Names that were assigned something of which only is known that the object was made with it."""
        self._file = Evidence.FILE if is_prompt_file(module.path) else Evidence.NOTHING

    @property
    def label(self) -> str:
        """The name of the text that is reported, else those of the class and the function that are read."""
        owner = self.cls.node.name if self.cls is not None else ""
        names = (owner, self.subject.removeprefix("self.") or self._label)
        return "-".join(name for name in names if name and not name.startswith("__"))

    def canonical(self, name: str) -> str:
        """A dotted name with what its first part was imported as: `dt.now` is `datetime.datetime.now`."""
        root, dot, rest = name.partition(".")
        if root == KNOWN_ROOT:
            return rest
        if root in self.values or not root:
            return name
        origin = self.imports.get(root) or self.module.imports.get(root)
        return f"{origin.full.lstrip('./')}{dot}{rest}" if origin is not None else name

    def variable(self, node: ast.expr, name: str) -> Value:
        """Return the value of a name or a chain of names."""
        spot = self.source.spot_of(node)
        value = self._known_value(name)
        if value is not None:
            known = any(name in values for values in (self.values, *self.outer))
            if not value and (not known or name in self.unknown) and (hole := self.by_name(name, spot)) is not None:
                return (hole,)
            return value
        if texts := self._imported_texts(name):
            span = self.source.span(node)
            return at_use(texts, lambda text: Literal(text, *span, self.source, shown=True, imported=True))
        hole = process_variable(self.canonical(name), spot) or self.by_name(name, spot) or self._elsewhere(name, spot)
        return (hole,) if hole is not None else ()

    def _known_value(self, name: str) -> Value | None:
        value, rest = self._base(name)
        for attribute in rest.split(".") if rest and value is not None else ():
            value = self.attribute_of(value or (), attribute)
        return value

    def text_of(self, name: str) -> Value | None:
        """Return the value of a name or a chain of names, for a module that imports it."""
        value = self._known_value(name)
        return self._imported_texts(name) if value is None else value

    def origins(self, name: str) -> Iterator[Imported]:
        """Yield the imports that a name can come from; none for one that the module defines itself."""
        imports = self.module.imports | self.imports
        if name in imports:
            yield imports[name]
        elif not self.module.has(name):
            yield from (Imported(one.module, name) for one in imports.values() if one.name == "*")

    def _imported_texts(self, name: str) -> Value | None:
        """Return constant texts of another module of the project."""
        root, _, rest = name.partition(".")
        found = (self.program.imports.value_of(origin, rest) for origin in self.origins(root))
        return next((value for value in found if value is not None), None)

    def imported_call(self, written: str, node: ast.Call) -> Value | None:
        """Return what a function of another module of the project gives; None for any other call."""
        root, _, rest = written.partition(".")
        if not root or root in self.values:
            return None
        found = (self.program.imports.call(origin, rest, node, self) for origin in self.origins(root))
        return next((value for value in found if value is not None), None)

    def imported_constant(self, node: ast.expr) -> Hole | None:
        """Return the hole of an imported constant whose text is not known; it is the same in all requests."""
        name = dotted(node)
        if not name.rpartition(".")[2].isupper() or self._base(name)[0] is not None:
            return None
        if not any(self.origins(name.partition(".")[0])) or self._imported_texts(name):
            return None
        return constant_text(name, self.source.spot_of(node))

    def _elsewhere(self, name: str, spot: TemplatePlace) -> Hole | None:
        """Return the hole of a prompt that another module holds, by its name: `SYSTEM_PROMPT`, which is imported."""
        last = name.rpartition(".")[2]
        root = name.partition(".")[0]
        if not last.isupper() or not is_prompt_name(last) or not (root in self.imports or root in self.module.imports):
            return None
        return Hole(spot, OTHER, f"`{name}`", doubt="open", hidden=True, unseen=f"the text of `{name}`")

    def _base(self, name: str) -> tuple[Value | None, str]:
        """The value of the longest beginning of a chain that is known, and what is left of it; None: of its first name, too."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            head = ".".join(parts[:length])
            for values in (self.values, *self.outer):
                if head in values:
                    self.unread.discard(head)
                    return values[head], ".".join(parts[length:])
        root = parts[0]
        rest = ".".join(parts[1:])
        if root in ("self", "cls") and self.cls is not None and len(parts) > 1:
            return self.program.attribute(self.cls, parts[1], self.depth), ".".join(parts[2:])
        found = None if root in self.imports else self.program.value_in_module(root)
        return found, "" if found is None else rest

    @abstractmethod
    def attribute_of(self, value: Value, attribute: str) -> Value:
        """An attribute or a key of a value."""

    def by_name(self, name: str, spot: TemplatePlace) -> Hole | None:
        """The hole of something of which only the name is known."""
        last = name.rpartition(".")[2]
        if last.isupper():
            return None  # a constant
        kind = sure_kind(last.removeprefix("get_")) or id_of(name)
        return None if kind is None else Hole(spot, kind, f"`{name}`")

    @abstractmethod
    def asked_of(self, node: ast.expr) -> Hole | None:
        """The hole of something of which nothing is known but where it comes from."""

    @abstractmethod
    def element_name(self, node: ast.expr) -> str:
        """Return the name of something that callers give, or of an element of it; empty for any other."""

    @abstractmethod
    def of_loop(self, value: Value, node: ast.expr) -> Value:
        """Return a value for a text, with a hole where only a loop over something unknown is known."""

    @abstractmethod
    def is_given(self, node: ast.expr) -> bool:
        """Return whether something is made of what callers give, or of what is another in each call by where it comes from."""

    @abstractmethod
    def asks(self, body: list[ast.stmt]) -> bool:
        """Return whether statements ask a model."""

    @abstractmethod
    def bind_unknown(self, target: ast.expr, over: ast.expr) -> None:
        """The names of a loop over something of which only its origin is known have that origin."""

    @abstractmethod
    def is_kept(self, node: ast.expr) -> bool:
        """Return whether it is what an object was made with, or a form of it."""

    @abstractmethod
    def value_of(self, node: ast.expr) -> Value:
        """Return the known text of an expression."""

    @abstractmethod
    def render_with(self, rendering: RenderCall, node: ast.Call, parameters: Collection[str]) -> None:
        """A call gives a template of another function its name or values; those for `parameters` are in it already."""

    @abstractmethod
    def send(self, chat: SentChat, node: ast.Call) -> None:
        """A call sends a chat, by itself or through another function."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        """A target of an assignment means a value from here on; `node` is what is assigned, where it is seen."""

    @staticmethod
    def each(over: Value, most: int) -> tuple[Value, ...]:
        """The elements that are gone over, where all of them are known, in this order, and are few; else none."""
        items = over[0] if len(over) == 1 else None
        if not isinstance(items, Items) or items.order is not None or not 0 < len(items.values) <= most:
            return ()
        if any(not one or isinstance(one[0], Many) for one in items.values):
            return ()
        return items.values

    def bind_element(self, target: ast.expr, over: Value, node: ast.expr) -> None:
        """The names of a loop mean the elements, as far as those are known; `node` is what it goes over."""
        if (counted := counted_target(target, node)) is not None:
            target = counted[1]
        elements = [one for piece in over if isinstance(piece, Items) for one in piece.values][:_MOST_ELEMENTS]
        one: Value = ()
        if isinstance(target, ast.Name) and not elements:
            one = tuple(Param(piece.name) for piece in ways(over) if isinstance(piece, Param))
        elif isinstance(target, ast.Name):
            one = elements[0] if len(elements) == 1 else self._one_of(elements)
        elif len(elements) == 1 and len(elements[0]) == 1 and isinstance(elements[0][0], Items):
            self.assign(target, elements[0], None)
            return
        taken = tuple(piece for piece in over if isinstance(piece, Hole) and piece.kind is RANDOM)
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self.values[name.id] = one or taken
                self.unknown.discard(name.id)

    @staticmethod
    def _one_of(elements: list[Value]) -> Value:
        """One of several elements: only those that vary, in the text that they are in, for they are reported there."""
        varying = [one for one in elements if varies(one) or has_param(one)][:_MOST_VARYING]
        return either(*varying) if varying else ()

    # What becomes of texts

    def reversed_origin(self, node: ast.expr) -> Value:
        """Return the value of a list that is read backwards."""
        if isinstance(node, ast.Name):
            self.turned.add(node.id)
        return backwards(self.value_of(node))

    def told(self, value: Value, evidence: Evidence) -> None:
        """Hand on a text that is finished, with what the code says of it."""
        if not value or self._silent or not (varies(value) or has_param(value) or has_fields(value)):
            return
        evidence = max(evidence, self._file)
        naming, self.naming = self.naming, False  # the elements of a list are no such texts by themselves
        if naming and evidence >= Evidence.NAME:
            self.program.found.lead(value)
        self.program.found.done(self, value, evidence)
        self.naming = naming

    def reported_as(self, name: str, value: Value, evidence: Evidence | None = None) -> None:
        """Hand on a text under its name, which may say that it is a prompt, or what is before a conversation."""
        known = self.naming, self.subject
        if evidence is None:
            evidence, self.subject = self._named(name), name
        self.naming = is_system_name(name)
        self.told(value, evidence)
        self.naming, self.subject = known

    def _named(self, name: str) -> Evidence:
        """Return the evidence in the name of a text: a template's name counts where the module asks models."""
        if is_prompt_name(name):
            return Evidence.NAME
        if not is_template_name(name):
            return Evidence.NOTHING
        return Evidence.NAME if speaks_of_models(self.module.source.text) else Evidence.FILE

    def returned(self, value: Value) -> None:
        self.reported_as(self._label, value, self._says)

    def tools(self, value: Value, node: ast.expr) -> None:
        """Tools are before all else: their order decides over the whole prompt."""
        for piece in value:
            order = (
                piece.order if isinstance(piece, Items) else piece if isinstance(piece, Hole) and piece.order else None
            )
            if order is not None:
                hole = order_hole(order, "tools", self.source.spot_of(node))
                hole = replace(hole, leads=True, minor=hole.minor and not hole.capped)
                self.program.found.add_holes([hole])

    def tool_text(self, value: Value) -> None:
        """The text of a tool is before all messages: a clock in it changes the whole prompt."""
        holes = [piece for piece in pieces_of(value) if isinstance(piece, Hole) and piece.clock]
        self.program.found.add_holes([replace(hole, leads=True) for hole in holes])

    def somewhere(self, values: list[Value], base: ast.expr) -> None:
        """Values that are filled into a template that is not seen, where it is named as a prompt."""
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if self._silent or not is_prompt_name(name):
            return
        holes = [piece for value in values for piece in pieces_of(value) if isinstance(piece, Hole)]
        self.program.found.add_holes(
            [replace(hole, elsewhere=True, minor=True) for hole in holes if hole.clock and hole.kind is not DATE]
        )

    def add_sink(self, value: Value, evidence: Evidence) -> None:
        if len(self.sinks) < _MOST_SINKS and sum(1 for _ in pieces_of(value, MOST_INSIDE)) < MOST_INSIDE:
            self.sinks.append((value, evidence))
