"""The observer of the ledger's entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.prefix_tree import PrefixNode
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn


class Watcher(Protocol):
    """Receive requests by their owner's number, which counts them in the order of submission."""

    @property
    def details(self) -> bool:
        """Return whether it needs the trees of traces, and calls of `known` and `closed` for them."""
        ...

    def known(self, node: PrefixNode, group: str) -> None:
        """Receive a submitted prompt without new tokens; it ends where `node` does."""
        ...

    def settled(
        self, owner: int, turn: Turn, prompt: Prompt | None, num_tokens: int, hit: int, booked: Sequence[Booked]
    ) -> None:
        """Receive a finished request; `booked`, in order and apart, are its tokens with a fate so far."""
        ...

    def settled_traced(self, batch: TracedBatch) -> None:
        """Receive finished requests of a trace, without details."""
        ...

    def closed(self, owner: int, booked: Booked) -> None:
        """Receive tokens of a settled request with their late fate, when all requests are done; in no particular order."""
        ...
