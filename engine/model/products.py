"""The matrix products of a layer: as torch has them, or with weights that oneDNN has packed for the CPU."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import linear

from kvtool.engine.model.parameters import Layer
from kvtool.kernels.protocol import Kernels


class Products(Protocol):
    """x [T, in] to [T, out]."""

    def qkv(self, x: torch.Tensor) -> torch.Tensor: ...

    def output(self, x: torch.Tensor) -> torch.Tensor: ...

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up, [T, intermediate]"""
        ...

    def down(self, x: torch.Tensor) -> torch.Tensor: ...


def layer_products(layer: Layer, kernels: Kernels) -> Products:
    """Packed ones for fp32 on CPUs that have them; these take half to nine tenths of the time, and their own memory."""
    return PackedProducts(layer) if can_pack(layer.qkv) else PlainProducts(layer, kernels)


class PlainProducts:
    """As torch has them."""

    def __init__(self, layer: Layer, kernels: Kernels) -> None:
        self._layer = layer
        self._kernels = kernels

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._layer.qkv, self._layer.qkv_bias)

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._layer.output, self._layer.output_bias)

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        return self._kernels.swiglu(linear(x, self._layer.gate_up, self._layer.gate_up_bias))

    def down(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._layer.down, self._layer.down_bias)


class PackedProducts:
    """With packed weights, and SwiGLU computed where the products of gate and up are."""

    def __init__(self, layer: Layer) -> None:
        gate, up = layer.gate_up.chunk(2)
        gate_bias, up_bias = (None, None) if layer.gate_up_bias is None else layer.gate_up_bias.chunk(2)
        self._qkv = PackedWeight(layer.qkv, layer.qkv_bias)
        self._output = PackedWeight(layer.output, layer.output_bias)
        self._gate, self._up = PackedWeight(gate, gate_bias), PackedWeight(up, up_bias)
        self._down = PackedWeight(layer.down, layer.down_bias)

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        return self._qkv.product(x)

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return self._output.product(x)

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        return self._up.product_times(x, self._gate.product(x, "swish"))

    def down(self, x: torch.Tensor) -> torch.Tensor:
        return self._down.product(x)


class PackedWeight:
    """A weight [out, in] in oneDNN's own order, and a bias [out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        self._bias = bias

    def product(self, x: torch.Tensor, then: str = "none") -> torch.Tensor:
        """[T, out]; `then` is what oneDNN does with each number: nothing, or `swish`, which is silu."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, then, [], "")
        return out

    def product_times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """The product of each number with that of `factor` [T, out]."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, factor, self._weight, self._bias, "mul")
        return out


def can_pack(weight: torch.Tensor) -> bool:
    """In fp32 only: of smaller types, torch rounds between a product and its activation, as models expect it."""
    return (
        weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    )
