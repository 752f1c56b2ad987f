"""Plan the KV cache of a model with a server's options, and give the reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.layer_spec import LayerSpec, State
from kvtool.engine.groups.planner import Layout, PlanOptions, Speculation, plan_cache
from kvtool.engine.kv_dtype import AUTO, KVDtype, find_kv_dtype
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape, StateShape
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.vllm_release import LATEST_RELEASE

KERNEL_UNIT = 16
"""Tokens: attention kernels take blocks of multiples of this."""
LATENT_BLOCK = 64
"""Block of MLA without states: the page of FlashMLA. Kernels of FlashAttention and Triton take 16, FlashInfer's 32 and 64."""
LATENT_UNIT = 128
"""Blocks of MLA beside states are multiples of this many tokens in vLLM."""
DEFAULT_BLOCK = 16
"""vLLM's default `block_size`, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of a server, under vLLM's names; None where vLLM chooses."""

    block_size: int | None = None
    kv_cache_dtype: str = AUTO
    tensor_parallel: int = 1
    max_model_len: int | None = None
    max_num_batched_tokens: int = 8192
    concurrent_batches: int = 1
    enable_prefix_caching: bool | None = None
    prefix_match_unit: int | None = None
    mamba_ssm_cache_dtype: str | None = None
    """Type of the recurrent state of linear attention."""
    disable_hybrid_kv_cache_manager: bool | None = None
    kv_cache_layout: Layout = "LBNHC"
    decode_context_parallel_size: int = 1
    speculation: Speculation | None = None
    release: str = LATEST_RELEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """A plan with the block of attention in tokens, and its reasons: sentences without a full stop."""

    model: ServedModel
    plan: CachePlan
    block_size: int
    block_reason: str | None
    """Reason for another block than the requested one or the default; None if it is the same."""
    state_bytes: int
    """Bytes of one state on an accelerator without padding; 0 if the model has none."""
    caching: bool
    caching_off: str | None
    """Reason why vLLM does not cache prefixes; None if it does, or if the user turned caching off."""
    one_group: str | None
    """Reason why windows and chunks are planned as full attention, if they are."""
    token_bytes: int
    """Keys and values of one token in all layers, on an accelerator; states aside."""


def plan_model(model: ServedModel, options: ServeOptions) -> ModelPlan:
    """Return vLLM 0.33's plan for a model; EngineError if it would not start."""
    caching = model.caching_off is None if options.enable_prefix_caching is None else options.enable_prefix_caching
    kept = find_kv_dtype(options.kv_cache_dtype, model.dtype)
    block_size, reason, state = _block_size(model, options, kept)
    one_group = model.one_group if options.disable_hybrid_kv_cache_manager is None else None
    if options.disable_hybrid_kv_cache_manager:
        one_group = "the hybrid KV cache manager is off"
    layers = _layers(model, options, kept, block_size, caching)
    drafts = options.speculation
    if drafts is not None and drafts.method == "mtp":
        drafts = replace(drafts, modules=model.mtp_layers)
    plan = plan_cache(
        layers,
        PlanOptions(
            block_size=block_size,
            enable_prefix_caching=caching,
            prefix_match_unit=options.prefix_match_unit,
            disable_hybrid_kv_cache_manager=one_group is not None,
            kv_cache_layout=options.kv_cache_layout,
            decode_context_parallel_size=options.decode_context_parallel_size,
            max_num_batched_tokens=options.max_num_batched_tokens,
            concurrent_batches=options.concurrent_batches,
            speculation=drafts,
            release=options.release,
        ),
    )
    return ModelPlan(
        model=model,
        plan=plan,
        block_size=block_size,
        block_reason=reason,
        state_bytes=state,
        caching=caching,
        caching_off=model.caching_off if options.enable_prefix_caching is None else None,
        token_bytes=sum(layer.layer(1, kept, options.tensor_parallel).page_bytes for layer in model.attention),
        one_group=one_group if len({layer.kind for layer in model.attention}) > 1 else None,
    )


