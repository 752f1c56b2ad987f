"""A turn whose prompt was made before it is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvtool.errors import MessageRefusedError
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn


@dataclass(slots=True)
class Prepared:
    """What rendering and tokenizing make of a turn: its prompt, and its answer as text and as token ids."""

    prompt: Prompt
    answer: str
    output: list[int]


@dataclass(slots=True)
class PreparedTurn(Turn):
    """A turn that comes with what was made of it, or why nothing could be."""

    prepared: Prepared | MessageRefusedError | None = None
    found: object = None
    """What else was found out of it."""

    def take(self) -> Prepared | None:
        """What was made of it, once; later None. Raises MessageRefusedError where the chat template refuses the turn."""
        prepared, self.prepared = self.prepared, None
        if isinstance(prepared, MessageRefusedError):
            raise prepared
        return prepared


@dataclass(slots=True)
class TokensTurn(PreparedTurn):
    """A changed turn of which another process told the tokens alone: its texts are those from before the change."""

    again: Callable[[], Turn] | None = None

    def whole(self) -> Turn:
        """The turn with all that was changed."""
        assert self.again is not None
        return self.again()
