"""Layers to groups that share a block table, by vLLM's rules: the first that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.layer_spec import AttentionLayer, LayerSpec, MambaLayer, UnmergeableError, merged, uniform
from kvtool.engine.groups.packing import packed_groups

_MOSTLY_EVEN = 1.5
"""vLLM's rule: groups are as large as the largest bucket if it has less than so many times the layers of the smallest."""


@dataclass(frozen=True)
class LayerGroup:
    """Layers with one block table and the same `spec`."""

    layers: tuple[LayerSpec, ...]
    spec: LayerSpec

    @property
    def bytes(self) -> int:
        """Bytes of one block of each layer."""
        return sum(layer.page_bytes for layer in self.layers)

    @property
    def draft(self) -> bool:
        """Return whether any layer belongs to a draft."""
        return any(layer.draft for layer in self.layers)


def group_layers(
    layers: list[LayerSpec], *, one_group: bool = False, block_outermost: bool = False
) -> list[LayerGroup]:
    """Return the groups in vLLM's order; EngineError where it has no plan.

    `one_group` is vLLM's `disable_hybrid_kv_cache_manager`, `block_outermost` a layout that keeps all layers of a block together.
    """
    if not layers:
        return []
    if one_group:
        layers = _promoted_by_sharding(layers)
    if _mergeable(layers):
        return [_merged_group(layers)]
    if uniform(layers):
        return [LayerGroup(tuple(layers), layers[0])]
    if block_outermost and (packed := packed_groups(layers)):
        return [LayerGroup(tuple(group), group[0]) for group in packed]
    if (even := _with_even_pages(layers)) is not None:
        return _even_groups(even)
    if (full := _full_allocation(layers)) is not None:
        return [LayerGroup(tuple(full), full[0])]
    raise EngineError(
        "vLLM has no plan for these layers: it cannot align the pages of MLA layers with the other pages",
        hint="try another --block-size: one page must be a multiple of the other",
    )


def _mergeable(layers: list[LayerSpec]) -> bool:
    try:
        merged(layers)
    except UnmergeableError as error:
        if error.conflicting:
            raise EngineError(
                "vLLM plans windows or chunks as full attention only if all have the same size",
                hint="leave the hybrid KV cache manager on",
            ) from None
        return False
    return True


def _merged_group(layers: list[LayerSpec]) -> LayerGroup:
    return LayerGroup(tuple(layers), merged(layers))


def _promoted_by_sharding(layers: list[LayerSpec]) -> list[LayerSpec]:
    """Return windows and chunks as full attention: sharded layers, states among them, and replicated ones each by themselves."""
    promoted = list(layers)
    for replicated in (True, False):
        places = [at for at, layer in enumerate(layers) if _replicated(layer) == replicated]
        if places:
            for at, layer in zip(places, _promoted([layers[at] for at in places]), strict=True):
                promoted[at] = layer
    return promoted


def _replicated(layer: LayerSpec) -> bool:
    return isinstance(layer, AttentionLayer) and layer.replicated


def _promoted(layers: list[LayerSpec]) -> list[LayerSpec]:
    """Return windows and chunks as full attention where there are such layers; EngineError unless the result fits one group."""
    if _mergeable(layers) or uniform(layers):
        return layers
    full_blocks = {layer.block_size for layer in layers if isinstance(layer, AttentionLayer) and layer.full}
    if full_blocks:
        shared = full_blocks.pop() if len(full_blocks) == 1 else None
        layers = [_as_full(layer, shared) for layer in layers]
    if not (_mergeable(layers) or uniform(layers)):
        raise EngineError(
            "without the hybrid KV cache manager, vLLM has no plan for these kinds of layers",
            hint="leave the hybrid KV cache manager on",
        )
    return layers


def _as_full(layer: LayerSpec, block_size: int | None) -> LayerSpec:
    if not isinstance(layer, AttentionLayer) or layer.full:
        return layer
    changed = replace(
        layer,
        kind="full",
        block_size=block_size or layer.block_size,
        page_padded=None,
        window=None,
        extra_retained=0,
        chunk=None,
        computed_window=layer.window,
        computed_chunk=layer.chunk,
    )
    if layer.page_padded is None:
        return changed
    return changed.padded_to(max(layer.page_padded, changed.unpadded_page_bytes))


def _with_even_pages(layers: list[LayerSpec]) -> list[LayerSpec] | None:
    """Return all pages as large as the largest: by longer blocks, else by padding; None where MLA can have neither."""
    largest = max(layer.page_bytes for layer in layers)
    even: list[LayerSpec] = []
    for layer in layers:
        page = layer.page_bytes
        if page == largest:
            even.append(layer)
        elif isinstance(layer, MambaLayer):
            even.append(layer.padded_to(largest))
        elif largest % page == 0:
            longer = replace(layer, block_size=layer.block_size * (largest // page))
            even.append(longer if layer.page_padded is None else longer.padded_to(largest))
        elif isinstance(layer, AttentionLayer) and layer.kind != "mla":
            even.append(layer.padded_to(largest))
        else:
            return None
    return even


def _even_groups(layers: list[LayerSpec]) -> list[LayerGroup]:
    """Buckets of layers that can be merged, each dealt round robin into groups of about the same number of layers."""
    buckets: list[list[LayerSpec]] = []
    distinct: dict[LayerSpec, list[LayerSpec]] = {}
    for layer in layers:
        distinct.setdefault(layer, []).append(layer)
    for same in distinct.values():
        for bucket in buckets:
            try:
                merged([*bucket, same[0]])
            except UnmergeableError:
                continue
            bucket += same
            break
        else:
            buckets.append(same)
    sizes = [len(bucket) for bucket in buckets]
    size = max(sizes) if max(sizes) < min(sizes) * _MOSTLY_EVEN else min(sizes)
    groups = []
    for bucket in buckets:
        count = -(-len(bucket) // size)
        groups += [_merged_group(bucket[number::count]) for number in range(count)]
    return groups


def _full_allocation(layers: list[LayerSpec]) -> list[LayerSpec] | None:
    """Return MLA's windows as full attention if their pages do not fit; None if that does not help."""
    kinds = {layer.kind for layer in layers if isinstance(layer, AttentionLayer)}
    if "chunked" in kinds or not {"mla", "sliding"} <= kinds:
        return None
    try:
        promoted = _promoted(layers)
    except EngineError:
        return None
    return promoted if uniform(promoted) else None
