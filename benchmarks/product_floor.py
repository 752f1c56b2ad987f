"""The matrix products of the runs of `generate_with.py` and nothing else: no engine that multiplies with oneDNN in fp32 is faster.

    python benchmarks/product_floor.py MODEL PROMPTS.npy OUTPUTS SHARED

The linear layers are run, each once for all tokens of a step, with weights that oneDNN has packed where it can, as kvtool and
vLLM have them, on all cores, best of three; of tokens that nothing is sampled from, the last layer has queries, keys and values
only. The two products of attention are counted, each query with the keys that it sees, and cost what they would at the best rate
that oneDNN reaches on this machine with a square matrix: those of attention are thin, and slower. Exponentials, norms,
activations, sampling and all that reads memory cost nothing. Prints one line of JSON with seconds, as `generate_with.py` does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvtool.engine.model.products import Product, make_product

ROUNDS = 3
STEP_TOKENS = 2_048
"""Prompt tokens that go through the layers together."""

SQUARE = 2_048
"""Rows and columns of the matrices with which the best rate is measured."""


@dataclass(frozen=True)
class Products:
    """The products of one model: those of a layer with the sizes of what goes into them, and that of the vocabulary."""

    layers: int
    weights: list[tuple[int, Product]]
    vocabulary: tuple[int, Product]

    @classmethod
    def of(cls, config: dict[str, Any]) -> Products:
        hidden, heads, inner = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"]
        dim = hidden // heads
        qkv = hidden + 2 * config["num_key_value_heads"] * dim
        shapes = ((qkv, hidden), (hidden, hidden), (2 * inner, hidden), (hidden, inner))
        weights = [(shape[1], make_product(torch.randn(shape))) for shape in shapes]
        vocabulary = hidden, make_product(torch.randn(config["vocab_size"], hidden))
        return cls(config["num_hidden_layers"], weights, vocabulary)

    def step(self, tokens: int, sampled: int) -> None:
        """All layers for `tokens` [tokens, hidden], and the logits of `sampled` of them."""
        for layer in range(self.layers):
            for number, (size, weight) in enumerate(self.weights):
                wanted = sampled if number and layer == self.layers - 1 else tokens
                if wanted:
                    weight.product(given(wanted, size))
        if sampled:
            size, head = self.vocabulary
            head.product(given(sampled, size))


@dataclass(frozen=True)
class AttentionProducts:
    """Those of one query and one key in a layer, and of how many layers."""

    layers: int
    flops: int

    @classmethod
    def of(cls, config: dict[str, Any]) -> AttentionProducts:
        return cls(
            config["num_hidden_layers"], 2 * 2 * config["hidden_size"]
        )  # all heads' dimensions, multiplied and added

    def prefill(self, before: int, tokens: int) -> int:
        """FLOPs of `tokens` behind `before` cached ones; the last layer's, of one query, are left out."""
        return (self.layers - 1) * self.flops * (tokens * before + tokens * (tokens + 1) // 2)

    def decode(self, seen: int) -> int:
        """FLOPs of one token that sees `seen`."""
        return self.layers * self.flops * seen


def best_rate() -> float:
    """FLOPs in a second of a product of square matrices, with packed weights."""
    weight, rows = make_product(torch.randn(SQUARE, SQUARE)), given(SQUARE, SQUARE)
    return 2 * SQUARE**3 / best(lambda: weight.product(rows))


@cache
def given(*shape: int) -> torch.Tensor:
    """What goes into a product; made once, in the first of the rounds."""
    return torch.randn(shape)


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of the rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


@torch.inference_mode()
def main() -> None:
    model, prompts_file, outputs, shared = sys.argv[1:]
    config = json.loads(Path(model, "config.json").read_text(encoding="utf-8"))
    products, attention = Products.of(config), AttentionProducts.of(config)
    _, requests, tokens = np.load(prompts_file).shape
    prefix, own = int(shared), tokens - int(shared)

    def new_prefix() -> None:
        for at in range(0, prefix, STEP_TOKENS):
            products.step(min(STEP_TOKENS, prefix - at), 0)

    def cold() -> None:
        new_prefix()
        products.step(own, 1)

    def total() -> None:
        new_prefix()
        for at in range(0, requests * own, STEP_TOKENS):
            products.step(min(STEP_TOKENS, requests * own - at), requests)
        for _ in range(int(outputs) - 1):
            products.step(requests, requests)

    after_prefill = sum(attention.decode(tokens + more) for more in range(1, int(outputs)))
    flops = {
        "cold": attention.prefill(0, tokens),
        "warm": attention.prefill(prefix, own),
        "total": attention.prefill(0, prefix) + requests * (attention.prefill(prefix, own) + after_prefill),
    }
    linear = {"cold": best(cold), "warm": best(lambda: products.step(own, 1)), "total": best(total)}
    rate = best_rate()
    print(json.dumps({**{key: linear[key] + flops[key] / rate for key in linear}, "tokens": []}))


if __name__ == "__main__":
    main()
