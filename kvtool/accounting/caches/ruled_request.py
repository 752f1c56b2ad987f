"""A request with the rules of its provider, and the prefixes of its prompt whose tokens reports give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvtool.accounting.caches.breakpoints import ContentBlocks
from kvtool.accounting.caches.calibration_ratio import LEAST_TOKENS, Scale
from kvtool.accounting.caches.forks import Forks
from kvtool.accounting.caches.providers import Provider
from kvtool.accounting.caches.timed_tree import TimedNode, Use
from kvtool.accounting.prefix_tree import Ids
from kvtool.workload.jobs import Job


@dataclass(slots=True)
class RuledRequest:
    """A request and its rules."""

    job: Job
    rules: Provider
    scale: Scale
    blocks: ContentBlocks | None
    forks: Forks
    ids: Ids
    use: Use
    last_mark: int | None
    """Where the last mark ends that the request itself sets, in our tokens."""

    def reported_prefixes(self, hit: int) -> dict[int, int]:
        """Return the prefixes whose tokens its report gives: the one that it reads, and the one that ends with its last mark."""
        usage, found = self.job.turn.call.usage_of_prompt, dict[int, int]()
        if usage is not None and usage.cached is not None and self.rules.step == 1:
            ends = ((hit, usage.cached), (self.last_mark, usage.cached + (usage.all_written or 0)))
            for end, tokens in ends if usage.all_written else ends[:1]:
                near = 0 if not end else max(LEAST_TOKENS, self.scale.error_of(end))
                if end and tokens and abs(self.scale.theirs_of(end) - tokens) <= near:
                    found[end] = tokens
        return found

    def counted_prefixes(self, path: list[TimedNode]) -> Iterator[tuple[int, int]]:
        """Return the prefixes on its path whose tokens in the provider's count earlier reports give, and the prompt itself."""
        for node in path:
            if node.counted is not None:
                yield self.forks.back(node.stop), node.counted
        usage = self.job.turn.call.usage_of_prompt
        if usage is not None and usage.prompt:
            yield len(self.job.ids), usage.prompt
