"""What every server of a run has in common: which requests it takes, in which order, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.engine.events import Event
from kvtool.workload.drive import one_at_a_time
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation, Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.cache_rules import Prediction
    from kvtool.accounting.caches.provider_cache import ProviderCache
    from kvtool.accounting.ledger.ledger import LedgerEntry

Rungs = Sequence[tuple[str, int]]
"""Tokens that hit on each kinder rung, in the order of the ladder, by the fate that this explains."""

Admit = Callable[[Job], None]
"""Raises EngineError for a request that would never run."""

ServeChain = Callable[[Chain, int, int], tuple[int, int]]
"""Takes a chain of a trace, the tokens of its prompt and at most so many of an answer; gives the hit tokens and the answer's."""


class ServedRequest(NamedTuple):
    """What became of a request: tokens of its prompt that hit, and what is known of it beside."""

    hit: int
    rungs: Rungs | None = None
    """None where nothing but the size of the cache is known to be in the way."""
    waited: float | None = None
    """Seconds to the first token on the server's own clock; None where it has none, or no token came."""
    prediction: Prediction | None = None
    """Of a provider's rules, in its own tokens."""


class ByNumber(NamedTuple):
    """How a server takes requests of a trace: chains of numbers and, one at a time between them, jobs that have more to them."""

    serve_chain: ServeChain
    serve: Callable[[Job, LedgerEntry | None], ServedRequest]


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What a server counted in a whole run."""

    evictions: int = 0
    preemptions: int = 0
    filled_blocks: int = 0
    peak_used_blocks: int = 0
    queries: int = 0
    """Tokens that were looked up, and `hit_queries` those that were found, each request once."""
    hit_queries: int = 0
    routed: int = 0
    """Requests that a router gave to replicas, `keyless` of them of no session and no tenant."""
    keyless: int = 0
    hosted: ProviderCache | None = None
    """The cache of a provider, as the run left it."""


class Requests(Protocol):
    """A run, as its server sees it: it makes requests of turns and books what became of them."""

    def begin(self, turn: Turn) -> Job | None:
        """Make a request and enter it; None: it is refused, and its conversation goes on without an answer."""
        ...

    def entry(self, job: Job) -> LedgerEntry | None:
        """Give the ledger's entry of a request that has begun; None where the ledger only counts."""
        ...

    def end(self, job: Job, served: ServedRequest) -> None:
        """Book a request that is done."""
        ...


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """What a run must know of a server beside its answers."""

    follows_engine: bool = False
    """Whether the embedded engine decides what hits, so that what a vLLM server reports can be compared with it."""
    has_clock: bool = False
    """Whether `ServedRequest.waited` says what requests waited."""
    whole_prompt_may_hit: bool = False
    """Whether the last token of a prompt may be a hit, too; answers are then not kept."""
    salted: bool = True
    """Whether salts keep requests apart."""
    moves: bool = False
    """Whether text may hit after the first difference."""
    hosted: bool = False
    """Whether a provider's rules are followed."""


class Server(Protocol):
    """Answers the requests of a run."""

    traits: ServerTraits
    by_number: ByNumber | None
    """None where requests of a trace have to come as jobs."""

    def admit(self, job: Job) -> None:
        """Raise EngineError for a request that would never run."""
        ...

    def predicts(self, job: Job) -> bool:
        """Tell whether there are rules for a request."""
        ...

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order in which they come to this server."""
        ...

    def take_events(self) -> Sequence[Event]:
        """Give what happened to the cache since the last time, where that is recorded."""
        ...

    def counts(self) -> RunCounts:
        """Give what was counted so far."""
        ...


class OneByOne(Server, Protocol):
    """A server that finishes each request before the next one comes."""

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        ...


def one_by_one(server: OneByOne, conversations: Iterator[Conversation], requests: Requests) -> None:
    """Bring conversations to a server that takes one request at a time, in the order of the workload."""
    done: list[ServedRequest] = []
    one_at_a_time(
        conversations,
        requests.begin,
        lambda job: done.append(server.serve(job, requests.entry(job))),
        lambda job: requests.end(job, done.pop()),
    )
