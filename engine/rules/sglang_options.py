"""Options of SGLang that affect the prefix cache, in SGLang's own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.sglang_tree import PageNode, Rank

EVICTION_POLICIES: Final = ("lru", "lfu", "slru", "priority")
SCHEDULE_POLICIES: Final = ("fcfs", "lpm", "dfs-weight")
STATE_STRATEGIES: Final = ("extra_buffer", "no_buffer")

UNLIMITED: Final = 1 << 60
"""Tokens of a pool that never runs short."""


@dataclass(frozen=True, slots=True)
class SglangOptions:
    """The options of `sglang.launch_server` of the same names; EngineError where SGLang could not serve with them."""

    page_size: int = 1
    """Tokens in a page."""
    radix_eviction_policy: str = "lru"
    protected_threshold: int = 2
    """Under slru, how often a node was used that goes after all others: a key of --radix-eviction-policy-config."""
    max_total_tokens: int | None = None
    """Tokens of the KV pool; None is without end."""
    schedule_policy: str = "fcfs"
    max_running_requests: int | None = None
    max_prefill_tokens: int = 16384
    """Tokens in a prefill batch; its first request may be longer."""
    chunked_prefill_size: int | None = None
    """Tokens of a prompt computed at once; None computes whole prompts, and max_prefill_tokens does not limit the first."""
    new_token_ratio: float = 0.7
    """Reserved share of the running requests' possible answers. SGLang lowers it while it decodes; here it is constant."""
    sliding_window: int | None = None
    """Tokens of the model's sliding windows beside full attention."""
    mamba_radix_cache_strategy: str | None = None
    """How states of linear attention are kept; None for a model without states."""
    mamba_chunk_size: int = 64
    """Tokens between the states that the model's kernels can give."""
    mamba_track_interval: int = 256
    """Tokens of an answer after which a state is kept."""

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise EngineError(f"page_size is {self.page_size}", hint="use at least one token")
        if self.max_total_tokens is not None and self.max_total_tokens < self.page_size:
            raise EngineError(
                f"max_total_tokens is {self.max_total_tokens}, less than one page of {self.page_size}",
                hint="remove it for an unlimited pool",
            )
        if self.radix_eviction_policy not in EVICTION_POLICIES:
            raise EngineError(
                f"radix_eviction_policy is {self.radix_eviction_policy!r}",
                hint=f"use one of {', '.join(EVICTION_POLICIES)}",
            )
        if self.schedule_policy not in SCHEDULE_POLICIES:
            raise EngineError(
                f"schedule_policy is {self.schedule_policy!r}", hint=f"use one of {', '.join(SCHEDULE_POLICIES)}"
            )
        if self.max_running_requests is not None and self.max_running_requests < 1:
            raise EngineError(f"max_running_requests is {self.max_running_requests}", hint="use at least 1")
        if self.max_prefill_tokens < 1:
            raise EngineError(f"max_prefill_tokens is {self.max_prefill_tokens}", hint="use at least one token")
        if self.chunked_prefill_size is not None and (
            self.chunked_prefill_size < 1 or self.chunked_prefill_size % self.page_size
        ):
            raise EngineError(
                f"chunked_prefill_size is {self.chunked_prefill_size}",
                hint=f"use a multiple of the page of {self.page_size}, or remove it",
            )
        if self.mamba_radix_cache_strategy not in (None, *STATE_STRATEGIES):
            raise EngineError(
                f"mamba_radix_cache_strategy is {self.mamba_radix_cache_strategy!r}",
                hint=f"use one of {', '.join(STATE_STRATEGIES)}",
            )
        if self.mamba_radix_cache_strategy == "no_buffer" and self.page_size > 1:
            raise EngineError(
                f"page_size is {self.page_size} with mamba_radix_cache_strategy no_buffer",
                hint="use pages of one token",
            )
        if self.is_hybrid and self.max_total_tokens is not None:
            raise EngineError(
                "SGLang has a pool for each kind of layer of this model; these rules support only pools without a limit",
                hint="remove the capacity",
            )
        if not 0 <= self.new_token_ratio <= 1:
            raise EngineError(f"new_token_ratio is {self.new_token_ratio}", hint="use a number between 0 and 1")

    @property
    def is_hybrid(self) -> bool:
        """Return whether the model has windows or states beside full attention."""
        return self.sliding_window is not None or self.mamba_radix_cache_strategy is not None

    @property
    def pool_tokens(self) -> int:
        """Tokens of the pool's whole pages."""
        if self.max_total_tokens is None:
            return UNLIMITED - UNLIMITED % self.page_size
        return self.max_total_tokens - self.max_total_tokens % self.page_size

    def longest_answer(self, prompt: int) -> int:
        """Return the limit to which SGLang cuts the requested tokens after a prompt of so many tokens; at least one is sampled."""
        if self.max_total_tokens is None:
            return UNLIMITED
        whole = -(-prompt // self.page_size) * self.page_size
        return max(0, min(self.pool_tokens - prompt - 2, self.pool_tokens - whole - self.page_size - 1))

    def check_fits(self, prompt: int, answer: int) -> None:
        """Raise EngineError if SGLang would refuse the prompt or cut the answer, because the pool (in tokens) is too small for
        both."""
        if self.max_total_tokens is None:
            return
        most = min(self.pool_tokens - _KEPT_FROM_PROMPTS, self.pool_tokens - self.page_size) - 1
        if prompt > most:
            raise EngineError(
                f"a prompt of {prompt:,} tokens does not fit: a pool of {self.pool_tokens:,} can hold {max(most, 0):,}",
                hint="raise max_total_tokens",
            )
        longest = max(self.longest_answer(prompt), 1)
        if answer > longest:
            raise EngineError(
                f"after a prompt of {prompt:,} tokens, a pool of {self.pool_tokens:,} can hold an answer of {longest:,}, "
                f"and this one has {answer:,}",
                hint="raise max_total_tokens",
            )

    @property
    def rank(self) -> Rank:
        """The order of eviction of leaves, before their last use decides."""
        match self.radix_eviction_policy:
            case "lfu":
                return _uses
            case "slru":
                threshold = self.protected_threshold
                return lambda node: node.uses >= threshold
            case "priority":
                return _priority
            case _:
                return _none


_KEPT_FROM_PROMPTS = 6
"""Tokens of the pool that no prompt may take: one that the pool keeps, and five that are left for an answer."""


def _none(_: PageNode) -> int:
    return 0


def _uses(node: PageNode) -> int:
    return node.uses


def _priority(node: PageNode) -> int:
    return node.priority
