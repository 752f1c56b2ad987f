"""Where a prompt leaves the cache under a hypothesis: reasoning is left out, another form counts, or a system text is moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvtool.accounting.misses.changed_part import token_of_message

if TYPE_CHECKING:
    from kvtool.accounting.misses.prompt_states import MessageForm, PromptState
    from kvtool.workload.jobs import Job

CutName = Literal["client", "question", "always", "form", "hoisted", "front"]
_LEADING = ("system", "developer")


class PrefixCuts(NamedTuple):
    """Our tokens at the front of a prompt before the first place where it leaves the cache; None: it does not.

    Of reasoning: the request does not send it again (`client`), or a chat template drops it after the next question (`question`) or
    always. `form`: before the first message that was sent in another form. System messages of mid-conversation are moved after the
    first ones (`hoisted`), or before all text (`front`).
    """

    client: int | None = None
    question: int | None = None
    always: int | None = None
    form: int | None = None
    hoisted: int | None = None

    @property
    def front(self) -> int | None:
        """Return the cut of a system message that is moved before all text."""
        return None if self.hoisted is None else 0

    def of(self, name: CutName) -> int | None:
        """Return the cut of one of the hypotheses."""
        cut: int | None = getattr(self, name)
        return cut


NO_CUTS = PrefixCuts()


def prefix_cuts(before: PromptState | None, forms: Sequence[MessageForm], job: Job) -> tuple[PrefixCuts, int | None]:
    """Return the cuts of a prompt that continues `before`, and where the reasoning since its last question begins."""
    if before is None or not forms:
        return NO_CUTS, None
    cuts = NO_CUTS._replace(form=_form_cut(before, forms, job), hoisted=_hoisted_cut(before, forms, job))
    added = forms[len(before.forms) :]
    if not added or added[0].role != "assistant":
        return cuts, None
    asked = any(form.role == "user" for form in added)
    answered = before.own_tokens if before.reasoned else None
    unsent = None if added[0].reasoning else answered
    begins = before.reasoning_begins
    if begins is None and unsent is None:
        begins = answered
    dropped = begins if asked and begins is not None else unsent
    return cuts._replace(client=unsent, question=dropped, always=answered), None if asked else begins


def _form_cut(before: PromptState, forms: Sequence[MessageForm], job: Job) -> int | None:
    """Return the cut before the first message that has the same text as before in another form."""
    for number, (was, now) in enumerate(zip(before.forms, forms, strict=False)):
        if (was.role, was.text) != (now.role, now.text):
            return None
        if (was.parts, was.json) != (now.parts, now.json):
            return _at_mark(before, token_of_message(job, number))
    return None


def _hoisted_cut(before: PromptState, forms: Sequence[MessageForm], job: Job) -> int | None:
    """Return the cut after the first system messages, where another one was added in mid-conversation."""
    if not any(form.role in _LEADING for form in forms[len(before.forms) :]):
        return None
    first = next((number for number, form in enumerate(forms) if form.role not in _LEADING), None)
    token = None if not before.forms or first is None else token_of_message(job, first)
    if first is None or token is None:
        return None
    for number in range(first, len(before.forms)):  # those of earlier requests are there already
        if forms[number].role in _LEADING:
            start, stop = token_of_message(job, number), token_of_message(job, number + 1)
            token += 0 if start is None or stop is None else stop - start
    return _at_mark(before, token)


def _at_mark(before: PromptState, token: int | None) -> int | None:
    """Return what is read up to a token: where marks decide what is stored, up to the last one."""
    if token is None or before.stored_ends is None:
        return token
    return max((end for end in before.stored_ends if end <= token), default=0)
