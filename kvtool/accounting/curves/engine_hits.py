"""Hits of one cache on a block trace, request after request, by the engine's own pool or by the rule of trace studies.

Curves use one list of blocks. This equals a run of the engine, to the block: an answer takes room, too, and so does a partial last
block while its request runs.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kvtool.accounting.policies.eviction_policy import EvictionPolicy, hits_of_each
from kvtool.accounting.policies.optimum import optimal_hits_of_each
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.sequential_pool import SequentialPool
from kvtool.engine.config import EngineConfig
from kvtool.engine.stats import PrefixCacheStats
from kvtool.workload.block_trace import BlockTrace, Numbers, RequestedBlocks


@dataclass(frozen=True, slots=True)
class BlockHits:
    """Hits of all requests, in blocks and in tokens of their prompts."""

    blocks: int
    references: int
    tokens: int
    prompt_tokens: int

    @property
    def rate(self) -> float:
        """Part of the prompts' tokens that hit."""
        return self.tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def computed(self) -> int:
        """Prompt tokens that did not hit."""
        return self.prompt_tokens - self.tokens


def engine_hits(trace: BlockTrace, config: EngineConfig) -> BlockHits:
    """Return the hits by vLLM's rule, as in `engine.sequential`, which has this pool; every request must fit it."""
    size = trace.block_size
    assert size == config.block_size
    blocks = trace.of_engine()
    pool = SequentialPool(config, PrefixCacheStats(), ChainNumbers())
    caching = config.enable_prefix_caching
    computed = _computed(trace, config)
    held, full = final_blocks(trace, config), computed // size if caching else np.zeros_like(computed)
    numbers = array("i", _rising(blocks.numbers).astype(np.intc).tobytes())
    hits = 0
    take = pool.take
    for (start, stop), asked, taken, filled in zip(
        pairwise(blocks.starts.tolist()), blocks.asked.tolist(), held.tolist(), full.tolist(), strict=True
    ):
        hits += take(numbers[start : min(stop, start + filled)], asked if caching else 0, taken, filled)
    return BlockHits(hits, blocks.references, hits * size, int(trace.prompt_tokens.sum()))


def final_blocks(trace: BlockTrace, config: EngineConfig) -> Numbers:
    """Return the blocks that each request uses at its end."""
    held: Numbers = -(-_computed(trace, config) // config.block_size)
    return held


def _computed(trace: BlockTrace, config: EngineConfig) -> Numbers:
    """Return each request's tokens with keys and values; the last sampled one never has any."""
    answers = np.minimum(np.maximum(trace.output_tokens, 1), config.max_model_len - trace.prompt_tokens)
    computed: Numbers = np.maximum(trace.prompt_tokens + answers - 1, trace.prompt_tokens)
    return computed


def policy_hits(trace: BlockTrace, policy: EvictionPolicy) -> BlockHits:
    """Return the hits by the rule of trace studies, under a policy."""
    blocks = trace.of_studies()
    return _counted(trace, blocks, hits_of_each(policy, blocks.requests()))


def best_hits(trace: BlockTrace, blocks: RequestedBlocks, capacity: int) -> BlockHits:
    """Return the most hits of any policy, by either rule: future requests and their lookups are known."""
    return _counted(trace, blocks, optimal_hits_of_each(blocks.requests(), capacity, blocks.asked.tolist()))


def _counted(trace: BlockTrace, blocks: RequestedBlocks, hits: list[int]) -> BlockHits:
    counts = np.minimum(np.array(hits, dtype=np.int64), blocks.asked)
    tokens = int(np.minimum(counts * trace.block_size, trace.prompt_tokens).sum())
    return BlockHits(int(counts.sum()), blocks.references, tokens, int(trace.prompt_tokens.sum()))


def _rising(numbers: Numbers) -> Numbers:
    """Return numbers from 1 in the order in which blocks first come, so that they rise along every chain."""
    if not len(numbers):
        return numbers
    here = np.arange(len(numbers))
    first = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    first[numbers[::-1]] = here[::-1]
    came = first[numbers]
    return np.cumsum(came == here)[came]
