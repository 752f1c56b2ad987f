"""One decoder on paged K/V, for every family of ModelConfig."""

from __future__ import annotations

import torch
from torch.nn.functional import linear, rms_norm, silu

from kvtool.engine.batch import Batch
from kvtool.engine.kv_store import KVStore
from kvtool.engine.model_config import ModelConfig
from kvtool.engine.parameters import Parameters, State
from kvtool.engine.random_weights import RandomWeights
from kvtool.engine.rope import Rotation, rotated
from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.store_kv import store_kv


class Decoder:
    """A decoder whose weights are given as a state dict with the names of Hugging Face's …ForCausalLM classes."""

    def __init__(
        self,
        config: ModelConfig,
        state: State,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
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
    ) -> Decoder:
        """Weights made from a seed; the same on every device."""
        return cls(config, RandomWeights(config, seed, device=device, dtype=dtype), device=device, dtype=dtype)

    def forward(self, batch: Batch, kv: KVStore) -> torch.Tensor:
        """Compute the batch's tokens, leave their K/V in `kv`, and return logits [len(batch.logits_at), vocab]."""
        config, weights = self.config, self._weights
        heads, kv_heads, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        cos, sin = self._rotation.at(batch.positions, self.dtype)
        x = weights.embedding[batch.input_ids]  # [T, hidden]
        caches = zip(kv.k, kv.v, kv.k_scale, kv.v_scale, strict=True)
        for layer, (k_cache, v_cache, k_scale, v_scale) in zip(weights.layers, caches, strict=True):
            projected = linear(self._normed(x, layer.attention_norm), layer.qkv, layer.qkv_bias).view(len(x), -1, dim)
            qk = projected[:, : heads + kv_heads]
            if layer.qk_norm is not None:
                qk = rms_norm(qk, (dim,), eps=config.rms_norm_eps) * layer.qk_norm
            qk = rotated(qk, cos, sin)
            q, k, v = qk[:, :heads], qk[:, heads:], projected[:, heads + kv_heads :]  # each [T, heads, D]
            # All tokens of the step are stored before any is read: a request may hit blocks that another one fills in this step.
            store_kv(k, v, k_cache, v_cache, batch.slot_mapping, k_scale, v_scale)
            # Of a token without logits, nothing after the last layer's K/V is ever read.
            if layer is weights.layers[-1] and len(batch.logits_at) < len(x):
                x, q, batch = x[batch.logits_at], q[batch.logits_at], batch.of_logits()
            attended = paged_attention(
                q,
                k_cache,
                v_cache,
                batch.block_table,
                batch.query_start,
                batch.seq_lens,
                k_scale=k_scale,
                v_scale=v_scale,
            )
            x = x + linear(attended.flatten(1), layer.output, layer.output_bias)
            gate, up = linear(self._normed(x, layer.mlp_norm), layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
            x = x + linear(silu(gate).mul_(up), layer.down, layer.down_bias)
        return self._normed(x, weights.norm) @ weights.head

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)
