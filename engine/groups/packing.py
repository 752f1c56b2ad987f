"""Layers of unlike pages side by side in one block, as vLLM packs them in layouts that keep all layers of a block together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.layer_spec import AttentionLayer, LayerSpec, MambaLayer, uniform


@dataclass
class _Bucket:
    """Layers of one kind. `pages` has them by the bytes of their page; they are balanced if each size has as many layers."""

    layers: list[LayerSpec]

    @property
    def pages(self) -> dict[int, list[LayerSpec]]:
        pages: dict[int, list[LayerSpec]] = defaultdict(list)
        for layer in self.layers:
            pages[layer.page_bytes].append(layer)
        return pages

    @property
    def balanced(self) -> bool:
        return len({len(layers) for layers in self.pages.values()}) == 1

    @property
    def repeats(self) -> int:
        """Return the most layers of one size of page."""
        return max(len(layers) for layers in self.pages.values())

    def widest(self, groups: int) -> int:
        """Return bytes of a block of the widest of so many groups."""
        return sum(-(-len(layers) // groups) * page for page, layers in self.pages.items())

    def dealt(self, groups: int) -> list[list[LayerSpec]]:
        """Return the layers, one of each size at a time, in turn to each group."""
        if groups == 1:
            return [self.layers]
        if not self.balanced:
            raise EngineError(
                "vLLM has no plan for these layers: layers with one window have pages of several sizes in different numbers",
                hint="use the KV cache layout LBNHC",
            )
        rounds = list(zip(*self.pages.values(), strict=True))
        return [[layer for one in rounds[number::groups] for layer in one] for number in range(groups)]


def packed_groups(layers: list[LayerSpec]) -> list[list[LayerSpec]] | None:
    """Return the layers of each group; None where all pages are the same, which needs no packing."""
    if len({layer.page_bytes for layer in layers}) <= 1:
        return None
    buckets = _buckets(layers)
    fewest = max((bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.pages) > 1), default=0)
    repeats = _least_padding([bucket.repeats for bucket in buckets if bucket.balanced], fewest) if fewest else None

    def groups_of(bucket: _Bucket) -> int:
        return -(-bucket.repeats // repeats) if bucket.balanced and repeats is not None else 1

    def holds_state(bucket: _Bucket) -> bool:
        """Return whether each request keeps few blocks, so that its layers may use as many groups as needed."""
        first = bucket.layers[0]
        return isinstance(first, MambaLayer) or (
            repeats is None and isinstance(first, AttentionLayer) and first.kind == "sliding"
        )

    anchor = max(bucket.widest(len(bucket.layers) if holds_state(bucket) else groups_of(bucket)) for bucket in buckets)
    packed: list[list[LayerSpec]] = []
    for bucket in buckets:
        count = groups_of(bucket)
        if holds_state(bucket):
            in_block = max(anchor // bucket.layers[0].page_bytes, 1)
            count = max(count, -(-len(bucket.layers) // in_block))
        packed += bucket.dealt(count)
    return packed


def _buckets(layers: list[LayerSpec]) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    for layer in layers:
        for bucket in buckets:
            if uniform([*bucket.layers, layer]):
                bucket.layers.append(layer)
                break
        else:
            buckets.append(_Bucket([layer]))
    return buckets


def _least_padding(counts: Sequence[int], fewest: int) -> int:
    """Return the size of group, `fewest` at least, for which the counts are rounded up the least; the larger of equal ones."""
    sizes = range(max(fewest, 1), max(counts) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size), default=fewest)
