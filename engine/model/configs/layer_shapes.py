"""Shapes of the data that each layer keeps for a request, before the server's options are known."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.layer_spec import AttentionKind, AttentionLayer, MambaLayer, State
from kvtool.engine.kv_dtype import AUTO, KVDtype, find_kv_dtype


def _even(count: int, parts: int, what: str) -> int:
    if count % parts:
        raise EngineError(f"{count} {what} cannot be split over {parts} accelerators")
    return count // parts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayerShape:
    """Attention with `kv_heads` of `head_size` numbers in a key and `value_size` in a value; MLA has one head and no value."""

    kind: AttentionKind
    kv_heads: int
    head_size: int
    value_size: int
    window: int | None = None
    chunk: int | None = None
    dtype: str = AUTO
    """The layer's own type where it differs from the rest of the cache, as for the keys of an index."""

    def __post_init__(self) -> None:
        for name in ("kv_heads", "head_size"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} must be at least 1, not {getattr(self, name)}")
        for key, reach in (("sliding_window", self.window), ("attention_chunk_size", self.chunk)):
            if reach is not None and reach < 1:
                raise EngineError(f"`{key}` must be at least 1, not {reach}")

    def layer(self, block_size: int, dtype: KVDtype, tensor_parallel: int, *, draft: bool = False) -> AttentionLayer:
        """Return the layer on one of `tensor_parallel` accelerators: an even part of the heads, or a copy where there are fewer."""
        heads, parts = self.kv_heads, tensor_parallel
        if self.kind != "mla" and heads % parts and parts % heads:
            raise EngineError(f"{heads} K/V heads cannot be split over {parts} accelerators")
        return AttentionLayer(
            block_size=block_size,
            draft=draft,
            kind=self.kind,
            kv_heads=1 if self.kind == "mla" else max(heads // parts, 1),
            head_size=self.head_size,
            value_size=self.value_size,
            dtype=dtype if self.dtype == AUTO else find_kv_dtype(self.dtype),
            window=self.window,
            chunk=self.chunk,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateShape:
    """A convolution's last inputs and, but for short convolutions, a recurrent state of [heads, …] numbers.

    `groups` are those of Mamba 2, of `group_size` numbers twice in the convolution: where they do not go round, each accelerator
    has one. `draft_rows`: the convolution keeps inputs of drafts as well. `dtype` is that of the recurrent state.
    """

    channels: int
    kernel: int
    recurrent: tuple[int, ...] = ()
    groups: int = 0
    group_size: int = 0
    draft_rows: bool = True
    dtype: str = AUTO
    exports: bool = False
    """True if a state can be read from inside a prefill."""

    def __post_init__(self) -> None:
        if self.channels < 1 or self.kernel < 2 or any(size < 1 for size in self.recurrent):
            raise EngineError("a state needs channels, a kernel of at least 2 and heads of at least one number")

    def states(
        self, model_dtype: str, tensor_parallel: int, draft_tokens: int, recurrent_dtype: str | None = None
    ) -> tuple[State, ...]:
        """Return the tensors of one accelerator, in `recurrent_dtype` where the server sets one."""
        kept = find_kv_dtype(AUTO, model_dtype)
        groups = self.groups
        if groups % tensor_parallel:
            groups = tensor_parallel
        channels = _even(self.channels + 2 * groups * self.group_size, tensor_parallel, "channels of a state")
        rows = self.kernel - 1 + draft_tokens * self.draft_rows
        convolution: State = ((rows, channels), kept)
        if not self.recurrent:
            return (convolution,)
        heads = _even(self.recurrent[0], tensor_parallel, "heads of a state")
        return convolution, ((heads, *self.recurrent[1:]), find_kv_dtype(recurrent_dtype or self.dtype, model_dtype))

    def layer(self, block_size: int, states: tuple[State, ...]) -> MambaLayer:
        """Return the layer of an accelerator that keeps these tensors."""
        return MambaLayer(
            block_size=block_size,
            states=states,
            ckpt_blocks=int(self.exports),
            ckpt_align=1 if self.exports else None,
        )


LayerShape = AttentionLayerShape | StateShape


def attention(kv_heads: int, head_size: int, *, window: int | None = None) -> AttentionLayerShape:
    """Plain attention, over a window where there is one."""
    kind: AttentionKind = "full" if window is None else "sliding"
    return AttentionLayerShape(kind=kind, kv_heads=kv_heads, head_size=head_size, value_size=head_size, window=window)


def chunked(kv_heads: int, head_size: int, chunk: int) -> AttentionLayerShape:
    """Return attention within chunks of so many tokens."""
    return AttentionLayerShape(
        kind="chunked", kv_heads=kv_heads, head_size=head_size, value_size=head_size, chunk=chunk
    )


def latent(rank: int, rope_size: int) -> AttentionLayerShape:
    """Return the shape of MLA: a latent vector and the rotated part of the key."""
    return AttentionLayerShape(kind="mla", kv_heads=1, head_size=rank + rope_size, value_size=0)


def mamba2(
    inner: int, heads: int, head_size: int, state: int, kernel: int, groups: int, dtype: str = AUTO
) -> StateShape:
    """Mamba 2, of which a state can be had from inside a prefill."""
    return StateShape(
        channels=inner,
        kernel=kernel,
        recurrent=(heads, head_size, state),
        groups=groups,
        group_size=state,
        dtype=dtype,
        exports=True,
    )


def delta_net(
    key_heads: int, value_heads: int, key_size: int, value_size: int, kernel: int, dtype: str = AUTO
) -> StateShape:
    """Return the state of Gated DeltaNet, the linear attention of Qwen."""
    return StateShape(
        channels=2 * key_heads * key_size + value_heads * value_size,
        kernel=kernel,
        recurrent=(value_heads, value_size, key_size),
        dtype=dtype,
    )


def kimi_delta(heads: int, head_size: int, kernel: int) -> StateShape:
    """Kimi Delta Attention; its state is kept in float32."""
    return StateShape(
        channels=3 * heads * head_size, kernel=kernel, recurrent=(heads, head_size, head_size), dtype="fp32"
    )
