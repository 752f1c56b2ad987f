"""The prompts that were found in a module, each once, with the strongest of what the code says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain

from kvtool.lint.evidence.prompt_evidence import (
    Belief,
    Evidence,
    belief,
    is_prompt_name,
    reads_as_reply,
    speaks_of_models,
)
from kvtool.lint.evidence.surrounding_text import with_clocks, with_data, without_profiles
from kvtool.lint.python.changed_values import system_first
from kvtool.lint.python.chats import LEAST_TEXT, Chats, messages_in
from kvtool.lint.python.filled_templates import nodes_of
from kvtool.lint.python.module import FunctionCode, Module
from kvtool.lint.python.name_values import Names
from kvtool.lint.python.rendered_files import roles_of_files
from kvtool.lint.python.text_values import (
    MESSAGE_KEYS,
    Callee,
    Items,
    Literal,
    Mapped,
    Message,
    Piece,
    Value,
    has_fields,
    has_param,
    pieces_of,
    text_of,
    varies,
)
from kvtool.lint.python.varying_texts import asked_for, judged, key_of, leading, written_length
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import CONVERSATION, MARKED_BLOCK, Hole, Node, before_values, leaves, with_holes

_LEAST_LEADING = 24
"""Characters of constant text, below which nothing is before a conversation."""
_EACH_NODE = 10
"""Steps for each node of a text that is reported: it is looked at many times."""
_MOST_NODES = 5_000
_ANSWERS = frozenset(("assistant", "ai", "tool", "function", "model"))
"""Who sends what is only ever added at the end."""
_LEADS = frozenset(("system", "developer"))
_READ = 20_000
"""Characters of which is asked how they read; each is a step."""


class ModulePrompts:
    """Prompts of a module, as nodes that say how sure each thing that varies is."""

    def __init__(self, module: Module, returned: Callable[[FunctionCode, int], Value]) -> None:
        """`returned` gives what a function returns."""
        self._module = module
        self._returned = returned
        self.chats = Chats(module.path)
        self.roles: set[tuple[str, str]] = set()
        """Files whose text is in messages, by name, and the roles of these."""
        self._found: dict[tuple[object, ...], tuple[Evidence, list[Node], str]] = {}

    def all(self) -> list[list[Node]]:
        """Return the prompts in the order in which they were found."""
        return [nodes for _, nodes, _ in self._found.values()]

    def done(self, scope: Names, value: Value, evidence: Evidence) -> None:
        """A finished text: a prompt, or for each element where it is a collection of others."""
        value = apart(scope, value, evidence)
        written = evidence < Evidence.SENT and not scope.in_function  # a constant, which code fills before it sends it
        messages = [piece for piece in pieces_of(value, 200) if isinstance(piece, Message)]
        roles = [piece.role for piece in messages]
        self.roles |= {said for piece in messages for said in roles_of_files(piece)}
        if roles:
            value = system_first(value)
            if all(role in _ANSWERS for role in roles):
                return
            evidence = Evidence.ASKED
            self._leading(value, roles)
            if not written:
                self.chats.add(messages_in(value), scope.label)
        elif evidence < Evidence.SENT and not any(
            isinstance(one, str | Literal) and text_of(one).strip() for one in value
        ):
            value = report_elements(scope, value, evidence)
        if evidence is Evidence.ASKED:
            value = asked_for(value)
        if evidence >= Evidence.SENT:
            called = [self._returned(piece.function, scope.depth + 1) for piece in value if isinstance(piece, Callee)]
            value = (*value, *chain.from_iterable(called))
        if has_param(value) and evidence >= Evidence.NAME:
            scope.add_sink(value, evidence)
        unfilled = written or evidence < Evidence.ASKED
        if varies(value) or (unfilled and has_fields(value)):
            left = [_MOST_NODES]
            nodes = nodes_of(value, unfilled=unfilled, most=left)
            spend(_EACH_NODE * (_MOST_NODES - left[0]))
            self.add(nodes, evidence, scope.label)

    def _leading(self, value: Value, roles: list[str]) -> None:
        """A clock or an id in a system message: at its end, too, the whole conversation follows it, where that is not seen."""
        if not all(role in _LEADS for role in roles):
            return
        self.add_holes([replace(hole, minor=True) for hole in leading(value)])

    def lead(self, value: Value) -> None:
        """The same of a text that is named for what is before a conversation; lists of other things are no text."""
        if written_length(value) >= _LEAST_LEADING and not any(isinstance(piece, Items | Mapped) for piece in value):
            self._leading(value, [])

    def names(self) -> tuple[str, ...]:
        """Return what the code calls each of them, or what makes it."""
        return tuple(name for _, _, name in self._found.values())

    def add(self, nodes: list[Node], evidence: Evidence, name: str) -> None:
        """Add a text that may be a prompt: it is one where the code and how it reads say so."""
        key = tuple(key_of(node) for node in nodes)
        if (key in self._found and self._found[key][0] >= evidence) or not any(
            isinstance(leaf, Hole) for leaf in leaves(nodes)
        ):
            return
        text = "".join(leaf for leaf in leaves(nodes) if isinstance(leaf, str))
        unseen = {leaf.unseen for leaf in leaves(nodes) if isinstance(leaf, Hole) and leaf.unseen}
        goes_on = not unseen.isdisjoint((CONVERSATION, MARKED_BLOCK)) or (bool(unseen) and evidence is Evidence.ASKED)
        if len(text) < LEAST_TEXT and not goes_on:
            return
        spend(min(len(text), _READ))
        how = Belief.STRONG if goes_on else belief(evidence, text)
        if evidence is Evidence.NOTHING and how is Belief.WEAK and not self._speaks_of_models:
            how = Belief.NO
        if how is Belief.NO:
            return
        names = self._module.source.trusts_names
        weak, unnamed = how is Belief.WEAK or not (names or evidence >= Evidence.SENT), evidence is Evidence.NOTHING
        late = evidence is not Evidence.FILE and reads_as_reply(text, before_values(nodes))
        settled = without_profiles(with_data(with_clocks(nodes)), self._module.source.text)
        settled = with_holes(settled, lambda hole: replace(hole, hidden=hole.hidden or self._is_foreign(hole)))
        self._found[key] = evidence, judged(settled, weak=weak, unnamed=unnamed, late=late, names=names), name

    def _is_foreign(self, hole: Hole) -> bool:
        """Return whether a value is in another file, which reports it."""
        return hole.spot.path != self._module.path

    @cached_property
    def _speaks_of_models(self) -> bool:
        """Whether the module speaks of models; asked where nothing else says that a text is for one."""
        return speaks_of_models(self._module.source.text)

    def add_holes(self, holes: Iterable[Hole]) -> None:
        """Add holes that are reported wherever their text is."""
        for hole in holes:
            self._found[hole.spot, hole.kind.key] = Evidence.ASKED, [hole], ""


def apart(scope: Names, value: Value, evidence: Evidence) -> Value:
    """Hand on what a mapping holds that is no text itself: the body of a request, what a call is given; and give the rest."""
    whole: list[Piece] = []
    for piece in value:
        if not isinstance(piece, Mapped) or any(piece.get(key) is not None for key in MESSAGE_KEYS):
            whole.append(piece)
            continue
        for key, one in piece.pairs:
            says = Evidence.NAME if is_prompt_name(key) else Evidence.NOTHING
            scope.reported_as(key, one, says if evidence >= Evidence.SENT else max(evidence, says))
    return tuple(whole)


def report_elements(scope: Names, value: Value, evidence: Evidence) -> Value:
    """Hand on the elements of collections each by itself, and give what is left."""
    for piece in value:
        if isinstance(piece, Items):
            for one in piece.values:
                scope.told(one, evidence)
        elif isinstance(piece, Mapped):
            for _, one in piece.pairs:
                scope.told(one, evidence)
    return tuple(piece for piece in value if not isinstance(piece, Items | Mapped))
