"""One decoder on paged K/V, for every family of ModelConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from kvtool.engine.attention.attention_plan import AttentionPlan, attend
from kvtool.engine.attention.cpu_plan import CpuPlan
from kvtool.engine.batch import Batch
from kvtool.engine.model.device import choose_kernels
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.model_config import ModelConfig
from kvtool.engine.model.parameters import Parameters, State
from kvtool.engine.model.products import PackedWeight, Products, can_pack, layer_products
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.model.rope import Rotation
from kvtool.kernels.attention_rule import AttentionRule
from kvtool.kernels.protocol import Kernels

Plan: TypeAlias = AttentionPlan | CpuPlan


@dataclass(frozen=True, slots=True)
class AttentionPlans:
    """How a batch's tokens attend, for kernels that work by plans."""

    of_window: Mapping[int | None, Plan]
    """In layers with that window; None is the layers without one."""
    last: Plan | None = None
    """In the last layer those that get logits, where these are not all."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer's norms and products."""

    attention_norm: torch.Tensor
    qk_norm: torch.Tensor | None
    mlp_norm: torch.Tensor
    products: Products
    rule: AttentionRule


class Decoder:
    """A decoder whose weights are given as a state dict with the names of Hugging Face's …ForCausalLM classes."""

    def __init__(
        self,
        config: ModelConfig,
        state: State,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        kernels: Kernels | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.kernels = kernels or choose_kernels(self.device).kernels
        self.dtype = dtype
        weights = Parameters(config, state, self.device, dtype)
        self._embedding = weights.embedding
        self._head: torch.Tensor | None = weights.head
        self._layers: list[_Layer] = []
        for index in range(len(weights.layers)):  # one after the other: of packed weights the originals are given back
            layer = weights.layers.pop(0)
            products = layer_products(layer, self.kernels)
            rule = AttentionRule(window=config.window(index))
            self._layers.append(_Layer(layer.attention_norm, layer.qk_norm, layer.mlp_norm, products, rule))
        self._norm = weights.norm
        self._packed_head: PackedWeight | None = None
        if can_pack(weights.head) and not config.tie_word_embeddings:
            self._packed_head, self._head = PackedWeight(weights.head.t().contiguous()), None
        self._rotation = Rotation(config.rope, config.head_dim, self.device)

    @classmethod
    def random(
        cls,
        config: ModelConfig,
        seed: int = 0,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        kernels: Kernels | None = None,
    ) -> Decoder:
        """Weights made from a seed; the same on every device."""
        weights = RandomWeights(config, seed, device=device, dtype=dtype)
        return cls(config, weights, device=device, dtype=dtype, kernels=kernels)

    def forward(self, batch: Batch, kv: KVStore, plans: AttentionPlans | None = None) -> torch.Tensor:
        """Compute the batch's tokens, leave their K/V in `kv`, and return logits [len(batch.logits_at), vocab]."""
        config, layers, kernels, eps = self.config, self._layers, self.kernels, self.config.rms_norm_eps
        cos, sin = self._rotation.at(batch.positions, self.dtype)
        plans = plans or AttentionPlans({})
        partials = self._partials(plans.of_window.get(None))
        x = self._embedding[batch.input_ids]  # [T, hidden]
        normed = kernels.rms_norm(x, layers[0].attention_norm, eps)
        next_norms = [*(layer.attention_norm for layer in layers[1:]), self._norm]
        caches = zip(kv.k, kv.v, kv.k_scale, kv.v_scale, strict=True)
        for index, (layer, next_norm, (k_cache, v_cache, k_scale, v_scale)) in enumerate(
            zip(layers, next_norms, caches, strict=True)
        ):
            qkv = layer.products.qkv(normed).view(len(x), -1, config.head_dim)
            # All tokens of the step are stored before any is read: a request may hit blocks that another one fills in this step.
            q = kernels.rotary_store_kv(
                qkv,
                cos,
                sin,
                k_cache,
                v_cache,
                batch.slot_mapping,
                k_scale,
                v_scale,
                qk_norm=layer.qk_norm,
                eps=eps,
            )
            plan = plans.of_window.get(layer.rule.window)
            # Of a token without logits, nothing after the last layer's K/V is ever read.
            if layer is layers[-1] and len(batch.logits_at) < len(x):
                if not len(batch.logits_at):
                    return x.new_empty(0, config.vocab_size)
                x, q, plan = x[batch.logits_at], q[batch.logits_at], plans.last
                batch = batch.of_logits()
                partials = self._partials(plan)
            if isinstance(plan, CpuPlan):
                attended = plan.attend(index, q, k_cache, v_cache, layer.rule)
            else:
                attended = attend(kernels, plan, partials, q, k_cache, v_cache, batch, k_scale, v_scale, layer.rule)
            x, normed = kernels.add_rms_norm(x, layer.products.output(attended.flatten(1)), layer.mlp_norm, eps)
            down = layer.products.down(layer.products.gated(normed))
            x, normed = kernels.add_rms_norm(x, down, next_norm, eps)
        return self._logits(normed)

    def _logits(self, normed: torch.Tensor) -> torch.Tensor:
        if self._packed_head is not None:
            return self._packed_head.product(normed)
        assert self._head is not None
        return normed @ self._head

    def _partials(self, plan: Plan | None) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Memory for what the kernels that work by a plan leave to be merged."""
        if not isinstance(plan, AttentionPlan):
            return None
        return plan.partials(self.config.num_attention_heads, self.config.head_dim)
