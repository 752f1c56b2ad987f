"""The linear layers of the runs of `generate_with.py` and nothing else: no engine that multiplies with oneDNN in fp32 is faster.

    python benchmarks/product_floor.py MODEL PROMPTS.npy OUTPUTS SHARED

Each once for all tokens of a step, with weights that oneDNN has packed where it can, as kvtool and vLLM have them, on all cores,
best of three; of tokens that nothing is sampled from, the last layer has queries, keys and values only. Attention, norms,
activations, sampling and everything else cost nothing. Prints one line of JSON with seconds, like `generate_with.py`.
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

    warm = best(lambda: products.step(own, 1))
    print(json.dumps({"cold": best(cold), "warm": warm, "total": best(total), "tokens": []}))


if __name__ == "__main__":
    main()
