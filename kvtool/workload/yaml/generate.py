"""Prompts of random token ids: shared prefixes of exact lengths, each with suffixes of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvtool.workload.turn import Ids
from kvtool.workload.yaml.draws import Key, stream
from kvtool.workload.yaml.schema import Generate

LOWEST_ID, HIGHEST_ID = 1_000, 30_000
"""Ordinary tokens of every vocabulary in use: above the special and byte tokens, below the smallest vocabulary's end."""


def generated(spec: Generate, *key: Key) -> Iterator[Ids]:
    """The token ids of each request; they depend on `key` alone. One prompt is in memory at a time."""
    for prefix, suffix in _order(spec):
        yield np.concatenate(
            [_ids(spec.prefix_tokens, *key, "prefix", prefix), _ids(spec.suffix_tokens, *key, "suffix", prefix, suffix)]
        )


def _order(spec: Generate) -> Iterator[tuple[int, int]]:
    if spec.order == "sequential":
        return ((prefix, suffix) for prefix in range(spec.prefixes) for suffix in range(spec.per_prefix))
    return ((prefix, suffix) for suffix in range(spec.per_prefix) for prefix in range(spec.prefixes))


def _ids(count: int, *key: Key) -> Ids:
    words = np.frombuffer(stream(4 * count, *key), dtype="<u4")
    return (words % (HIGHEST_ID - LOWEST_ID + 1) + LOWEST_ID).astype(np.int32)
