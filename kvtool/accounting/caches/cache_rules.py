"""Rules beyond one engine's cache: several replicas, a time to live, a provider's minimum and breakpoints.

They account for whole requests, one at a time, in the order of arrival. Caches with one rule relaxed run beside the configured one
and give the fates of the other tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvtool.errors import KvtoolError
from kvtool.results.choices import Routing

if TYPE_CHECKING:
    from kvtool.accounting.caches.calibration_ratio import Scale
    from kvtool.accounting.caches.mark_plan import MarkPlan
    from kvtool.accounting.caches.providers import Provider
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.workload.jobs import Job


@dataclass(frozen=True, slots=True)
class CacheRules:
    """The configuration beyond the engine.

    `ttl` (seconds): a block that was not used for longer is dropped. Each of `replicas` has a cache of the given capacity, and
    `routing` chooses one for each request. With a `provider` its cache is modelled; `ttl` is then its own or the requested one.
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
    """Marks that a trial uses in place of the requests' own."""
    mark_ttl: float | None = None
    """Seconds that every mark asks for in a trial, in place of its own."""
    engine: RuleChoice | None = None
    """Another engine's cache by its own rules; then nothing above applies."""

    @property
    def hosted(self) -> bool:
        """Return whether the cache is a provider's, not an engine's."""
        return self.dated or self.provider is not None


class UnreadPrefix(NamedTuple):
    """A stored prefix that no mark of the request finds: its tokens, and how many blocks before the next mark it ends.

    `dropped`: a mark finds it that is one too many, so that it does not count.
    """

    tokens: int
    blocks: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """A provider's rules applied to a request, in the provider's tokens.

    Of `prompt` tokens `cached` are read and `written` stored (`written_1h` of them for an hour). `lost` counts by cause the tokens
    that earlier requests sent and this one does not read. `kept` would be read if nothing expired; `known` counts all tokens sent
    before.
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
    """Seconds since the last use of the tokens read."""
    unanswered: bool = False
    """True if a request that had not been answered yet stored the tokens read."""
    other_settings: bool = False
    """True if the last use of the tokens read had other settings."""
    in_a_minute: int = 0
    """Requests of the last minute with this prefix and key, this one included."""
    marks: int = 0
    """Marks that the request sets, those included that are too many."""
    unread: UnreadPrefix | None = None
    stored_ends: tuple[int, ...] = ()
    """Tokens of the prompt, in our count, at which a mark ends a prefix that it stores."""
    error: int = 0
    """Tokens by which `cached` may be wrong, as no report gives the length of the prefix."""
    scale: Scale | None = None
    """The prompt's tokens in the provider's count, where reports give the length of some prefixes."""


class Outcome(NamedTuple):
    """Hit tokens of a prompt, and the hits on each relaxed rung, in the order of the ladder, by the fate that the rung explains."""

    hit: int
    rungs: tuple[tuple[str, int], ...]
    prediction: Prediction | None = None
    """Prediction by a provider's rules, in its own tokens."""


class RuleCache(Protocol):
    """A cache that follows `CacheRules`."""

    @property
    def num_evictions(self) -> int:
        """Blocks that made room for others, in all replicas."""
        ...

    @property
    def num_filled(self) -> int:
        """Blocks with content, in all replicas."""
        ...

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Look a request up and store it. `now` never falls; `reachable` is the hit of one unlimited cache for its salt."""
        ...


def traced_error(engine: str) -> KvtoolError:
    """Return the error for a trace of block hashes, which an engine's rules cannot compare."""
    return KvtoolError(
        f"the rules of {engine} compare tokens, but a trace of block hashes has none",
        hint="remove --rules, or pass a log with text",
    )


def lifetime(seconds: float) -> str:
    """Return a time to live in words: `5 min`, `1 h`, `90 s`."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,g} s"
