"""A decoder on paged K/V, for every family of ModelConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from kvtool.engine.attention.attention_plan import AttentionPlan, attend
from kvtool.engine.attention.cpu_plan import CpuPlan
from kvtool.engine.batch import Batch
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.device import choose_kernels
from kvtool.engine.model.expert_mlp import ExpertMlp
from kvtool.engine.model.grouped_attention import Attention, GroupedAttention
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.latent_attention import LatentAttention
from kvtool.engine.model.layer_weights import DenseWeights, LatentWeights, Layer
from kvtool.engine.model.mlp import Mlp, make_mlp
from kvtool.engine.model.parameters import Parameters, State
from kvtool.engine.model.products import PackedWeight, can_pack
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.model.rope import Rotation
from kvtool.kernels.attention_rule import AttentionRule, capped
from kvtool.kernels.protocol import Kernels

Plan: TypeAlias = AttentionPlan | CpuPlan


@dataclass(frozen=True, slots=True)
class AttentionPlans:
    """Plans of a batch's attention, for kernels that work by plans."""

    of_window: Mapping[int | None, Plan]
    """Plan by window; None is the key of layers without one."""
    last: Plan | None = None
    """Plan of the last layer's tokens with logits, where only some have them."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer's computations, with the norms before and, in some families, after it."""

    attention_norm: torch.Tensor
    attention: Attention
    attention_output_norm: torch.Tensor | None
    mlp_norm: torch.Tensor
    mlp: Mlp
    mlp_output_norm: torch.Tensor | None
    rule: AttentionRule
    rotation: int
    """Index of the decoder's rotation."""


class Decoder:
    """A decoder whose weights come from a state dict with the names of Hugging Face's …ForCausalLM classes."""

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
        self._embedding_scale = torch.tensor(config.traits.embedding_scale, dtype=dtype, device=self.device)
        self._head: torch.Tensor | None = weights.head
        self._layers: list[_Layer] = []
        for index in range(len(weights.layers)):  # one after the other: of packed weights the originals are given back
            self._layers.append(self._layer(index, weights.layers.pop(0)))
        self._norm = weights.norm
        self._packed_head: PackedWeight | None = None
        if can_pack(weights.head) and not config.tie_word_embeddings:
            self._packed_head, self._head = PackedWeight(weights.head.t().contiguous()), None
        rotated = config.head_dim if config.latent is None else config.latent.rope_dim
        ropes = [config.rope] if config.window_rope is None else [config.rope, config.window_rope]
        self._rotations = [Rotation(rope, rotated, self.device) for rope in ropes]

    def _layer(self, index: int, weights: Layer) -> _Layer:
        config, traits, kernels = self.config, self.config.traits, self.kernels
        attention: Attention
        sinks, scale = None, traits.attention_scale
        if isinstance(weights.attention, LatentWeights):
            assert config.latent is not None
            attention, scale = LatentAttention(weights.attention, config.latent, kernels), config.latent.attention_scale
        else:
            attention = GroupedAttention(weights.attention, config.head_dim, config.rms_norm_eps, kernels)
            sinks = weights.attention.sinks
        if isinstance(weights.mlp, DenseWeights):
            mlp = make_mlp(weights.mlp, traits.activation, kernels)
        else:
            assert config.experts is not None
            mlp = ExpertMlp(weights.mlp, config.experts, traits.activation, kernels)
        window = config.window(index)
        return _Layer(
            attention_norm=weights.attention_norm,
            attention=attention,
            attention_output_norm=weights.attention_output_norm,
            mlp_norm=weights.mlp_norm,
            mlp=mlp,
            mlp_output_norm=weights.mlp_output_norm,
            rule=AttentionRule(scale=scale, softcap=traits.attention_softcap, window=window, sinks=sinks),
            rotation=0 if window is None or config.window_rope is None else 1,
        )

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
        """Return weights made from a seed; the same on every device."""
        weights = RandomWeights(config, seed, device=device, dtype=dtype)
        return cls(config, weights, device=device, dtype=dtype, kernels=kernels)

    def forward(self, batch: Batch, kv: KVStore, plans: AttentionPlans | None = None) -> torch.Tensor:
        """Compute the batch's tokens, leave their K/V in `kv`, and return logits [len(batch.logits_at), vocab]."""
        config, layers, kernels, eps = self.config, self._layers, self.kernels, self.config.rms_norm_eps
        turns = [rotation.at(batch.positions, self.dtype) for rotation in self._rotations]
        plans = plans or AttentionPlans({})
        partials = self._partials(plans.of_window.get(None))
        x = self._embedding[batch.input_ids]  # [T, hidden]
        if config.traits.embedding_scale != 1.0:
            x = x * self._embedding_scale
        normed = kernels.rms_norm(x, layers[0].attention_norm, eps)
        next_norms = [*(layer.attention_norm for layer in layers[1:]), self._norm]
        caches = zip(kv.k, kv.v, kv.k_scale, kv.v_scale, strict=True)
        for index, (layer, next_norm, (k_cache, v_cache, k_scale, v_scale)) in enumerate(
            zip(layers, next_norms, caches, strict=True)
        ):
            # All tokens of the step are stored before any is read: a request may hit blocks that another one fills in this step.
            q = layer.attention.queries(
                normed, *turns[layer.rotation], k_cache, v_cache, batch.slot_mapping, k_scale, v_scale
            )
            plan = plans.of_window.get(layer.rule.window)
            # Without logits, a token's last layer ends at K/V: nothing later is read.
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
            found = layer.attention.output(attended)
            if layer.attention_output_norm is not None:
                found = kernels.rms_norm(found, layer.attention_output_norm, eps)
            x, normed = kernels.add_rms_norm(x, found, layer.mlp_norm, eps)
            found = layer.mlp.forward(normed)
            if layer.mlp_output_norm is not None:
                found = kernels.rms_norm(found, layer.mlp_output_norm, eps)
            x, normed = kernels.add_rms_norm(x, found, next_norm, eps)
        return self._logits(normed)

    def _logits(self, normed: torch.Tensor) -> torch.Tensor:
        if self._packed_head is not None:
            logits = self._packed_head.product(normed)
        else:
            assert self._head is not None
            logits = normed @ self._head
        return capped(logits, self.config.traits.logit_softcap)

    def _partials(self, plan: Plan | None) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Allocate memory for the partial results of kernels that work by a plan."""
        if not isinstance(plan, AttentionPlan):
            return None
        return plan.partials(self.config.num_attention_heads, self.config.head_dim)
