"""Follow the reasoning of answers through a session: where a prompt diverges from the cache if earlier reasoning is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvtool.results.misses import DroppedReasoning

if TYPE_CHECKING:
    from kvtool.accounting.misses.prompt_states import MessageForm, PromptState


class ReasoningCuts(NamedTuple):
    """Our tokens at the front of a prompt before the first reasoning that the cache has and the prompt has not.

    `client`: the request does not send it again. `question`: a chat template drops it after the next question. `always`: a chat
    template drops that of all earlier answers. None: nothing is dropped.
    """

    client: int | None = None
    question: int | None = None
    always: int | None = None

    def of(self, dropped: DroppedReasoning) -> int | None:
        """Return the cut of one of the three."""
        return {"client": self.client, "question": self.question, "always": self.always}[dropped]


NO_CUTS = ReasoningCuts()


def follow_reasoning(before: PromptState | None, forms: Sequence[MessageForm]) -> tuple[ReasoningCuts, int | None]:
    """Return the cuts of a prompt that continues `before`, and where the reasoning since its last question begins."""
    added = () if before is None else forms[len(before.forms) :]
    if before is None or not added or added[0].role != "assistant":
        return NO_CUTS, None
    asked = any(form.role == "user" for form in added)
    answered = before.own_tokens if before.reasoned else None
    unsent = None if added[0].reasoning else answered
    begins = before.reasoning_begins
    if begins is None and unsent is None:
        begins = answered
    dropped = begins if asked and begins is not None else unsent
    return ReasoningCuts(unsent, dropped, answered), None if asked else begins
