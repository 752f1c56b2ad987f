"""The matrix products of a layer: as torch has them, or with weights that oneDNN has packed for the CPU."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn.functional import linear


class Product(Protocol):
    """A weight [out, in] and a bias [out]."""

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """Return x [T, in] to [T, out]."""
        ...


def make_product(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Product:
    """Return packed weights for fp32 on CPUs that support them: half to nine tenths of the time, with memory of its own."""
    return PackedWeight(weight, bias) if can_pack(weight) else PlainWeight(weight, bias)


class PlainWeight:
    """A weight that is not packed."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    def product(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight, self._bias)


class PackedWeight:
    """A weight in oneDNN's own order."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        self._bias = bias

    def product(self, x: torch.Tensor, then: str = "none", how: str = "") -> torch.Tensor:
        """Return [T, out]; oneDNN applies `then` to each number: nothing, `swish` (silu), or `gelu` by the formula `how`."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, then, [], how)
        return out

    def product_times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """Return the product of each number with that of `factor` [T, out]."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, factor, self._weight, self._bias, "mul")
        return out


def can_pack(weight: torch.Tensor) -> bool:
    """Return whether weights can be packed: fp32 only, because torch rounds smaller types between product and activation."""
    return (
        weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    )
