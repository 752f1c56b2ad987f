"""Ends of the chunks of a prefill, at which states are kept."""

from __future__ import annotations

from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.common_hit import draft_groups
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.state_boundaries import can_export, state_boundary
from kvtool.engine.request import Request


class ChunkEnds:
    """Where a chunk of a prefill may end: for states to be kept, and not so near to the end that drafts lack known tokens."""

    def __init__(self, config: EngineConfig, plan: CachePlan) -> None:
        states = any(group.kind == "mamba" and group.mamba_align for group in plan.groups)
        self._aligned = _AlignedChunks(config, plan) if states else None
        self._lookahead = plan.num_prefill_lookahead
        self.cuts = states or self._lookahead > 1
        """Whether it matters where a chunk ends."""

    def cut(self, request: Request, start: int, count: int) -> int:
        """How many of `count` tokens from `start` on are computed in one step."""
        if self._aligned is not None:
            count = self._aligned.clip(request, start, count)
        return self.keep_lookahead(request, start, count)

    def align_first(self, request: Request, start: int, count: int) -> int:
        """`count` as states want it, of a request that is admitted; drafts beyond its tokens are all kept, or none of them."""
        if self._aligned is None:
            return count
        clipped = self._aligned.clip(request, start, count)
        padded = start + count > request.num_tokens
        return 1 if padded and 0 < clipped < count else clipped

    def keep_lookahead(self, request: Request, start: int, count: int) -> int:
        """`count` less the tokens that modules of drafts read behind a chunk, where it leaves fewer."""
        left = request.num_tokens - start - count
        return max(count - (self._lookahead - left), 0) if 0 < left < self._lookahead else count


class _AlignedChunks:
    """vLLM's rules for models with states: a chunk ends where a state is of use, on a block's end or before."""

    def __init__(self, config: EngineConfig, plan: CachePlan) -> None:
        states = [group for group in plan.groups if group.kind == "mamba"]
        self._block = plan.cache_block_size
        self._unit = plan.hash_block_size
        self._drops = plan.eagle_drop
        self._lookahead = plan.num_hash_lookahead
        self._exports = all(group.ckpt_blocks > 0 for group in states)
        self._export_align = states[0].ckpt_align
        self._parts = plan.partial_hits and plan.hash_block_size < plan.scheduler_block_size
        self._export_unit = self._unit if self._parts else plan.scheduler_block_size
        self._at_junctions = (
            config.enable_mamba_shared_prefix_checkpoint
            and self._parts
            and plan.num_prefill_lookahead <= 1
            and bool(draft_groups(plan))
        )
        threshold = config.long_prefill_token_threshold
        self._longest = min(config.max_num_batched_tokens, threshold or config.max_num_batched_tokens)

    def clip(self, request: Request, start: int, count: int) -> int:
        """How many of `count` tokens from `start` on are computed in one step."""
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if start >= prefill_end:
            return count
        block, end = self._block, start + count
        exports = self._is_exported(start, end, prefill_end)
        last = 0 if exports else self._boundary(request.num_tokens, block)
        if end < prefill_end:
            aligned = end // block * block
            if aligned > start or block <= self._longest:
                end = aligned
        tail = self._boundary(request.num_prompt_tokens, self._unit) if self._parts and not exports else 0
        stops = (
            (start // block + 1) * block if start % block and not exports else 0,
            last,
            tail if last < tail < request.num_prompt_tokens else 0,
            self._junction(request, start) if start < request.shared_prefix_boundary < end else 0,
        )
        end = min((stop for stop in stops if start < stop < end), default=end)
        return max(end - start, 0)

    def _boundary(self, num_tokens: int, unit: int) -> int:
        return state_boundary(num_tokens, unit, drops=self._drops, lookahead=self._lookahead)

    def _is_exported(self, start: int, end: int, prefill_end: int) -> bool:
        """Return whether the last chunk exports the state that is of use, so that it need not end there."""
        if not self._exports or end < prefill_end:
            return False
        position = self._boundary(prefill_end, self._export_unit)
        return can_export(start, end, position, unit=self._unit, block=self._block, every=self._export_align)

    def _junction(self, request: Request, start: int) -> int:
        """Where a chunk ends for the sake of prompts that part from others here."""
        junction = request.shared_prefix_boundary
        if self._at_junctions and junction <= request.num_prompt_tokens:
            return junction
        return start + (junction - start) // self._block * self._block
