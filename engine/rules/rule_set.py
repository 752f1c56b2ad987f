"""What every engine's rules have in common: requests one at a time, the tokens that each reuses, and why it reuses no more."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
O = TypeVar("O")  # noqa: E741 - the options of an engine

Status = Literal["driven", "read"]
"""Compared with the engine's own code, or read from its source and not run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `prompt` int32[n], and all tokens that were sampled for it, int32[m]; the last one is never computed.

    What differs in `scope` (salt, adapter, extra key) shares nothing, where the engine knows such scopes.
    """

    prompt: Ids
    answer: Ids
    scope: Hashable = None
    priority: int = 0
    session: str | None = None


class Served(NamedTuple):
    """What became of a request: tokens of its prompt that were reused, and tokens that were thrown away for it.

    `loss` says in the engine's own terms why it reused less than one lasting cache of single tokens would have.
    """

    cached: int
    evicted: int = 0
    loss: str = ""


class EngineCache(Protocol):
    """An engine's prefix cache, as far as its rules are known."""

    def serve(self, asked: Asked) -> Served:
        """Look a request up, run it alone to its end, and keep what the engine keeps. EngineError where it could never run, and
        then nothing has changed."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens that the cache holds now."""
        ...


class EngineQueue(Protocol):
    """An engine's prefix cache under requests that come together: its queue, its admission, what runs side by side."""

    def check(self, asked: Asked) -> None:
        """EngineError for a request that could never run."""
        ...

    def serve_together(self, together: Sequence[Asked]) -> list[int]:
        """Run requests that come at one moment, when all before have ended; the tokens that each reused."""
        ...

    @property
    def num_evicted(self) -> int:
        """Tokens that were thrown away so far."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens that the cache holds now."""
        ...


@dataclass(frozen=True, slots=True)
class Rung(Generic[O]):
    """A limit that can be lifted: what then hits besides has this fate, in words of the ledger."""

    fate: str
    lifted: Callable[[O], O]
    """The options without the limit; the same object where they have none."""


@dataclass(frozen=True, slots=True)
class OtherSetting(Generic[O]):
    """Another setting of the engine that may win back tokens of a fate; what it wins is found by running with it."""

    fate: str
    what: str
    """In the imperative, with the engine's own flag: "split the cache into 8 slots: --parallel 8"."""
    options: O
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet(Generic[O]):
    """The rules of one engine: `make` gives an empty cache with the given options, `options` are the engine's defaults.

    The fields of the options are named as the engine's users know them.
    """

    name: str
    """As `--rules` takes it."""
    engine: str
    """With the version that the rules are of."""
    status: Status
    evidence: str
    """What they were compared with, or where they were read, in a sentence."""
    not_modelled: tuple[str, ...]
    """What of the engine the rules leave out."""
    options: O
    make: Callable[[O], EngineCache]
    unit: Callable[[O], int]
    """Tokens by which hits end: of a block or a page; 1 where they may end anywhere."""
    ladder: tuple[Rung[O], ...] = ()
    """Limits in the order in which they are lifted, each on top of those before."""
    rest: str = "evicted"
    """The fate of what one lasting cache of such units would have had and the last rung has not."""
    scopes: bool = True
    """Whether salts keep tenants apart."""
    moves: bool = False
    """Whether text behind a difference may hit, moved from where it was computed; answers may change then."""
    remedies: Callable[[O], tuple[OtherSetting[O], ...]] = lambda _: ()
    queue: Callable[[O], EngineQueue] | None = None
    """An empty cache for requests that come together; None where the rules know them one at a time only."""
    queue_ladder: tuple[Rung[O], ...] = ()
    """The same as `ladder`, for that cache; what one at a time would have hit besides was being computed."""
    eviction: str = ""
    """What goes first, in a few words, where nobody can choose another policy."""
    limited: Callable[[O, int], O] | None = None
    """The options with room for so many tokens of KV; None where no such number says how much the engine keeps."""


AnyRuleSet = RuleSet[Any]
"""Of any engine: whoever has one of these takes its options from it."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """An engine's rules with the options that it has: all that a run needs of it."""

    rules: AnyRuleSet
    options: Any
    """Of the type of the rule set's own."""
    together: int = 1
    """Requests that come at one moment; the next come when all of them are answered."""

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
        """Return the fate of what one lasting cache would have had, one request at a time, and the last rung has not."""
        return self.rules.rest if self.together == 1 else "in_flight"

    def rungs(self) -> list[tuple[str, RuleChoice]]:
        """Return the kinder rules that differ from these, each with the fate of what it adds; all limits before are lifted, too."""
        found, options = list[tuple[str, RuleChoice]](), self.options
        for rung in self.rules.ladder if self.together == 1 else self.rules.queue_ladder:
            lifted = rung.lifted(options)
            if lifted != options:
                options = lifted
                found.append((rung.fate, replace(self, options=options)))
        return found
