"""Rules beyond one engine's cache: several replicas, a time to live, a provider's minimum and breakpoints.

They account for whole requests, one at a time, in the order in which they arrive; what stands beside the configured cache, with a
rule relaxed, says which fate the rest had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvtool.errors import KvtoolError
from kvtool.results.choices import Routing

if TYPE_CHECKING:
    from kvtool.accounting.caches.mark_plan import MarkPlan
    from kvtool.accounting.caches.providers import Provider
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.workload.jobs import Job


@dataclass(frozen=True, slots=True)
class CacheRules:
    """What is configured beyond the engine.

    `ttl` (seconds): a block that was not used for longer is gone. Each of `replicas` has a cache of the given capacity, and
    `routing` chooses one for each request. With a `provider` its cache is followed; `ttl` is then its own or the one asked for.
    """

    replicas: int = 1
    routing: Routing = "round-robin"
    ttl: float | None = None
    provider: Provider | None = None
    dated: bool = False
    """Each request by the rules of its own model on its own day; there is no `provider` then."""
    epoch: float | None = None
    """The moment from which arrivals count, in seconds since 1970; None where no clock is known."""
    marks: MarkPlan | None = None
    """What is marked in place of what the requests mark, where that is tried."""
    engine: RuleChoice | None = None
    """Another engine's cache by its own rules; nothing of the above is asked for then."""

    @property
    def hosted(self) -> bool:
        """Whether the cache of a provider is followed, not one of an engine's."""
        return self.dated or self.provider is not None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a provider's rules say of a request, in tokens as the provider counts them.

    Of `prompt` tokens `cached` are read and `written` stored (`written_1h` of them for an hour). `lost` is what earlier requests
    sent and this one does not read, by cause. `kept` would be read if nothing expired; `known` is all that was sent before.
    """

    rules: Provider | None
    """None for an engine's own cache."""
    prompt: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    kept: int = 0
    known: int = 0
    age: float | None = None
    """Seconds since the last use of what is read."""
    unanswered: bool = False
    """Whether what is read was stored by a request that had not been answered yet."""
    other_settings: bool = False
    """Whether what is read was last used with other settings."""
    in_a_minute: int = 0
    """Requests of the last minute with this prefix and key, this one included."""


class Outcome(NamedTuple):
    """Tokens of a prompt that hit, and those that hit on each kinder rung, in the order of the ladder, by the fate it explains."""

    hit: int
    rungs: tuple[tuple[str, int], ...]
    prediction: Prediction | None = None
    """Of a provider's rules, in its own tokens."""


class RuleCache(Protocol):
    """A cache that follows `CacheRules`."""

    @property
    def num_evictions(self) -> int:
        """Blocks that made room for others, in all replicas."""
        ...

    @property
    def num_filled(self) -> int:
        """Blocks that hold something, in all replicas."""
        ...

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Look a request up and store it. `now` never falls; `reachable` is what one unlimited cache for its salt would hit."""
        ...


def traced_error(engine: str) -> KvtoolError:
    """That a trace of block hashes has nothing to compare by an engine's rules."""
    return KvtoolError(
        f"the rules of {engine} compare tokens; a trace of block hashes has none",
        hint="leave --rules out, or give a log with text",
    )


def lifetime(seconds: float) -> str:
    """A time to live in words: `5 min`, `1 h`, `90 s`."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,g} s"
