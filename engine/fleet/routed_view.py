"""A replica as seen by a router without cache events: by the prompts that were sent there."""

from __future__ import annotations

from collections import OrderedDict

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import ReplicaView


class RoutedView:
    """The latest blocks of the prompts sent; the replica reports everything else."""

    def __init__(self, replica: ReplicaView, most_blocks: int | None) -> None:
        """Create the view. `most_blocks` limits the index; None: unlimited."""
        self._replica = replica
        self._most = most_blocks
        self._index: OrderedDict[int, None] = OrderedDict()
        self.number = replica.number
        self.block_size = replica.block_size
        self.num_blocks = replica.num_blocks

    def sent(self, request: FleetRequest) -> None:
        """Record that the replica gets this request: its prompt counts as cached there, its head touched last."""
        index = self._index
        for block in reversed(request.blocks[: request.prompt_tokens // self.block_size]):
            index[block] = None
            index.move_to_end(block)
        while self._most is not None and len(index) > self._most:
            index.popitem(last=False)

    def matched(self, request: FleetRequest) -> int:
        """Return the leading blocks of the request that were sent there."""
        index = self._index
        for place, block in enumerate(request.blocks[: request.asked]):
            if block not in index:
                return place
        return min(request.asked, len(request.blocks))

    @property
    def waiting(self) -> int:
        return self._replica.waiting

    @property
    def running(self) -> int:
        return self._replica.running

    @property
    def pending_tokens(self) -> int:
        return self._replica.pending_tokens

    @property
    def used_blocks(self) -> int:
        return self._replica.used_blocks

    @property
    def computed_tokens(self) -> int:
        return self._replica.computed_tokens

    @property
    def last_arrival(self) -> float | None:
        return self._replica.last_arrival

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        return self._replica.matched_below(request)

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        return self._replica.prefill_seconds(prompt_tokens, cached_tokens)

    def queue_seconds(self) -> float:
        return self._replica.queue_seconds()
