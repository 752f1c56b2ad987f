"""Products with packed weights are those with the weights as they are."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest
import torch

from kvtool.engine.model import products
from kvtool.engine.model.configs.traits import Activation
from kvtool.engine.model.layer_weights import DenseWeights
from kvtool.engine.model.mlp import PackedMlp, PlainMlp, make_mlp
from kvtool.engine.model.products import PackedWeight, PlainWeight, can_pack, make_product
from kvtool.kernels import torch_twins

HIDDEN, INNER, ROWS = 24, 40, 56

pytestmark = pytest.mark.skipif(not can_pack(torch.zeros(1, 1)), reason="oneDNN packs no weights on this processor")


def make_weights(*, biases: bool) -> DenseWeights:
    random = torch.Generator().manual_seed(5)

    def weight(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    def bias(rows: int) -> torch.Tensor | None:
        return weight(rows) if biases else None

    return DenseWeights(
        gate_up=weight(2 * INNER, HIDDEN),
        gate_up_bias=bias(2 * INNER),
        down=weight(HIDDEN, INNER),
        down_bias=bias(HIDDEN),
    )


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 33, 300])
def test_packed_products_are_those_of_torch(count: int, biases: bool) -> None:
    weight, bias = torch.randn(ROWS, HIDDEN), torch.randn(ROWS) if biases else None
    x = torch.randn(count, HIDDEN)
    expected = PlainWeight(weight, bias).product(x)
    assert expected.shape == (count, ROWS)
    torch.testing.assert_close(PackedWeight(weight, bias).product(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 33, 300])
def test_packed_mlps_are_those_of_torch(count: int, biases: bool, activation: Activation) -> None:
    weights, x = make_weights(biases=biases), torch.randn(count, HIDDEN)
    expected = PlainMlp(weights, activation, torch_twins).forward(x)
    assert expected.shape == x.shape
    torch.testing.assert_close(PackedMlp(weights, activation).forward(x), expected, rtol=1e-4, atol=1e-3)


def test_rows_may_lie_apart() -> None:
    weight, wide = torch.randn(ROWS, HIDDEN), torch.randn(7, 2 * HIDDEN)
    x = wide[:, HIDDEN:]
    torch.testing.assert_close(PackedWeight(weight).product(x), x @ weight.t(), rtol=1e-4, atol=1e-4)


def test_packing_leaves_no_hold_on_the_weights() -> None:
    weights, x = make_weights(biases=False), torch.randn(3, HIDDEN)
    packed = PackedMlp(weights, "silu")
    before = packed.forward(x)
    weights.gate_up.zero_()
    torch.testing.assert_close(packed.forward(x), before, rtol=0, atol=0)


def test_smaller_types_are_not_packed() -> None:
    weights = make_weights(biases=False)
    assert isinstance(make_mlp(weights, "silu", torch_twins), PackedMlp)
    assert isinstance(make_product(weights.down), PackedWeight)
    smaller = dataclasses.replace(weights, gate_up=weights.gate_up.bfloat16())
    assert isinstance(make_mlp(smaller, "silu", torch_twins), PlainMlp)
    assert isinstance(make_product(weights.down.bfloat16()), PlainWeight)


def test_other_processors_have_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products.torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert isinstance(make_mlp(make_weights(biases=False), "silu", torch_twins), PlainMlp)
