"""One decoder on paged K/V, for every family of ModelConfig."""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from kvtool.engine.attention.attention_plan import AttentionPlan, attend
from kvtool.engine.batch import Batch
from kvtool.engine.model.device import choose_kernels
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.model_config import ModelConfig
from kvtool.engine.model.parameters import Parameters, State
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.model.rope import Rotation
from kvtool.kernels.protocol import Kernels

Plans = tuple[AttentionPlan, AttentionPlan | None]
"""How all of a batch's tokens attend, and those with logits; None where these are all."""


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
        self._weights = Parameters(config, state, self.device, dtype)
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

    def forward(self, batch: Batch, kv: KVStore, plans: Plans | None = None) -> torch.Tensor:
        """Compute the batch's tokens, leave their K/V in `kv`, and return logits [len(batch.logits_at), vocab].

        Kernels that work by a plan are given one for the batch and, where not all of its tokens get logits, one for those that do.
        """
        config, weights, kernels, eps = self.config, self._weights, self.kernels, self.config.rms_norm_eps
        cos, sin = self._rotation.at(batch.positions, self.dtype)
        plan, last_plan = plans if plans is not None else (None, None)
        partials = None if plan is None else plan.partials(config.num_attention_heads, config.head_dim)
        x = weights.embedding[batch.input_ids]  # [T, hidden]
        normed = kernels.rms_norm(x, weights.layers[0].attention_norm, eps)
        next_norms = [*(layer.attention_norm for layer in weights.layers[1:]), weights.norm]
        caches = zip(kv.k, kv.v, kv.k_scale, kv.v_scale, strict=True)
        for layer, next_norm, (k_cache, v_cache, k_scale, v_scale) in zip(
            weights.layers, next_norms, caches, strict=True
        ):
            qkv = linear(normed, layer.qkv, layer.qkv_bias).view(len(x), -1, config.head_dim)
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
            # Of a token without logits, nothing after the last layer's K/V is ever read.
            if layer is weights.layers[-1] and len(batch.logits_at) < len(x):
                if not len(batch.logits_at):
                    return x.new_empty(0, config.vocab_size)
                x, q, plan = x[batch.logits_at], q[batch.logits_at], last_plan
                batch = batch.of_logits()
                partials = None if plan is None else plan.partials(config.num_attention_heads, config.head_dim)
            attended = attend(kernels, plan, partials, q, k_cache, v_cache, batch, k_scale, v_scale)
            attended = linear(attended.flatten(1), layer.output, layer.output_bias)
            x, normed = kernels.add_rms_norm(x, attended, layer.mlp_norm, eps)
            inner = kernels.swiglu(linear(normed, layer.gate_up, layer.gate_up_bias))
            x, normed = kernels.add_rms_norm(x, linear(inner, layer.down, layer.down_bias), next_norm, eps)
        return normed @ weights.head
