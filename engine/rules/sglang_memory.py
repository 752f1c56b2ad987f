"""SGLang's pool of KV and the requests that run in it: room is made by evicting, and what is computed goes into the tree twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import Asked, Ids
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_tree import TOKEN_BYTES, PageNode, PageTree


class RadixRequest:
    """A request on its way: what it asks, what it found, and what it has computed."""

    __slots__ = (
        "cached",
        "computed",
        "held",
        "key",
        "node",
        "num_answer",
        "num_prompt",
        "priority",
        "sampled",
        "scope",
    )

    def __init__(self, asked: Asked, root: PageNode) -> None:
        self.num_prompt = len(asked.prompt)
        self.num_answer = max(1, len(asked.answer))
        self.key = _bytes(asked.prompt) + _bytes(asked.answer[:-1])
        """All tokens that get KV: the last one that is sampled has none."""
        self.scope = asked.scope
        self.priority = asked.priority
        self.node = root
        """Where its prefix ends in the tree."""
        self.held = 0
        """Tokens that the tree holds for it; what it computed behind them is its own."""
        self.cached = 0
        self.computed = 0
        """Tokens that have KV, those that were found included."""
        self.sampled = 0

    @property
    def prompt_key(self) -> bytes:
        return self.key[: self.num_prompt * TOKEN_BYTES]

    @property
    def num_left(self) -> int:
        """Tokens of its answer that are still to be sampled."""
        return self.num_answer - self.sampled


class RadixMemory:
    """The tree and what is free beside it, in tokens of whole pages."""

    def __init__(self, options: SglangOptions) -> None:
        self.page_size = options.page_size
        self.capacity = options.pool_tokens
        self.num_free = self.capacity
        self.num_evicted = 0
        self.tree = PageTree(options.page_size, options.rank)
        self._may_run_short = options.max_total_tokens is not None

    @property
    def num_reachable(self) -> int:
        """Free tokens, and those that eviction can free."""
        return self.num_free + self.tree.num_evictable

    def whole_pages(self, tokens: int) -> int:
        """The tokens of the pages on which so many begin or end."""
        return -(-tokens // self.page_size) * self.page_size

    def match(self, request: RadixRequest) -> None:
        """Look a request up: all but the last token of its prompt, as that token's logits are needed."""
        request.node, request.held = self.tree.match(
            request.scope, request.key[: (request.num_prompt - 1) * TOKEN_BYTES]
        )

    def make_room(self, tokens: int) -> bool:
        """Evict until so many are free; whether they are."""
        if self.num_free < tokens:
            gone = self.tree.evict(tokens - self.num_free)
            self.num_free += gone
            self.num_evicted += gone
        return self.num_free >= tokens

    def prefill(self, batch: Sequence[RadixRequest]) -> None:
        """Compute what the requests of a batch, which are locked, do not have of their prompts.

        Where pages have more than one token, SGLang asks for a page a request more than is needed.
        """
        asked = sum(request.num_prompt - request.held for request in batch)
        if self.page_size > 1:
            asked += len(batch) * self.page_size
        fits = self.make_room(asked)
        assert fits, "what was admitted fits"
        for request in batch:
            request.cached = request.held
            request.computed = request.num_prompt
            self.num_free -= self.whole_pages(request.num_prompt - request.held)

    def decode_alone(self, request: RadixRequest, steps: int) -> None:
        """Decode so many tokens of the only request that runs: each step asks for a page, and takes one where a page begins."""
        while steps:
            fits = self.make_room(self.page_size)
            assert fits, "what was admitted fits"
            in_page = -request.computed % self.page_size
            ahead = min(steps, in_page + self.num_free - self.page_size + 1)  # until a step finds nothing free
            self.num_free -= self.whole_pages(max(0, ahead - in_page))
            request.computed += ahead
            steps -= ahead

    def decode(self, running: Sequence[RadixRequest]) -> None:
        """Compute a token of each: SGLang asks for a page a request, and takes one where a page begins."""
        pages = sum(request.computed % self.page_size == 0 for request in running) * self.page_size
        if not self.make_room(pages):
            raise EngineError(
                f"{len(running):,} running requests need more than the pool's {self.capacity:,} tokens, and how SGLang takes "
                "some of them back is not modelled",
                hint="raise max_total_tokens or new_token_ratio, or lower max_running_requests",
            )
        self.make_room(len(running) * self.page_size)
        self.num_free -= pages
        for request in running:
            request.computed += 1

    def publish(self, request: RadixRequest) -> int:
        """Give the tree all whole pages that a request has computed, and free those that it had already: it had so many tokens."""
        whole = self.tree.pages_of(request.computed)
        node, present = self.tree.extend(
            request.node, request.scope, request.key[: whole * TOKEN_BYTES], request.held, request.priority
        )
        self.num_free += present - request.held
        self.tree.lock(node)
        self.tree.unlock(request.node)
        request.node, request.held = node, whole
        return present

    def release(self, request: RadixRequest) -> None:
        """End a request: what it computed goes into the tree, a last page that is not whole is freed.

        An answer is worth one less than its prompt, so that it is evicted before.
        """
        self.publish(request)
        self.num_free += self.whole_pages(request.computed - request.held)
        if self._may_run_short:
            prompt = self.tree.pages_of(request.num_prompt)
            self.tree.use(request.node, request.held, prompt, request.priority)
        self.tree.unlock(request.node)


def _bytes(ids: Ids) -> bytes:
    return np.ascontiguousarray(ids, dtype=np.int32).tobytes()
