"""The common interface of a run's servers: the requests that they take, their order, and each result."""

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
"""Hit tokens on each relaxed rung, in the order of the ladder, by the fate that the rung explains."""

Admit = Callable[[Job], None]
"""Check that raises EngineError for a request that would never run."""

ServeChain = Callable[[Chain, int, int], tuple[int, int]]
"""Server of a trace's chain with so many tokens of a prompt and at most so many of an answer; returns the hit tokens and the
answer's."""


class ServedRequest(NamedTuple):
    """The result of a request: the hit tokens of its prompt, and other known facts."""

    hit: int
    rungs: Rungs | None = None
    """None if only the cache's size is known to limit hits."""
    waited: float | None = None
    """Seconds to the first token on the server's own clock; None where it has none, or no token came."""
    prediction: Prediction | None = None
    """Prediction by a provider's rules, in its own tokens."""


class ByNumber(NamedTuple):
    """A server's interface for traces: chains of numbers and, one at a time between them, jobs with more data."""

    serve_chain: ServeChain
    serve: Callable[[Job, LedgerEntry | None], ServedRequest]


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Counts of a server in a whole run."""

    evictions: int = 0
    preemptions: int = 0
    filled_blocks: int = 0
    peak_used_blocks: int = 0
    queries: int = 0
    """Tokens looked up, and `hit_queries` those found, each request once."""
    hit_queries: int = 0
    routed: int = 0
    """Requests that a router gave to replicas, `keyless` of them without session and tenant."""
    keyless: int = 0
    hosted: ProviderCache | None = None
    """The cache of a provider, as the run left it."""


class Requests(Protocol):
    """A run as its server sees it: it makes requests of turns and books their results."""

    @property
    def lateness(self) -> float | None:
        """Return by how many seconds its requests may come after later ones; None where nobody knows."""
        ...

    def begin(self, turn: Turn) -> Job | None:
        """Make a request and enter it; None: it is refused, and its conversation continues without an answer."""
        ...

    def entry(self, job: Job) -> LedgerEntry | None:
        """Give the ledger's entry of a request that has begun; None where the ledger only counts."""
        ...

    def end(self, job: Job, served: ServedRequest) -> None:
        """Book a request that is done."""
        ...


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """Facts about a server that a run needs beside its answers."""

    follows_engine: bool = False
    """True if the embedded engine decides the hits, so that reports of a vLLM server can be compared."""
    has_clock: bool = False
    """True if `ServedRequest.waited` is the requests' waiting time."""
    whole_prompt_may_hit: bool = False
    """True if the last token of a prompt may be a hit, too; answers are then not kept."""
    salted: bool = True
    """True if salts keep requests apart."""
    moves: bool = False
    """True if text may hit after the first difference."""
    hosted: bool = False
    """True if a provider's rules apply."""


class Server(Protocol):
    """Answer the requests of a run."""

    traits: ServerTraits
    by_number: ByNumber | None
    """None where requests of a trace have to come as jobs."""

    def admit(self, job: Job) -> None:
        """Raise EngineError for a request that would never run."""
        ...

    def predicts(self, job: Job) -> bool:
        """Return whether there are rules for a request."""
        ...

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take all requests, in the order in which they come to this server."""
        ...

    def take_events(self) -> Sequence[Event]:
        """Return the recorded events of the cache since the last call."""
        ...

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        ...


class SequentialServer(Server, Protocol):
    """A server that finishes each request before the next one comes."""

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Take a request from its submission to its end."""
        ...


def one_by_one(server: SequentialServer, conversations: Iterator[Conversation], requests: Requests) -> None:
    """Bring conversations to a server that takes one request at a time, in the order of the workload."""
    done: list[ServedRequest] = []
    one_at_a_time(
        conversations,
        requests.begin,
        lambda job: done.append(server.serve(job, requests.entry(job))),
        lambda job: requests.end(job, done.pop()),
    )
