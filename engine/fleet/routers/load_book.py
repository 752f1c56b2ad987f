"""A router's own count of load: it adds prompts and blocks to a replica until it receives their end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence


class LoadBook:
    """Prompt tokens of each replica up to the first token, and blocks up to the end, each block once."""

    def __init__(self) -> None:
        self._prefill: dict[int, int] = defaultdict(int)
        self._requests: dict[int, tuple[int, Sequence[int]]] = {}
        """Prompt tokens that still count, and blocks, of each request in flight."""
        self._blocks: dict[int, Counter[int]] = defaultdict(Counter)

    def prefill_tokens(self, replica: int) -> int:
        """Prompt tokens not known to be computed; a request's tokens count in full until its first token."""
        return self._prefill[replica]

    def blocks_with(self, replica: int, blocks: Sequence[int]) -> int:
        """Return blocks of its requests, and of one more that has these."""
        held = self._blocks[replica]
        return len(held) + sum(block not in held for block in blocks)

    def sent(self, request: int, replica: int, new_tokens: int, blocks: Sequence[int]) -> None:
        """Add a request to a replica; `new_tokens` of it are not known to be cached there."""
        self._requests[request] = (new_tokens, blocks)
        self._prefill[replica] += new_tokens
        self._blocks[replica].update(blocks)

    def first_token(self, request: int, replica: int) -> None:
        """Remove a computed prompt."""
        tokens, blocks = self._requests[request]
        self._prefill[replica] -= tokens
        self._requests[request] = (0, blocks)

    def finished(self, request: int, replica: int) -> None:
        """Remove an ended request."""
        tokens, blocks = self._requests.pop(request)
        self._prefill[replica] -= tokens
        held = self._blocks[replica]
        for block in blocks:
            held[block] -= 1
            if not held[block]:
                del held[block]
