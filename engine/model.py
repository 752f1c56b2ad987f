"""One Llama decoder on paged K/V."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import linear, rms_norm, silu

from kvtool.engine.batch import Batch
from kvtool.engine.errors import EngineError
from kvtool.engine.kv_store import KVStore
from kvtool.engine.model_config import ModelConfig
from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.store_kv import store_kv

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights are [out, in]; projections of the same input are one matrix."""

    attention_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(Hq + 2 Hkv) * D, hidden]
    output: torch.Tensor  # [hidden, Hq * D]
    mlp_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    down: torch.Tensor  # [hidden, intermediate]


class Llama:
    """A decoder whose weights are given as a state dict with the names of Hugging Face's LlamaForCausalLM."""

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
        weights = {name: w.detach().to(self.device, dtype) for name, w in _checked(config, state).items()}

        def fused(prefix: str, *names: str) -> torch.Tensor:
            return torch.cat([weights[f"{prefix}.{name}.weight"] for name in names])

        self._layers = [
            _Layer(
                attention_norm=weights[f"{at}.input_layernorm.weight"],
                qkv=fused(f"{at}.self_attn", "q_proj", "k_proj", "v_proj"),
                output=weights[f"{at}.self_attn.o_proj.weight"],
                mlp_norm=weights[f"{at}.post_attention_layernorm.weight"],
                gate_up=fused(f"{at}.mlp", "gate_proj", "up_proj"),
                down=weights[f"{at}.mlp.down_proj.weight"],
            )
            for at in (f"model.layers.{layer}" for layer in range(config.num_hidden_layers))
        ]
        self._norm = weights["model.norm.weight"]
        # The head is kept as [hidden, vocab]: for the few rows that get logits, CPU libraries multiply by it up to three
        # times as fast as by [vocab, hidden]. Tied embeddings are the same memory.
        tied = config.tie_word_embeddings
        self._head = weights["model.embed_tokens.weight" if tied else "lm_head.weight"].t().contiguous()
        self._embedding = self._head.t() if tied else weights["model.embed_tokens.weight"]
        half = torch.arange(0, config.head_dim, 2, device=self.device, dtype=torch.float32) / config.head_dim
        self._inverse_frequency = 1.0 / config.rope_theta**half  # [D / 2]

    @classmethod
    def random(
        cls,
        config: ModelConfig,
        seed: int = 0,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Llama:
        """Weights made from a seed; the same on every device."""
        return cls(config, random_state(config, seed), device=device, dtype=dtype)

    def forward(self, batch: Batch, kv: KVStore) -> torch.Tensor:
        """Compute the batch's tokens, leave their K/V in `kv`, and return logits [len(batch.logits_at), vocab]."""
        config = self.config
        heads, kv_heads, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        cos, sin = self._rotation(batch.positions)
        x = self._embedding[batch.input_ids]  # [T, hidden]
        for layer, k_cache, v_cache in zip(self._layers, kv.k, kv.v, strict=True):
            projected = linear(self._normed(x, layer.attention_norm), layer.qkv).view(len(x), -1, dim)
            qk = _rotated(projected[:, : heads + kv_heads], cos, sin)
            q, k, v = qk[:, :heads], qk[:, heads:], projected[:, heads + kv_heads :]  # each [T, heads, D]
            # All tokens of the step are stored before any is read: a request may hit blocks that another one fills in this step.
            store_kv(k, v, k_cache, v_cache, batch.slot_mapping)
            attended = paged_attention(q, k_cache, v_cache, batch.block_table, batch.query_start, batch.seq_lens)
            x = x + linear(attended.flatten(1), layer.output)
            gate, up = linear(self._normed(x, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
            x = x + linear(silu(gate).mul_(up), layer.down)
        return self._normed(x[batch.logits_at], self._norm) @ self._head

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and signed sin, each [T, 1, D], for `_rotated`."""
        angle = positions.to(torch.float32)[:, None, None] * self._inverse_frequency
        cos, sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of x [T, H, D]: element j is rotated together with element j + D/2, as in Hugging Face's layout."""
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, dims=-1), sin)


def random_state(config: ModelConfig, seed: int) -> dict[str, torch.Tensor]:
    """A state dict from a seed.

    Projections keep the scale of their input, and embeddings are small beside them: with tied embeddings a model would otherwise
    repeat its last token for ever.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int, std: float) -> torch.Tensor:
        return torch.empty(rows, columns).normal_(0.0, std, generator=generator)

    state = {}
    for name, shape in _shapes(config).items():
        if len(shape) == 1:
            state[name] = torch.ones(shape)
        elif name == "model.embed_tokens.weight":
            state[name] = normal(shape[1], shape[0], 0.02).t()  # laid out as the head is kept
        else:
            state[name] = normal(shape[0], shape[1], shape[1] ** -0.5)
    return state


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a complete state dict."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.num_hidden_layers):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.input_layernorm.weight": (hidden,),
            f"{at}.self_attn.q_proj.weight": (q_size, hidden),
            f"{at}.self_attn.k_proj.weight": (kv_size, hidden),
            f"{at}.self_attn.v_proj.weight": (kv_size, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, q_size),
            f"{at}.post_attention_layernorm.weight": (hidden,),
            f"{at}.mlp.gate_proj.weight": (inner, hidden),
            f"{at}.mlp.up_proj.weight": (inner, hidden),
            f"{at}.mlp.down_proj.weight": (hidden, inner),
        }
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def _checked(config: ModelConfig, state: State) -> dict[str, torch.Tensor]:
    """The state dict, if it has exactly the weights of the config; a tied head that is spelled out is dropped."""
    shapes = _shapes(config)
    given = dict(state)
    if config.tie_word_embeddings:
        given.pop("lm_head.weight", None)
    for problem, names in (("lacks", shapes.keys() - given.keys()), ("has the unknown", given.keys() - shapes.keys())):
        if names:
            raise EngineError(f"the state dict {problem} {', '.join(sorted(names))}")
    for name, shape in shapes.items():
        if tuple(given[name].shape) != shape:
            raise EngineError(f"{name} is {list(given[name].shape)}, not {list(shape)} as the config says")
    return given