def _states(shape: StateShape, model: ServedModel, options: ServeOptions) -> tuple[State, ...]:
    """Return the tensors of a state on one accelerator."""
    return shape.states(model.dtype, options.tensor_parallel, _drafts(options), options.mamba_ssm_cache_dtype)


def _drafts(options: ServeOptions) -> int:
    return options.speculation.tokens if options.speculation else 0


def _layers(
    model: ServedModel, options: ServeOptions, kept: KVDtype, block_size: int, caching: bool
) -> list[LayerSpec]:
    """Return the model's layers in order, then the draft's."""
    parts = options.tensor_parallel
    longest = options.max_model_len or model.max_model_len or block_size
    page = _attention_page(model, options, kept, block_size)
    layers: list[LayerSpec] = []
    for shape in model.layers:
        if isinstance(shape, AttentionLayerShape):
            layers.append(shape.layer(block_size, kept, parts))
        else:
            layer = shape.layer(block_size if caching else longest, _states(shape, model, options))
            layers.append(layer.padded_to(page) if page and page != layer.page_bytes else layer)
    return layers + _draft_layers(model, options, kept, block_size)


def _draft_layers(model: ServedModel, options: ServeOptions, kept: KVDtype, block_size: int) -> list[LayerSpec]:
    """Return draft layers like the model's last full attention: for MTP the model's number, for EAGLE one."""
    drafts = options.speculation
    if drafts is None or drafts.method not in ("mtp", "eagle", "eagle3"):
        return []
    count = 1 if drafts.method != "mtp" else model.mtp_layers
    if not count:
        raise EngineError(f"{model.name} has no MTP layers", hint="use another method than mtp")
    full = [shape for shape in model.attention if shape.kind in ("full", "mla")]
    last = full[-2:] if model.sparse else full[-1:]  # an index comes before its layer
    return [shape.layer(block_size, kept, options.tensor_parallel, draft=True) for shape in last * count]


def _attention_page(model: ServedModel, options: ServeOptions, kept: KVDtype, block_size: int) -> int | None:
    """Return bytes of a layer's block of attention, which states are filled up to; None without both."""
    if not model.hybrid:
        return None
    return model.attention[0].layer(block_size, kept, options.tensor_parallel).page_bytes


def _block_size(model: ServedModel, options: ServeOptions, kept: KVDtype) -> tuple[int, str | None, int]:
    """Return the tokens of a block of attention, the reason, and the bytes of one state."""
    asked = options.block_size
    if asked is not None and asked < 1:
        raise EngineError(f"block size must be at least 1, not {asked}")
    states = [shape.layer(1, _states(shape, model, options)).page_bytes for shape in model.states]
    state = max(states, default=0)
    if not model.hybrid:
        latent = model.latent and asked is None
        block = asked or (LATENT_BLOCK if latent else DEFAULT_BLOCK)
        return (
            block,
            f"pages of FlashMLA have {LATENT_BLOCK} tokens; other MLA kernels accept --block-size 16 or 32"
            if latent
            else None,
            state,
        )
    if asked is not None and asked % KERNEL_UNIT:
        raise EngineError(
            f"{model.name} cannot have blocks of {asked} tokens: its attention kernels need multiples of {KERNEL_UNIT}",
            hint=f"--block-size {max(asked // KERNEL_UNIT, 1) * KERNEL_UNIT}",
        )
    token = _attention_page(model, options, kept, 1) or 1
    unit = max(asked or DEFAULT_BLOCK, LATENT_UNIT if model.latent else KERNEL_UNIT)
    block = unit * -(-state // (unit * token))
    block = max(KERNEL_UNIT * -(-block // KERNEL_UNIT), asked or DEFAULT_BLOCK)
    reason = f"one state takes {state:,} bytes, the size of {-(-state // token):,} tokens of attention"
    return block, f"{reason}; blocks are multiples of {unit} tokens", state
