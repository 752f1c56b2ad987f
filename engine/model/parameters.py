"""The weights of a decoder: their names in a checkpoint, and how the forward pass has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.model_config import ModelConfig

Shape = tuple[int, ...]
State = Mapping[str, torch.Tensor]

_EMBEDDING, _HEAD, _NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
_SHOWN = 4
_MISMATCH_HINT = "config.json and the weights must belong together"


def parameter_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Names and shapes of a complete checkpoint, as Hugging Face's classes write them."""
    shapes: dict[str, Shape] = {_EMBEDDING: (config.vocab_size, config.hidden_size)}
    layer = _layer_shapes(config)
    for index in range(config.num_hidden_layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    shapes[_NORM] = (config.hidden_size,)
    if not config.tie_word_embeddings:
        shapes[_HEAD] = (config.vocab_size, config.hidden_size)
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, Shape]:
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    q_size, kv_size = config.num_attention_heads * dim, config.num_key_value_heads * dim
    projections = {
        "self_attn.q_proj": (q_size, hidden, config.qkv_bias),
        "self_attn.k_proj": (kv_size, hidden, config.qkv_bias),
        "self_attn.v_proj": (kv_size, hidden, config.qkv_bias),
        "self_attn.o_proj": (hidden, q_size, config.output_bias),
        "mlp.gate_proj": (inner, hidden, config.mlp_bias),
        "mlp.up_proj": (inner, hidden, config.mlp_bias),
        "mlp.down_proj": (hidden, inner, config.mlp_bias),
    }
    shapes: dict[str, Shape] = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
    if config.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    for name, (rows, columns, bias) in projections.items():
        shapes[f"{name}.weight"] = (rows, columns)
        if bias:
            shapes[f"{name}.bias"] = (rows,)
    return shapes


def check_names(config: ModelConfig, found: Iterable[str], where: str) -> list[str]:
    """The names of `found` that the decoder uses, in its order; EngineError unless they are exactly the model's.

    Left aside are a head that is tied to the embeddings and spelled out all the same, and the rotary frequencies that old versions
    of transformers wrote, which follow from the config.
    """
    expected = parameter_shapes(config)
    found = dict.fromkeys(found)  # to ask a lazy state dict whether a tensor is in it would read the tensor
    aside = {_HEAD} if config.tie_word_embeddings else set()
    extra = [n for n in found if n not in expected and n not in aside and not n.endswith(".rotary_emb.inv_freq")]
    for problem, names in (("lacks", [name for name in expected if name not in found]), ("has the unknown", extra)):
        if names:
            raise EngineError(f"{where} {problem} {_listed(names)}", hint=_MISMATCH_HINT)
    return [name for name in found if name in expected]


def check_shapes(expected: Mapping[str, Shape], found: Mapping[str, Shape], where: str) -> None:
    """EngineError unless tensors of these names have the shapes that `parameter_shapes` gave."""
    for name, shape in found.items():
        if name in expected and shape != expected[name]:
            raise EngineError(
                f"{where}: {name} is {list(shape)}, not {list(expected[name])} as the config says",
                hint=_MISMATCH_HINT,
            )


