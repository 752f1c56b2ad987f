"""Whether SGLang lets a waiting request into the prefill batch that it puts together, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from kvtool.engine.rules.sglang_memory import RadixMemory
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_request import RadixRequest

LONGEST_RESERVED = 4096
"""Tokens of an answer that are reserved at most."""


class Admitted(Enum):
    """Verdict on the requests after one that was tried."""

    MORE = auto()
    NO_MEMORY = auto()
    """Nobody else fits until a request ends."""
    ENOUGH = auto()
    """The batch has as many tokens as it takes."""


class PrefillBatch:
    """A prefill batch while it grows, with what is promised to it and to the requests that run already."""

    def __init__(
        self, options: SglangOptions, memory: RadixMemory, running: Sequence[RadixRequest], new_token_ratio: float
    ) -> None:
        self.requests: list[RadixRequest] = []
        self.cut: RadixRequest | None = None
        """The one of them that goes on in the next batch."""
        self._memory = memory
        self._page = options.page_size
        self._longest_answer = options.longest_answer
        self._tokens_left = options.max_prefill_tokens
        self._chunk_left = options.chunked_prefill_size
        self._promised = sum(self._reserved(request, request.num_left) * new_token_ratio for request in running)
        """Tokens for prompts and answers that are not taken yet."""
        self._taken = 0
        """Of these, those that the prefill itself takes."""

    @property
    def state(self) -> Admitted:
        """Return whether another request may be tried."""
        reachable = self._memory.num_reachable
        if reachable <= self._promised or reachable <= self._taken:
            return Admitted.NO_MEMORY
        if self._tokens_left <= 0 or (self._chunk_left is not None and self._chunk_left <= 0):
            return Admitted.ENOUGH
        return Admitted.MORE

    def go_on(self, request: RadixRequest) -> None:
        """Take the next chunk of a request that the last batch has cut."""
        assert self._chunk_left is not None
        most = min(self._chunk_left, int(self._memory.num_reachable - self._promised))
        self._take(request, min(request.num_known, request.computed + (most if most > 0 else self._chunk_left)))

    def add(self, request: RadixRequest) -> Admitted:
        """Try a request whose prefix was looked up. Its prefix is locked already when room is looked for: it cannot give way."""
        tree = self._memory.tree
        tree.lock(request.node)
        verdict, end = self._fits(request)
        if verdict is not Admitted.MORE:
            tree.unlock(request.node)
            return verdict
        self._take(request, end)
        return self.state

    def _fits(self, request: RadixRequest) -> tuple[Admitted, int]:
        """Return the verdict, and how far a request is computed by this batch."""
        new = request.num_known - request.held
        most = self._memory.num_reachable - self._promised
        if new + self._reserved(request, request.num_left) + self._page >= most:
            return Admitted.NO_MEMORY, 0
        new = self._memory.whole_pages(new)
        if self._chunk_left is None:
            return Admitted.ENOUGH if self.requests and new >= self._tokens_left else Admitted.MORE, request.num_known
        if new <= self._chunk_left:
            return Admitted.MORE, request.num_known
        chunk = self._memory.tree.pages_of(self._chunk_left)
        return Admitted.MORE if chunk else Admitted.ENOUGH, request.held + chunk

    def _take(self, request: RadixRequest, end: int) -> None:
        request.target = end
        self.requests.append(request)
        prefill = self._memory.whole_pages(end - request.computed)
        self.cut = request if end < request.num_known else self.cut
        answer = 0 if self.cut is request else self._reserved(request, request.num_answer)
        self._taken += prefill + self._page
        self._promised += prefill + self._page + answer
        self._tokens_left -= prefill
        if self._chunk_left is not None:
            self._chunk_left -= prefill

    def _reserved(self, request: RadixRequest, answer: int) -> int:
        return min(answer, LONGEST_RESERVED, self._longest_answer(request.num_prompt))
