"""Plan the KV cache of a model's layers, as vLLM 0.33 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Literal, get_args

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.kv_group import CachePlan, KVGroup
from kvtool.engine.groups.layer_groups import LayerGroup, group_layers
from kvtool.engine.groups.layer_spec import AttentionLayer, LayerSpec, MambaLayer
from kvtool.engine.vllm_release import LATEST_RELEASE, find_release

DraftMethod = Literal["ngram", "suffix", "draft_model", "medusa", "eagle", "eagle3", "mtp", "dflash", "dspark"]
Layout = Literal["LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC"]
"""The order of vLLM's memory: layers, blocks, heads, tokens (N) and content."""

_READS_HIDDEN_STATES = ("eagle", "eagle3", "mtp", "dflash", "dspark")
_NEEDS_NEXT_TOKEN = ("eagle", "eagle3", "mtp")
_FILLS_IN = ("dflash",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Drafts: `tokens` at a time, `modules` of MTP one after the other."""

    method: DraftMethod
    tokens: int
    modules: int = 1
    disable_lookahead_block_hashes: bool = False
    disable_eagle_block_drop: bool = False

    def __post_init__(self) -> None:
        if self.method not in get_args(DraftMethod):
            raise EngineError(
                f"unknown speculation method {self.method[:40]!a}",
                hint=f"use one of {', '.join(get_args(DraftMethod))}",
            )
        if self.tokens < 1:
            raise EngineError(f"num_speculative_tokens must be at least 1, not {self.tokens}")

    @property
    def drops_block(self) -> bool:
        """Return whether a token's draft data depends on the next token."""
        return self.method in _NEEDS_NEXT_TOKEN and not self.disable_eagle_block_drop

    @property
    def lookahead(self) -> int:
        """Slots that a step reserves."""
        if self.method in _FILLS_IN:
            return self.tokens + 1
        return self.tokens if self.method in (*_READS_HIDDEN_STATES, "draft_model") else 0

    @property
    def prefill_lookahead(self) -> int:
        """Tokens after the computed ones that the draft reads in a prefill."""
        if self.method not in _READS_HIDDEN_STATES:
            return 0
        several = min(self.modules, self.tokens) > 1 and self.method == "mtp"
        return self.tokens if several else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of a server that shape the KV cache, under vLLM's names."""

    block_size: int = 16
    """Tokens of a block, for a model without caching layers; other layers have their own."""
    enable_prefix_caching: bool = True
    prefix_match_unit: int | None = None
    disable_hybrid_kv_cache_manager: bool = False
    kv_cache_layout: Layout = "LBNHC"
    decode_context_parallel_size: int = 1
    max_num_batched_tokens: int = 8192
    concurrent_batches: int = 1
    """Steps in flight at a time: 2 with asynchronous scheduling."""
    speculation: Speculation | None = None
    release: str = LATEST_RELEASE
    """Release of vLLM."""


def plan_cache(layers: Sequence[LayerSpec], options: PlanOptions) -> CachePlan:
    """Return the groups, and the units in which they are cached; EngineError where vLLM would not start."""
    drafts, release = options.speculation, find_release(options.release)
    if not release.knows_drafts:
        mtp = drafts is not None and drafts.method == "mtp"
        layers = [replace(layer, draft=mtp and at == len(layers)) for at, layer in enumerate(layers, 1)]
    prefill_lookahead = drafts.prefill_lookahead if drafts else 0
    retained = max(prefill_lookahead - 1, 0)
    groups = group_layers(
        [_retaining(layer, retained) for layer in layers],
        one_group=options.disable_hybrid_kv_cache_manager,
        block_outermost=options.kv_cache_layout[0] == "B",
    )
    ranks = options.decode_context_parallel_size
    if ranks > 1 and any(isinstance(g.spec, AttentionLayer) and g.spec.window and g.spec.sharded for g in groups):
        raise EngineError(
            "decode context parallelism does not support layers with a window",
            hint="set decode_context_parallel_size: 1",
        )
    _check_layout(groups, options.kv_cache_layout)
    kv_groups = tuple(_kv_group(groups, number, options) for number in range(len(groups)))
    scheduler_block, hash_block = _block_sizes(kv_groups, options)
    partial = _partial_hits(kv_groups, hash_block, options)
    drops = drafts is not None and drafts.drops_block
    hash_lookahead = (
        prefill_lookahead
        if drafts
        and drops
        and release.hashes_ahead
        and not drafts.disable_lookahead_block_hashes
        and options.enable_prefix_caching
        else 0
    )
    return CachePlan(
        groups=kv_groups,
        bytes_per_block=max((group.bytes for group in groups), default=0),
        scheduler_block_size=scheduler_block,
        hash_block_size=hash_block,
        hit_alignment=hash_block if partial else scheduler_block,
        max_in_flight_tokens=options.max_num_batched_tokens * options.concurrent_batches,
        num_spec_tokens=drafts.tokens if drafts else 0,
        num_lookahead_tokens=drafts.lookahead if drafts else 0,
        num_prefill_lookahead=prefill_lookahead,
        num_hash_lookahead=hash_lookahead,
        eagle_drop=drops and not hash_lookahead,
        partial_hits=partial,
    )


def _retaining(layer: LayerSpec, tokens: int) -> LayerSpec:
    """Return a layer that keeps so many tokens after its window."""
    if isinstance(layer, AttentionLayer) and layer.kind == "sliding":
        return replace(layer, extra_retained=tokens)
    return layer


def _check_layout(groups: list[LayerGroup], layout: Layout) -> None:
    """Check the layout: pages of several sizes share a block, or one group layer by layer; padding is at a page's end."""
    layers = [layer for group in groups for layer in group.layers]
    compact = set(layout[:2]) == {"L", "B"}
    several = len({layer.page_bytes for layer in layers}) > 1
    if several and (not compact or (len(groups) > 1 and layout[0] == "L")):
        raise EngineError(f"the KV cache layout {layout} cannot hold pages of several sizes", hint="use BLHNC")
    if not compact and any(_padded_heads(layer) for layer in layers):
        raise EngineError(f"the KV cache layout {layout} cannot hold padded pages", hint="use LBNHC")


def _padded_heads(layer: LayerSpec) -> bool:
    return isinstance(layer, AttentionLayer) and layer.page_padded is not None and layer.kv_heads > 1


def _kv_group(groups: list[LayerGroup], number: int, options: PlanOptions) -> KVGroup:
    group = groups[number]
    spec, drafts = group.spec, options.speculation
    ranks = options.decode_context_parallel_size if spec.sharded else 1
    common = {
        "block_size": spec.block_size * ranks,
        "ranks": ranks,
        "layers": len(group.layers),
        "page_bytes": tuple(sorted({layer.page_bytes for layer in group.layers})),
        "spec_id": next(at for at, other in enumerate(groups) if other.spec == spec),
        "eagle": drafts is not None and drafts.drops_block and group.draft,
    }
    if isinstance(spec, MambaLayer):
        return KVGroup(
            kind="mamba",
            mamba_align=options.enable_prefix_caching,
            spec_blocks=drafts.tokens if drafts else 0,
            ckpt_blocks=spec.ckpt_blocks,
            ckpt_align=spec.ckpt_align,
            **common,  # type: ignore[arg-type]  # one dict for the fields of both kinds
        )
    assert isinstance(spec, AttentionLayer)
    return KVGroup(
        kind=spec.kind,
        window=spec.window,
        extra_retained=spec.extra_retained,
        chunk=spec.chunk,
        **common,  # type: ignore[arg-type]  # one dict for the fields of both kinds
    )


def _block_sizes(groups: Sequence[KVGroup], options: PlanOptions) -> tuple[int, int]:
    """Return tokens of the scheduler's block, and of a hash."""
    asked, caching = options.prefix_match_unit, options.enable_prefix_caching
    if len(groups) <= 1:
        block = groups[0].block_size if groups else options.block_size * options.decode_context_parallel_size
        if groups and caching and asked not in (None, block):
            raise EngineError(
                f"prefix_match_unit {asked} needs several KV cache groups; this model has one, with blocks of {block}",
                hint=f"remove it: hits end on blocks of {block} tokens",
            )
        return block, block
    sizes = [group.block_size for group in groups]
    block = lcm(*sizes)
    if not caching:
        return block, block
    unit = gcd(*sizes) if asked is None else asked
    if unit < 1 or any(size % unit for size in sizes):
        raise EngineError(
            f"prefix_match_unit {unit} does not divide the groups' blocks of {', '.join(map(str, sorted(set(sizes))))} tokens",
            hint=f"use a divisor of {gcd(*sizes)}",
        )
    return block, unit


def _partial_hits(groups: Sequence[KVGroup], unit: int, options: PlanOptions) -> bool:
    """Return whether hits may end inside of blocks: with states in blocks longer than a unit, and no window or chunk in longer
    ones."""
    if not options.enable_prefix_caching or len(groups) <= 1:
        return False
    many = options.decode_context_parallel_size > 1
    inside = any(g.kind == "mamba" and (g.block_size > unit or (many and g.block_size == unit)) for g in groups)
    return inside and all(g.block_size == unit for g in groups if g.kind in ("sliding", "chunked"))
