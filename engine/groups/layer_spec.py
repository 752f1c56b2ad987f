"""Content of one layer for the tokens of a request, and its size in a block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, Self

from kvtool.engine.kv_dtype import KVDtype

AttentionKind = Literal["full", "mla", "sliding", "chunked"]

State = tuple[tuple[int, ...], KVDtype]
"""Shape and type of one tensor of a state."""


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer. Layers that compare equal can share a block table; whether a draft owns one does not count.

    `block_size` is in tokens, `page_padded` the bytes that a page is filled up to.
    """

    block_size: int
    page_padded: int | None = None
    draft: bool = field(default=False, compare=False)

    @property
    def unpadded_page_bytes(self) -> int:
        """What is kept in one block."""
        raise NotImplementedError

    @property
    def page_bytes(self) -> int:
        """One block, with what it is filled up with."""
        return self.unpadded_page_bytes if self.page_padded is None else self.page_padded

    @property
    def sharded(self) -> bool:
        """Return whether decode context parallelism gives each rank a part of the tokens."""
        raise NotImplementedError

    def padded_to(self, page: int) -> Self:
        """Return the same layer with pages of so many bytes."""
        return replace(self, page_padded=page)


@dataclass(frozen=True, kw_only=True)
class AttentionLayer(LayerSpec):
    """Keys and values of every token; with MLA one latent vector, and no value.

    `window` is what a sliding layer sees, `chunk` the length of a chunk. A layer that is planned as full attention although it
    computes less keeps them in `computed_window` and `computed_chunk`. `kv_heads` are those of one accelerator.
    """

    kind: AttentionKind
    kv_heads: int = 1
    head_size: int
    value_size: int
    """Numbers in a value; 0 with MLA."""
    dtype: KVDtype
    window: int | None = None
    extra_retained: int = 0
    chunk: int | None = None
    computed_window: int | None = None
    computed_chunk: int | None = None
    replicated: bool = False
    """Whether all ranks keep all tokens in spite of decode context parallelism."""

    @property
    def unpadded_page_bytes(self) -> int:
        vectors = self.dtype.vector_bytes(self.head_size) + (
            self.value_size and self.dtype.vector_bytes(self.value_size)
        )
        return self.block_size * self.kv_heads * vectors

    @property
    def sharded(self) -> bool:
        return not self.replicated

    @property
    def full(self) -> bool:
        """Return whether every token stays, as with plain attention and MLA."""
        return self.kind in ("full", "mla")


@dataclass(frozen=True, kw_only=True)
class MambaLayer(LayerSpec):
    """One state, whatever the number of tokens: linear attention, Mamba, short convolutions."""

    states: tuple[State, ...]
    ckpt_blocks: int = 0
    """1 where the layer can export a state from inside a prefill."""
    ckpt_align: int | None = None
    """Tokens on whose multiples it can."""

    @property
    def unpadded_page_bytes(self) -> int:
        return sum(prod(shape) * dtype.bytes for shape, dtype in self.states)

    @property
    def sharded(self) -> bool:
        return False


def uniform(layers: list[LayerSpec]) -> bool:
    """Whether all layers always need the same number of blocks, so that one block table can serve them whatever their pages are."""
    first = layers[0]
    if len({layer.block_size for layer in layers}) > 1 or len({layer.sharded for layer in layers}) > 1:
        return False
    if isinstance(first, MambaLayer):
        same = (first.page_bytes, first.ckpt_blocks, first.ckpt_align)
        return all(isinstance(o, MambaLayer) and (o.page_bytes, o.ckpt_blocks, o.ckpt_align) == same for o in layers)
    assert isinstance(first, AttentionLayer)
    if first.full:
        return all(isinstance(other, AttentionLayer) and other.full for other in layers)
    same_reach = (first.kind, first.window, first.chunk)
    return all(isinstance(o, AttentionLayer) and (o.kind, o.window, o.chunk) == same_reach for o in layers)


class UnmergeableError(Exception):
    """Layers that cannot have one spec. `conflicting` where they are full attention over several windows, which no plan has."""

    def __init__(self, conflicting: bool = False) -> None:
        super().__init__()
        self.conflicting = conflicting


def merged(layers: list[LayerSpec]) -> LayerSpec:
    """The one spec of layers that are equal, or full attention that differs only in what it computes; UnmergeableError if not."""
    first = layers[0]
    if not (isinstance(first, AttentionLayer) and first.kind == "full"):
        if any(layer != first for layer in layers[1:]):
            raise UnmergeableError
        return first
    full = [layer for layer in layers if isinstance(layer, AttentionLayer) and layer.kind == "full"]
    if len(full) < len(layers):
        raise UnmergeableError
    windows = {layer.computed_window for layer in full} - {None}
    chunks = {layer.computed_chunk for layer in full} - {None}
    if len(windows) > 1 or len(chunks) > 1:
        raise UnmergeableError(conflicting=True)
    one = replace(first, computed_window=next(iter(windows), None), computed_chunk=next(iter(chunks), None))
    if any(
        replace(layer, computed_window=one.computed_window, computed_chunk=one.computed_chunk) != one for layer in full
    ):
        raise UnmergeableError
    if windows and chunks:
        raise UnmergeableError
    return one
