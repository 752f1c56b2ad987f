"""Products with packed weights are those with the weights as they are."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kvtool.engine.model import products
from kvtool.engine.model.parameters import Layer
from kvtool.engine.model.products import PackedProducts, PackedWeight, PlainProducts, can_pack, layer_products
from kvtool.kernels import torch_twins

HIDDEN, INNER, ROWS = 24, 40, 56

pytestmark = pytest.mark.skipif(not can_pack(torch.zeros(1, 1)), reason="oneDNN packs no weights on this processor")


def make_layer(*, biases: bool) -> Layer:
    random = torch.Generator().manual_seed(5)

    def weight(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    def bias(rows: int) -> torch.Tensor | None:
        return weight(rows) if biases else None

    return Layer(
        attention_norm=weight(HIDDEN),
        qkv=weight(ROWS, HIDDEN),
        qkv_bias=bias(ROWS),
        qk_norm=None,
        output=weight(HIDDEN, ROWS),
        output_bias=bias(HIDDEN),
        mlp_norm=weight(HIDDEN),
        gate_up=weight(2 * INNER, HIDDEN),
        gate_up_bias=bias(2 * INNER),
        down=weight(HIDDEN, INNER),
        down_bias=bias(HIDDEN),
    )


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 33, 300])
def test_packed_products_are_those_of_torch(count: int, biases: bool) -> None:
    layer = make_layer(biases=biases)
    packed, plain = PackedProducts(layer), PlainProducts(layer, torch_twins)
    x, attended, inner = torch.randn(count, HIDDEN), torch.randn(count, ROWS), torch.randn(count, INNER)
    for found, expected in (
        (packed.qkv(x), plain.qkv(x)),
        (packed.output(attended), plain.output(attended)),
        (packed.gated(x), plain.gated(x)),
        (packed.down(inner), plain.down(inner)),
    ):
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_rows_may_lie_apart() -> None:
    weight, wide = torch.randn(ROWS, HIDDEN), torch.randn(7, 2 * HIDDEN)
    x = wide[:, HIDDEN:]
    torch.testing.assert_close(PackedWeight(weight).product(x), x @ weight.t(), rtol=1e-4, atol=1e-4)


def test_packing_leaves_no_hold_on_the_weights() -> None:
    layer = make_layer(biases=False)
    x = torch.randn(3, HIDDEN)
    packed = PackedProducts(layer)
    before = packed.gated(x)
    layer.gate_up.zero_()
    torch.testing.assert_close(packed.gated(x), before, rtol=0, atol=0)


def test_smaller_types_are_not_packed() -> None:
    layer = make_layer(biases=False)
    assert isinstance(layer_products(layer, torch_twins), PackedProducts)
    smaller = dataclasses.replace(layer, qkv=layer.qkv.bfloat16())
    assert isinstance(layer_products(smaller, torch_twins), PlainProducts)


def test_other_processors_have_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products.torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert isinstance(layer_products(make_layer(biases=False), torch_twins), PlainProducts)
