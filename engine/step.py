"""One engine step: the scheduler's decision and the runner's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kvtool.engine.request import Request


class Scheduled(NamedTuple):
    """Tokens [start, start + num_tokens) of a request are computed in this step; its block table covers them already."""

    request: Request
    start: int
    num_tokens: int

    @property
    def samples(self) -> bool:
        """Return whether the step reaches the request's last known token, so that it gets a new one."""
        return self.start + self.num_tokens >= self.request.num_tokens

    @property
    def num_drafts(self) -> int:
        """The number of drafts among the tokens, which the step verifies. Known until it is updated."""
        return max(self.start + self.num_tokens - self.request.num_tokens, 0)


Sampled = int | list[int] | None
"""A request's result of a step: a token, several of which all but the last were drafted, or none while it is in prefill."""


@dataclass(slots=True, eq=False)
class EngineStep:
    """The scheduled requests in scheduling order, and those that were preempted to make room.

    Not to be changed; frozen it is not because that would cost as much as all else that a decode step of one request does.
    """

    index: int
    scheduled: tuple[Scheduled, ...]
    preempted: tuple[Request, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    """Blocks to be copied before the step runs, each with the block that it is copied to."""

    @property
    def num_tokens(self) -> int:
        return sum(item.num_tokens for item in self.scheduled)


class Runner(Protocol):
    """Execute steps. The scheduler and the cache are the same objects under every runner."""

    def run(self, step: EngineStep) -> Sequence[Sampled]:
        """Return new tokens for each scheduled request that samples, None for the others; in the order of `step.scheduled`.

        A request with forced outputs gets `request.next_forced()`, not the model's token.
        """
        ...
