"""A request on its way through a replica."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.engine.fleet.fleet_request import FleetRequest


@dataclass(slots=True, eq=False)
class LiveRequest:
    """The progress of a request. While it decodes, `outputs`, `computed`, `blocks` and `registered` are frozen; the step gives the
    rest."""

    request: FleetRequest
    target: int
    """Output tokens that it gets."""
    asked: int
    names: list[int]
    """Names of its full blocks' contents, as far as they have one."""
    expected: int
    """Tokens to compute for it, as far as known while it waits."""
    outputs: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    """Its first blocks that are full."""
    order: int = -1
    """Its place among the admissions; -1 while it waits."""
    offset: int = 0
    """While it decodes: computed tokens less the replica's steps."""
    last_step: int = 0
    """While it decodes: the replica's step that gives it its last token."""
    prefill_seconds: float = 0.0
    """While it waits: seconds of its prompt alone, where a router needs them."""

    @property
    def tokens(self) -> int:
        """Tokens of its prompt and of its answer so far."""
        return self.request.prompt_tokens + self.outputs
