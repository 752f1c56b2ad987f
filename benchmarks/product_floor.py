"""The matrix products of the runs of `generate_with.py` and nothing else: no engine in fp32 on this machine can be faster.

    python benchmarks/product_floor.py MODEL PROMPTS.npy OUTPUTS SHARED

Each linear layer once for all tokens of a step, and both products of attention in their best shape: what is shared is read once for
all requests, causal halves are left out, their own tails, softmax, norms and everything else cost nothing. As fast as torch's
own library multiplies on all cores, best of three. Prints one line of JSON with seconds, like `generate_with.py`.
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


@dataclass(frozen=True)
class Products:
    """The products of one model: those of a layer with the sizes of what goes into them, and that of the vocabulary."""

    layers: int
    heads: int
    head_dim: int
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
        return cls(config["num_hidden_layers"], heads, dim, weights, vocabulary)

    def step(self, tokens: int, attended: int, sampled: int) -> None:
        """All layers for `tokens` [tokens, hidden], each attending to `attended` others, and the logits of `sampled` of them."""
        queries = given(self.heads, tokens, self.head_dim)
        keys = given(self.heads, self.head_dim, attended)
        for _ in range(self.layers):
            for size, weight in self.weights:
                weight.product(given(tokens, size))
            torch.matmul(torch.matmul(queries, keys), keys.transpose(1, 2))
        size, head = self.vocabulary
        head.product(given(sampled, size))


@cache
def given(*shape: int) -> torch.Tensor:
    """What goes into a product; made once, in the first of the rounds."""
    return torch.randn(shape)


def best(work: Callable[[], None]) -> float:
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
    products = Products.of(json.loads(Path(model, "config.json").read_text(encoding="utf-8")))
    _, requests, tokens = np.load(prompts_file).shape
    prefix, own = int(shared), tokens - int(shared)

    def new_prefix() -> None:
        for at in range(0, prefix, STEP_TOKENS):
            size = min(STEP_TOKENS, prefix - at)
            products.step(size, at + size // 2, 0)

    def cold() -> None:
        new_prefix()
        products.step(own, prefix, 1)

    def total() -> None:
        new_prefix()
        for at in range(0, requests * own, STEP_TOKENS):
            products.step(min(STEP_TOKENS, requests * own - at), prefix, requests)
        for _ in range(int(outputs) - 1):
            products.step(requests, prefix, requests)

    warm = best(lambda: products.step(own, prefix, 1))
    print(json.dumps({"cold": best(cold), "warm": warm, "total": best(total), "tokens": []}))


if __name__ == "__main__":
    main()
