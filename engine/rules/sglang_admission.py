"""Whether SGLang lets a waiting request into the prefill batch that it puts together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from kvtool.engine.rules.sglang_memory import RadixMemory, RadixRequest
from kvtool.engine.rules.sglang_options import SglangOptions

LONGEST_RESERVED = 4096
"""Tokens of an answer that are reserved at most."""


class Admitted(Enum):
    """What becomes of the requests behind one that was tried."""

    MORE = auto()
    NO_MEMORY = auto()
    """Nobody else fits until a request ends."""
    ENOUGH = auto()
    """The batch has as many tokens as it takes."""


class PrefillBatch:
    """A prefill batch while it grows, with what is promised to it and to the requests that run already."""

    def __init__(self, options: SglangOptions, memory: RadixMemory, running: Sequence[RadixRequest]) -> None:
        self.requests: list[RadixRequest] = []
        self._memory = memory
        self._page = options.page_size
        self._tokens_left = options.max_prefill_tokens
        self._promised = sum(_reserved(request) * options.new_token_ratio for request in running)
        """Tokens for prompts and answers that are not taken yet."""
        self._taken = 0
        """Of these, those that the prefill itself takes."""

    @property
    def state(self) -> Admitted:
        """Whether another request may be tried."""
        reachable = self._memory.num_reachable
        if reachable <= self._promised or reachable <= self._taken:
            return Admitted.NO_MEMORY
        return Admitted.MORE if self._tokens_left > 0 else Admitted.ENOUGH

    def add(self, request: RadixRequest) -> Admitted:
        """Try a request whose prefix was looked up. Its prefix is locked already when room is looked for: it cannot give way."""
        tree = self._memory.tree
        tree.lock(request.node)
        verdict = self._fits(request)
        if verdict is not Admitted.MORE:
            tree.unlock(request.node)
            return verdict
        prefill = self._memory.whole_pages(request.num_prompt - request.held)
        self.requests.append(request)
        self._taken += prefill + self._page
        self._promised += prefill + self._page + _reserved(request)
        self._tokens_left -= prefill
        return self.state

    def _fits(self, request: RadixRequest) -> Admitted:
        new = request.num_prompt - request.held
        if new + _reserved(request) + self._page >= self._memory.num_reachable - self._promised:
            return Admitted.NO_MEMORY
        if self.requests and self._memory.whole_pages(new) >= self._tokens_left:
            return Admitted.ENOUGH
        return Admitted.MORE


def _reserved(request: RadixRequest) -> int:
    return min(request.num_left, LONGEST_RESERVED)
