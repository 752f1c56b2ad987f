"""The common part of all engines' rules: requests one at a time, their reused tokens, and the reason for every loss."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
O = TypeVar("O")  # noqa: E741 - the options of an engine

Status = Literal["driven", "read"]
"""Evidence: compared with the engine's own code, or read from its source and not run."""


@dataclass(frozen=True, slots=True)
class RuleRequest:
    """A request: `prompt` int32[n], and all its sampled tokens, int32[m]; the last one is never computed.

    Requests with different `scope` (salt, adapter, extra key) share nothing, if the engine knows such scopes.
    """

    prompt: Ids
    answer: Ids
    scope: Hashable = None
    priority: int = 0
    session: str | None = None


class Served(NamedTuple):
    """The result of a request: reused tokens of its prompt, and tokens evicted for it.

    `loss` names in the engine's own terms why it reused less than one lasting cache of single tokens would have.
    """

    cached: int
    evicted: int = 0
    loss: str = ""


class EngineCache(Protocol):
    """An engine's prefix cache, as far as its rules are known."""

    def serve(self, asked: RuleRequest) -> Served:
        """Look a request up, run it alone to its end, and keep its tokens as the engine does. EngineError, with nothing changed,
        if it could never run."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens in the cache now."""
        ...


class EngineQueue(Protocol):
    """An engine's prefix cache with concurrent requests: its queue, its admission, its running requests."""

    def check(self, asked: RuleRequest) -> None:
        """Raise EngineError for a request that could never run."""
        ...

    def serve_together(self, together: Sequence[RuleRequest]) -> list[int]:
        """Run requests that come at one moment, when all before have ended; the tokens that each reused."""
        ...

    @property
    def num_evicted(self) -> int:
        """Tokens that were thrown away so far."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens in the cache now."""
        ...


@dataclass(frozen=True, slots=True)
class Rung(Generic[O]):
    """A limit that can be lifted. Tokens that hit only then have this fate, in the ledger's words."""

    fate: str
    lifted: Callable[[O], O]
    """The options without the limit; the same object where they have none."""


@dataclass(frozen=True, slots=True)
class OtherSetting(Generic[O]):
    """Another setting of the engine that may win back tokens of a fate; a run with it measures the gain."""

    fate: str
    what: str
    """An imperative with the engine's own flag: "split the cache into 8 slots: --parallel 8"."""
    options: O
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet(Generic[O]):
    """The rules of one engine: `make` gives an empty cache with the given options, `options` are the engine's defaults.

    The fields of the options are named as the engine's users know them.
    """

    name: str
    """Name as in `--rules`."""
    engine: str
    """Engine, with the version of the rules."""
    status: Status
    evidence: str
    """A sentence: the comparison or the source of the rules."""
    not_modelled: tuple[str, ...]
    """Parts of the engine that the rules leave out."""
    options: O
    make: Callable[[O], EngineCache]
    unit: Callable[[O], int]
    """Tokens by which hits end: of a block or a page; 1 where they may end anywhere."""
    ladder: tuple[Rung[O], ...] = ()
    """Limits in the order in which they are lifted, each on top of those before."""
    rest: str = "evicted"
    """The fate of tokens that one lasting cache of such units would have hit and the last rung does not."""
    scopes: bool = True
    """True if salts keep tenants apart."""
    moves: bool = False
    """True if text after a difference may hit, moved from its old position; answers may change then."""
    remedies: Callable[[O], tuple[OtherSetting[O], ...]] = lambda _: ()
    queue: Callable[[O], EngineQueue] | None = None
    """An empty cache for requests that come together; None where the rules know them one at a time only."""
    queue_ladder: tuple[Rung[O], ...] = ()
    """The `ladder` of that cache; extra hits of requests one at a time were being computed."""
    eviction: str = ""
    """The order of eviction in a few words, if users cannot choose another policy."""
    limited: Callable[[O, int], O] | None = None
    """The options with room for so many tokens of KV; None if no such number limits the engine."""


AnyRuleSet = RuleSet[Any]
"""Rules of any engine; options must come from the same rule set."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """An engine's rules with its options: everything that a run needs."""

    rules: AnyRuleSet
    options: Any
    """Options, of the rule set's own type."""
    together: int = 1
    """Number of requests that arrive at one moment; the next arrive when all of them are answered."""

    def make(self) -> EngineCache:
        """Return an empty cache."""
        return self.rules.make(self.options)

    @property
    def unit(self) -> int:
        """Tokens by which hits end."""
        return self.rules.unit(self.options)

    def make_queue(self) -> EngineQueue:
        """Return an empty cache for requests that come together."""
        assert self.rules.queue is not None, "rules that know requests one at a time only"
        return self.rules.queue(self.options)

    @property
    def rest(self) -> str:
        """The fate of tokens that one lasting cache would have hit, one request at a time, and the last rung does not."""
        return self.rules.rest if self.together == 1 else "in_flight"

    def rungs(self) -> list[tuple[str, RuleChoice]]:
        """Return the relaxed rules that differ from these, each with the fate of its extra hits; all limits before are lifted,
        too."""
        found, options = list[tuple[str, RuleChoice]](), self.options
        for rung in self.rules.ladder if self.together == 1 else self.rules.queue_ladder:
            lifted = rung.lifted(options)
            if lifted != options:
                options = lifted
                found.append((rung.fate, replace(self, options=options)))
        return found
