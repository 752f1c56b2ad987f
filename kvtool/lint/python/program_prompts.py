"""The prompts that were found in a module, each once, with the strongest of what the code says of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from kvtool.lint.evidence.prompt_evidence import (
    Belief,
    Evidence,
    belief,
    is_prompt_name,
    reads_as_reply,
    speaks_of_models,
)
from kvtool.lint.evidence.surrounding_text import with_clocks, with_data, without_profiles
from kvtool.lint.python.chats import LEAST_TEXT
from kvtool.lint.python.module import Module
from kvtool.lint.python.name_values import Names
from kvtool.lint.python.text_values import MESSAGE_KEYS, Items, Mapped, Piece, Value
from kvtool.lint.python.varying_texts import judged, key_of
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import CONVERSATION, MARKED_BLOCK, Hole, Node, before_values, leaves

_READ = 20_000
"""Characters of which is asked how they read; each is a step."""


class ModulePrompts:
    """Prompts of a module, as nodes that say how sure each thing that varies is."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[tuple[object, ...], tuple[Evidence, list[Node], str]] = {}

    def all(self) -> list[list[Node]]:
        """Return the prompts in the order in which they were found."""
        return [nodes for _, nodes, _ in self._found.values()]

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
        weak, unnamed = how is Belief.WEAK, evidence is Evidence.NOTHING
        late = evidence is not Evidence.FILE and reads_as_reply(text, before_values(nodes))
        settled = without_profiles(with_data(with_clocks(nodes)), self._module.source.text)
        self._found[key] = evidence, judged(settled, weak=weak, unnamed=unnamed, late=late), name

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
