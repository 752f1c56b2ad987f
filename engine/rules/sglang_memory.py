"""SGLang's pool of KV: room is made by evicting, and what is computed goes into the tree after each prefill and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_request import RadixRequest
from kvtool.engine.rules.sglang_tree import PageTree


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
        """Return the tokens of the pages on which so many begin or end."""
        return -(-tokens // self.page_size) * self.page_size

    def match(self, request: RadixRequest) -> None:
        """Look a request up: all but the last token that is known, as that token's logits are needed."""
        request.start(*self.tree.match(request.scope, request.key(request.num_known - 1)))

    def make_room(self, tokens: int) -> bool:
        """Evict until so many are free; whether they are."""
        if self.num_free < tokens:
            gone = self.tree.evict(tokens - self.num_free)
            self.num_free += gone
            self.num_evicted += gone
        return self.num_free >= tokens

    def prefill(self, batch: Sequence[RadixRequest]) -> None:
        """Compute the requests of a batch, which are locked, up to their targets.

        Where pages have more than one token, SGLang asks for a page a request more than is needed.
        """
        asked = sum(request.target - request.computed for request in batch)
        if self.page_size > 1:
            asked += len(batch) * self.page_size
        fits = self.make_room(asked)
        assert fits, "what was admitted fits"
        for request in batch:
            if request.cached is None:
                request.cached = request.held
            self.num_free -= self.whole_pages(request.target) - self.whole_pages(request.computed)
            request.computed = request.target

    def can_decode(self, running: Sequence[RadixRequest]) -> bool:
        """Whether there is a page for each request that begins one with its next token; what must be evicted for that, is."""
        return self.make_room(self._new_pages(running))

    def decode(self, running: Sequence[RadixRequest]) -> None:
        """Compute a token of each: SGLang asks for a page a request, and takes one where a page begins."""
        self.make_room(len(running) * self.page_size)
        self.num_free -= self._new_pages(running)
        for request in running:
            request.computed += 1

    def _new_pages(self, running: Sequence[RadixRequest]) -> int:
        return sum(request.computed % self.page_size == 0 for request in running) * self.page_size

    def decode_alone(self, request: RadixRequest, steps: int) -> None:
        """Decode so many tokens of the only request that runs, as `decode` does one after the other."""
        while steps:
            fits = self.make_room(self.page_size)
            assert fits, "what was admitted fits"
            in_page = -request.computed % self.page_size
            ahead = min(steps, in_page + self.num_free - self.page_size + 1)  # until a step finds nothing free
            self.num_free -= self.whole_pages(max(0, ahead - in_page))
            request.computed += ahead
            steps -= ahead

    def publish(self, request: RadixRequest) -> int:
        """Give the tree all whole pages that a request has computed, and free those that it had already: it had so many tokens.

        A node ends where the prompt ends, so that answers can be evicted without prompts.
        """
        tree = self.tree
        whole, prompt = tree.pages_of(request.computed), tree.pages_of(request.num_prompt)
        node, at, present = request.node, request.held, request.held
        for end in (prompt, whole):
            if at < end <= whole:
                node, found = tree.extend(node, request.scope, request.key(end), at, request.priority)
                present += found - at
                at = end
        self.num_free += present - request.held
        tree.lock(node)
        tree.unlock(request.node)
        request.node, request.held, request.published = node, whole, tree.tick()
        return present

    def release(self, request: RadixRequest) -> None:
        """End a request: what it has computed goes into the tree, a last page that is not whole is freed."""
        self.publish(request)
        self._leave(request)

    def take_back(self, request: RadixRequest) -> None:
        """Free what the tree does not hold of a request, which is to begin anew."""
        self._leave(request)
        request.start(self.tree.root, 0)

    def _leave(self, request: RadixRequest) -> None:
        """An answer is worth one less than its prompt, so that it goes before, whatever else a priority says."""
        tree = self.tree
        self.num_free += self.whole_pages(request.computed) - request.held
        if self._may_run_short:
            tree.use(request.node, request.held, tree.pages_of(request.num_prompt), request.priority, request.published)
        tree.unlock(request.node)
