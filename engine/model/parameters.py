"""A state dict's weights, taken over into memory that is laid out for the forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.experts import Experts
from kvtool.engine.model.latent import LatentDims
from kvtool.engine.model.layer_weights import (
    AttentionWeights,
    DenseWeights,
    ExpertWeights,
    GroupedWeights,
    LatentWeights,
    Layer,
)
from kvtool.engine.model.parameter_shapes import (
    CORRECTION,
    EMBEDDING,
    HEAD,
    NORM,
    Shape,
    check_names,
    check_shapes,
    has_experts,
    layer_shapes,
    parameter_shapes,
)

State = Mapping[str, torch.Tensor]


class Parameters:
    """Weights are taken one by one, so that no second copy of the model is ever in memory."""

    def __init__(self, config: ModelConfig, state: State, device: torch.device, dtype: torch.dtype) -> None:
        names = check_names(config, state, "the state dict")
        self._config = config
        self._device = device
        self._dtype = dtype
        self._targets: dict[str, torch.Tensor] = {}
        self.layers = [
            _LayerMemory(self, index, layer_shapes(config, has_experts=has_experts(config, index))).layer(config)
            for index in range(config.num_hidden_layers)
        ]
        self.norm = self.new(NORM, (config.hidden_size,))
        # The head is kept as [hidden, vocab]: for the few rows that get logits, CPU libraries multiply by it up to three
        # times as fast as by [vocab, hidden]. Tied embeddings are the same memory.
        self.head = self.memory(config.hidden_size, config.vocab_size)
        if config.tie_word_embeddings:
            self.embedding = self._targets[EMBEDDING] = self.head.t()
        else:
            self._targets[HEAD] = self.head.t()
            self.embedding = self.new(EMBEDDING, (config.vocab_size, config.hidden_size))
        shapes = parameter_shapes(config)
        for name in names:
            self._fill(name, state[name], shapes)
        assert not self._targets, f"no values for {', '.join(self._targets)}"

    def memory(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Without numbers; of the model's type unless another is given."""
        return torch.empty(shape, device=self._device, dtype=dtype or self._dtype)

    def new(self, name: str, shape: Shape, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Allocate memory for the tensor of that name."""
        self._targets[name] = self.memory(*shape, dtype=dtype)
        return self._targets[name]

    def aim(self, name: str, target: torch.Tensor) -> None:
        """Set the target of the tensor of that name; a target with one more dimension gets the tensor in every row."""
        self._targets[name] = target

    def _fill(self, name: str, weight: torch.Tensor, shapes: Mapping[str, Shape]) -> None:
        """Convert and copy."""
        check_shapes(shapes, {name: tuple(weight.shape)}, "the state dict")
        target = self._targets.pop(name)
        if self._config.traits.centred_norms and name.endswith("norm.weight"):
            weight = weight.to(torch.float32) + 1.0
        if not target.is_contiguous():
            # Convert before the write: a transposed copy in the order of the target's memory is several times as fast.
            weight, target = weight.to(target.device, target.dtype).t(), target.t()
        target.copy_(weight.detach())


class _LayerMemory:
    """Allocate the memory of one layer and name the tensors that go there."""

    def __init__(self, parameters: Parameters, index: int, shapes: Mapping[str, Shape]) -> None:
        self._parameters = parameters
        self._at = f"model.layers.{index}."
        self._shapes = shapes
        self._has_experts = "mlp.gate_proj.weight" not in shapes

    def layer(self, config: ModelConfig) -> Layer:
        """Return the whole layer."""
        outputs = config.traits.output_norms
        return Layer(
            attention_norm=self._weight("input_layernorm"),
            attention=self._grouped(config) if config.latent is None else self._latent(config.latent),
            attention_output_norm=self._weight("post_attention_layernorm") if outputs else None,
            mlp_norm=self._weight("pre_feedforward_layernorm" if outputs else "post_attention_layernorm"),
            mlp=self._experts(config.experts)
            if self._has_experts and config.experts is not None
            else self._dense("mlp"),
            mlp_output_norm=self._weight("post_feedforward_layernorm") if outputs else None,
        )

    def _new(self, name: str, dtype: torch.dtype | None = None) -> torch.Tensor:
        return self._parameters.new(self._at + name, self._shapes[name], dtype)

    def _fused(self, names: Iterable[str], kind: str) -> torch.Tensor:
        """Allocate memory for several tensors, one after the other in the first dimension."""
        parts = [f"{name}.{kind}" for name in names]
        rows = [self._shapes[part][0] for part in parts]
        fused = self._parameters.memory(sum(rows), *self._shapes[parts[0]][1:])
        for part, piece in zip(parts, fused.split_with_sizes(rows), strict=True):
            self._parameters.aim(self._at + part, piece)
        return fused

    def _weight(self, *names: str) -> torch.Tensor:
        return self._fused(names, "weight")

    def _bias(self, *names: str) -> torch.Tensor | None:
        return self._fused(names, "bias") if f"{names[0]}.bias" in self._shapes else None

    def _grouped(self, config: ModelConfig) -> AttentionWeights:
        qkv = [f"self_attn.{name}_proj" for name in "qkv"]
        return GroupedWeights(
            qkv=self._weight(*qkv),
            qkv_bias=self._bias(*qkv),
            qk_norm=self._qk_norm(config) if config.qk_norm else None,
            output=self._weight("self_attn.o_proj"),
            output_bias=self._bias("self_attn.o_proj"),
            sinks=self._new("self_attn.sinks") if config.traits.attention_sinks else None,
        )

    def _qk_norm(self, config: ModelConfig) -> torch.Tensor:
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        both = self._parameters.memory(heads + kv_heads, config.head_dim)
        for name, rows in zip("qk", both.split_with_sizes([heads, kv_heads]), strict=True):
            self._parameters.aim(f"{self._at}self_attn.{name}_norm.weight", rows)
        return both

    def _latent(self, latent: LatentDims) -> AttentionWeights:
        compressed = latent.query_rank is not None
        return LatentWeights(
            query_down=self._weight("self_attn.q_a_proj") if compressed else None,
            query_down_bias=self._bias("self_attn.q_a_proj"),
            query_norm=self._weight("self_attn.q_a_layernorm") if compressed else None,
            query=self._weight("self_attn.q_b_proj" if compressed else "self_attn.q_proj"),
            latent=self._weight("self_attn.kv_a_proj_with_mqa"),
            latent_bias=self._bias("self_attn.kv_a_proj_with_mqa"),
            latent_norm=self._weight("self_attn.kv_a_layernorm"),
            expand=self._weight("self_attn.kv_b_proj"),
            output=self._weight("self_attn.o_proj"),
            output_bias=self._bias("self_attn.o_proj"),
        )

    def _dense(self, name: str) -> DenseWeights:
        gate_up = [f"{name}.gate_proj", f"{name}.up_proj"]
        return DenseWeights(
            gate_up=self._weight(*gate_up),
            gate_up_bias=self._bias(*gate_up),
            down=self._weight(f"{name}.down_proj"),
            down_bias=self._bias(f"{name}.down_proj"),
        )

    def _experts(self, experts: Experts) -> ExpertWeights:
        if experts.clamped is not None:
            return ExpertWeights(
                router=self._weight("mlp.router"),
                router_bias=self._bias("mlp.router"),
                correction=None,
                gate_up=self._new("mlp.experts.gate_up_proj"),
                gate_up_bias=self._new("mlp.experts.gate_up_proj_bias"),
                down=self._new("mlp.experts.down_proj"),
                down_bias=self._new("mlp.experts.down_proj_bias"),
                shared=None,
            )
        inner, hidden = self._shapes["mlp.experts.0.gate_proj.weight"]
        gate_up = self._parameters.memory(experts.count, 2 * inner, hidden)
        down = self._parameters.memory(experts.count, hidden, inner)
        for expert in range(experts.count):
            at = f"{self._at}mlp.experts.{expert}."
            self._parameters.aim(at + "gate_proj.weight", gate_up[expert, :inner])
            self._parameters.aim(at + "up_proj.weight", gate_up[expert, inner:])
            self._parameters.aim(at + "down_proj.weight", down[expert])
        return ExpertWeights(
            router=self._weight("mlp.gate"),
            router_bias=None,
            correction=self._new(CORRECTION, torch.float32) if experts.corrected else None,
            gate_up=gate_up,
            gate_up_bias=None,
            down=down,
            down_bias=None,
            shared=self._dense("mlp.shared_experts") if experts.shared_size else None,
        )
