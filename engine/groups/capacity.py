"""What a plan's pool holds: blocks of a request, requests at a time, tokens, as vLLM counts and logs them."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.groups.kv_group import CachePlan, KVGroup


def blocks_of_request(group: KVGroup, tokens: int, max_in_flight_tokens: int) -> int:
    """Return the most blocks of a group that one request of so many tokens holds at a time, the null block aside."""
    if group.kind == "mamba":
        return (2 + group.ckpt_blocks if group.mamba_align else 1) + group.spec_blocks
    if group.kind == "sliding":
        assert group.window is not None
        kept = min(group.window - 1 + group.extra_retained + max_in_flight_tokens, tokens)
        return -(-kept // group.block_size) + 1
    if group.kind == "chunked":
        assert group.chunk is not None
        kept = min(group.chunk + max_in_flight_tokens, tokens)
        return -(-kept * group.ranks // group.block_size)  # vLLM counts one rank's part of a block here
    return -(-tokens // group.block_size)


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """The blocks that a number of bytes holds under a plan. `num_blocks` counts the null block, as vLLM does."""

    plan: CachePlan
    num_blocks: int

    @classmethod
    def of(cls, available: int, plan: CachePlan) -> PlannedPool:
        return cls(plan, max(available, 0) // plan.bytes_per_block if plan.groups else 1)

    @property
    def usable_blocks(self) -> int:
        """Without the null block."""
        return max(self.num_blocks - 1, 0)

    def blocks_per_request(self, tokens: int) -> tuple[int, ...]:
        """Of each group, for a request of so many tokens."""
        return tuple(blocks_of_request(group, tokens, self.plan.max_in_flight_tokens) for group in self.plan.groups)

    def max_concurrency(self, max_model_len: int) -> float:
        """vLLM's "maximum concurrency" of requests of `max_model_len` tokens that share nothing."""
        return self.num_blocks / sum(self.blocks_per_request(max_model_len))

    def tokens(self, max_model_len: int) -> int:
        """vLLM's "GPU KV cache size": those of that many requests of `max_model_len` tokens."""
        return int(self.max_concurrency(max_model_len) * max_model_len)

    def holds(self, tokens: int) -> bool:
        """Return whether one request of so many tokens fits; where one of max_model_len does not, vLLM does not start."""
        return sum(self.blocks_per_request(tokens)) <= self.usable_blocks

    def longest_request(self, at_most: int | None = None) -> int:
        """Tokens of the longest request that fits, up to `at_most`; 0 where none does."""
        if not self.plan.groups or not self.holds(1):
            return at_most or 0
        low, high = 1, at_most or self.usable_blocks * max(group.block_size for group in self.plan.groups)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.holds(middle) else (low, middle - 1)
        return low