def _listed(names: list[str]) -> str:
    shown = ", ".join(name if name.isprintable() else ascii(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights are [out, in]; projections of the same input are one matrix."""

    attention_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(Hq + 2 Hkv) * D, hidden]
    qkv_bias: torch.Tensor | None
    qk_norm: torch.Tensor | None  # [Hq + Hkv, D]: q_norm and k_norm, repeated for each head
    output: torch.Tensor  # [hidden, Hq * D]
    output_bias: torch.Tensor | None
    mlp_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor  # [hidden, intermediate]
    down_bias: torch.Tensor | None


class Parameters:
    """A state dict's weights, taken over one by one, so that no second copy of the model is ever in memory."""

    def __init__(self, config: ModelConfig, state: State, device: torch.device, dtype: torch.dtype) -> None:
        names = check_names(config, state, "the state dict")
        self._device = device
        self._dtype = dtype
        self._targets: dict[str, torch.Tensor] = {}
        self.layers = [self._layer(config, f"model.layers.{index}.") for index in range(config.num_hidden_layers)]
        self.norm = self._new(_NORM, config.hidden_size)
        # The head is kept as [hidden, vocab]: for the few rows that get logits, CPU libraries multiply by it up to three
        # times as fast as by [vocab, hidden]. Tied embeddings are the same memory.
        self.head = torch.empty(config.hidden_size, config.vocab_size, device=device, dtype=dtype)
        if config.tie_word_embeddings:
            self.embedding = self._targets[_EMBEDDING] = self.head.t()
        else:
            self._targets[_HEAD] = self.head.t()
            self.embedding = self._new(_EMBEDDING, config.vocab_size, config.hidden_size)
        shapes = parameter_shapes(config)
        for name in names:
            self._fill(name, state[name], shapes)
        assert not self._targets, f"no values for {', '.join(self._targets)}"

    def _fill(self, name: str, weight: torch.Tensor, shapes: Mapping[str, Shape]) -> None:
        """Convert and copy; a target with one dimension more gets the weight in every row."""
        check_shapes(shapes, {name: tuple(weight.shape)}, "the state dict")
        target = self._targets.pop(name)
        if not target.is_contiguous():
            # Converted before, and written in the order of the target's memory, a transposed copy is several times as fast.
            weight, target = weight.to(target.device, target.dtype).t(), target.t()
        target.copy_(weight.detach())

    def _new(self, name: str, *shape: int) -> torch.Tensor:
        """Memory for the tensor of that name."""
        self._targets[name] = torch.empty(shape, device=self._device, dtype=self._dtype)
        return self._targets[name]

    def _fused(self, at: str, names: Iterable[str], kind: str, shapes: Mapping[str, Shape]) -> torch.Tensor:
        """Memory for several tensors, one behind the other in their first dimension."""
        parts = [f"{name}.{kind}" for name in names]
        rows = [shapes[part][0] for part in parts]
        fused = torch.empty((sum(rows), *shapes[parts[0]][1:]), device=self._device, dtype=self._dtype)
        self._targets |= {at + part: piece for part, piece in zip(parts, fused.split_with_sizes(rows), strict=True)}
        return fused

    def _layer(self, config: ModelConfig, at: str) -> Layer:
        shapes = _layer_shapes(config)

        def weight(*names: str) -> torch.Tensor:
            return self._fused(at, names, "weight", shapes)

        def bias(*names: str) -> torch.Tensor | None:
            return self._fused(at, names, "bias", shapes) if f"{names[0]}.bias" in shapes else None

        qkv, gate_up = [f"self_attn.{name}_proj" for name in "qkv"], ["mlp.gate_proj", "mlp.up_proj"]
        return Layer(
            attention_norm=weight("input_layernorm"),
            qkv=weight(*qkv),
            qkv_bias=bias(*qkv),
            qk_norm=self._qk_norm(config, at) if config.qk_norm else None,
            output=weight("self_attn.o_proj"),
            output_bias=bias("self_attn.o_proj"),
            mlp_norm=weight("post_attention_layernorm"),
            gate_up=weight(*gate_up),
            gate_up_bias=bias(*gate_up),
            down=weight("mlp.down_proj"),
            down_bias=bias("mlp.down_proj"),
        )

    def _qk_norm(self, config: ModelConfig, at: str) -> torch.Tensor:
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        both = torch.empty(heads + kv_heads, config.head_dim, device=self._device, dtype=self._dtype)
        for name, rows in zip("qk", both.split_with_sizes([heads, kv_heads]), strict=True):
            self._targets[f"{at}self_attn.{name}_norm.weight"] = rows
        return both
