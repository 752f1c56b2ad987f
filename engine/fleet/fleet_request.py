"""A request as a fleet sees it: when it comes, its blocks by number, and how long prompt and answer are."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.config import EngineConfig
from kvtool.engine.impossible_requests import check_fits


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """One request. For one salt, equal numbers of blocks contain the same tokens from the start of a prompt on."""

    number: int
    """Its place among all requests, from 0; in order of arrival."""
    arrival: float
    """Seconds on the fleet's clock, which begins at 0."""
    blocks: list[int]
    """Full blocks of the prompt, then the known blocks of the answer."""
    asked: int
    """Leading blocks that may hit: all of a prompt's but the one with its last token."""
    prompt_tokens: int
    output_tokens: int
    """At least 1."""
    session: int = -1
    """-1: of none."""
    salt: int = -1
    """-1: none."""

    def check_fits(self, config: EngineConfig) -> None:
        """Raise EngineError, as the engine does, where this configuration could never run it."""
        check_fits(f"request {self.number + 1}", self.prompt_tokens, self.output_tokens, config)
