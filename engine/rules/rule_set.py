"""What every engine's rules have in common: requests one at a time, the tokens that each reuses, and why it reuses no more."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

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
        """Look a request up, run it alone to its end, and keep what the engine keeps. EngineError where it could never run."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens that the cache holds now."""
        ...


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one engine: `make` gives an empty cache with the engine's defaults."""

    name: str
    """As `--rules` takes it."""
    engine: str
    """With the version that the rules are of."""
    status: Status
    evidence: str
    """What they were compared with, or where they were read, in a sentence."""
    not_modelled: tuple[str, ...]
    """What of the engine the rules leave out."""
    make: Callable[[], EngineCache]
