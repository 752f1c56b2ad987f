"""Shared prefixes: the heaviest parts of the tree of all prompts, by their places in the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kvtool.accounting.prefix_tree import RadixTree
from kvtool.accounting.views.tree_nodes import Known, Owner, TreePart, WeighedTree
from kvtool.accounting.views.written_places import NOWHERE, WrittenPlace, WrittenPlaces
from kvtool.results.views import PrefixTree, TreeNode
from kvtool.text.tokens.prompt import Ids, Prompt

MOST_NODES = 200
"""Parts of the drawn tree."""
MOST_GROUPS = 4
"""Groups named at a part of the tree."""


def prefix_tree(
    trees: Mapping[int | None, RadixTree],
    owner: Owner,
    known: Known,
    prompts: Iterable[Prompt],
    *,
    most: int = MOST_NODES,
) -> PrefixTree | None:
    """Return the view of the tree with most tokens; None without prompts. `trees` are as those of the ledger.

    `known` has the prompts without an edge of their own. `prompts` are a sample, to find the places of text in the source.
    """
    weighed = {unit: WeighedTree(tree, unit or 1, owner).heaviest(most, known) for unit, tree in trees.items()}
    if not weighed:
        return None
    unit, (_, parts) = max(weighed.items(), key=lambda item: item[1][0])
    numbers = {part: number for number, part in enumerate(parts)}
    places = _places(parts, prompts) if unit is None else [NOWHERE] * len(parts)
    nodes = [
        TreeNode(
            parent=None if part.parent is None else numbers[part.parent],
            start=part.start,
            tokens=part.stop - part.start,
            requests=part.requests,
            groups=_most(part),
            path=place.path,
            line=place.line,
            part=place.part,
        )
        for part, place in zip(parts, places, strict=True)
    ]
    everything = sum(tokens for tokens, _ in weighed.values())
    return PrefixTree(prompt_tokens=everything, left_out=everything - sum(part.weight for part in parts), nodes=nodes)


def _most(part: TreePart) -> list[str]:
    return sorted(part.groups, key=lambda group: (-part.groups[group], group))[:MOST_GROUPS]


def _places(parts: Sequence[TreePart], prompts: Iterable[Prompt]) -> list[WrittenPlace]:
    """Return the source place where each part begins, if a prompt with text passes it."""
    children: dict[TreePart | None, dict[int, TreePart]] = {}
    for each in parts:
        first = each.edges[0]
        children.setdefault(each.parent, {})[int(first.ids[each.start - first.start])] = each
    found: dict[TreePart, WrittenPlace] = {}
    for prompt in prompts:
        if len(found) == len(parts):
            break
        if prompt.text is None:
            continue
        places = WrittenPlaces(prompt)
        part: TreePart | None = _next(children, None, prompt.ids, 0)
        while part is not None:
            if part not in found:
                place = places.first(part.start, min(part.stop, len(prompt)))
                if place != NOWHERE:
                    found[part] = place
            part = _next(children, part, prompt.ids, part.stop) if _passes(prompt.ids, part) else None
    return [found.get(each, NOWHERE) for each in parts]


def _next(
    children: Mapping[TreePart | None, Mapping[int, TreePart]], part: TreePart | None, ids: Ids, at: int
) -> TreePart | None:
    return children.get(part, {}).get(int(ids[at])) if at < len(ids) else None


def _passes(ids: Ids, part: TreePart) -> bool:
    """Return whether a prompt that begins like a part also continues like it."""
    for edge in part.edges:
        start, stop = max(part.start, edge.start), min(part.stop, edge.stop)
        if not np.array_equal(ids[start:stop], edge.ids[start - edge.start : stop - edge.start]):
            return False
    return True
