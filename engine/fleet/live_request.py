"""A request on its way through a replica."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.engine.fleet.fleet_request import FleetRequest


@dataclass(slots=True, eq=False)
class LiveRequest:
    """How far it is. Of one that decodes, `outputs`, `computed`, `blocks` and `registered` stand still: the step says the rest."""

    request: FleetRequest
    target: int
    """Output tokens that it gets."""
    asked: int
    names: list[int]
    """What its full blocks hold, as far as that has a name."""
    expected: int
    """Tokens that are to be computed for it, as far as one can say while it waits."""
    outputs: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    """Its first blocks that are full."""
    order: int = -1
    """Its place among the admissions; -1 while it waits."""
    offset: int = 0
    """Of one that decodes: computed tokens less the steps of its replica."""
    last_step: int = 0
    """Of one that decodes: the step of the replica that gives it its last token."""
    prefill_seconds: float = 0.0
    """Of one that waits: what its prompt takes alone, where a router asks for that."""

    @property
    def tokens(self) -> int:
        """Of its prompt and of its answer so far."""
        return self.request.prompt_tokens + self.outputs
