"""The engine's own cache where it has room for everything and one request runs at a time: no block needs to be kept to know it."""

from __future__ import annotations

from kvtool.accounting.prefix_tree import Ids, RadixTree, with_answer
from kvtool.accounting.token_store import TokenStore
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.stats import PrefixCacheStats


class UnlimitedCache:
    """Execute requests as `engine.sequential.account` does with an unlimited pool, given each request's earlier computed part.

    Nothing is ever evicted, so a request hits the whole blocks of any earlier one with its salt. It keeps three numbers.
    """

    def __init__(self, config: EngineConfig, stats: PrefixCacheStats) -> None:
        """Create the cache; `stats` counts the lookups."""
        self._config = config
        self._stats = stats
        self.num_filled = 0
        """Blocks with content; `peak_used` is the most blocks of one request."""
        self.peak_used = 0

    @staticmethod
    def can_replace(config: EngineConfig) -> bool:
        """Return whether this replaces a pool. Blocks of one token are left to the engine: in a trace, they may be anything."""
        return config.num_blocks is None and config.block_size > 1 and config.plan is None

    def execute(self, request: Request, reachable: int) -> None:
        """Take a request with known tokens from submission to its end; `reachable` of its tokens were computed before it."""
        config, size = self._config, self._config.block_size
        hit = reachable if config.enable_prefix_caching and not request.skip_reading_cache else 0
        outputs = request.output_ids if request.output_ids is not None else [0] * request.max_tokens
        request.outputs = list(outputs[: config.max_model_len - request.num_prompt_tokens])
        request.num_cached_tokens = hit
        # The last sampled token is never computed.
        computed = request.num_prompt_tokens + max(len(request.outputs) - 1, 0)
        self.peak_used = max(self.peak_used, -(-computed // size))
        if config.enable_prefix_caching:
            self._stats.admitted(request, hit)
            self.num_filled += computed // size - hit // size


class ComputedPrefixes:
    """The computed prompts of each salt, for runs without a ledger."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._store = TokenStore()
        self._trees: dict[str, RadixTree] = {}

    def reachable(self, prompt: Ids, output: Ids, salt: str | None) -> int:
        """Return the tokens of a prompt that such a cache hits; then add the prompt and the computed part of its answer."""
        tree = self._trees.get(salt or "")
        if tree is None:
            tree = self._trees[salt or ""] = RadixTree(self._store)
        known = tree.grow(prompt, with_answer(prompt, output))
        return max(min(known, len(prompt) - 1), 0) // self._block_size * self._block_size
