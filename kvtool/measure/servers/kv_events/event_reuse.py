"""Reuse of each request, and the order in which requests were admitted, from KV events alone.

A server looks a prompt up and stores its new blocks in one step, so what it hit is what was held before the first event of its
own. A request that stored nothing hit every full block of its prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kvtool.measure.servers.kv_events.event_batches import ClearedBlocks, EventBatch, StoredBlocks
from kvtool.measure.servers.kv_events.event_state import BlockName, Break, EventState, Keys, RankStates, block_names


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A request that a server answered, as far as its events can show it.

    `session_id` is what the server puts into the events of this request; without one, or where requests share it, they are
    recognized by what they store, and of equal ones by when: `sent` and `done` are seconds since 1970. `keys` are those of its
    first blocks: `[("salt",)]`.
    """

    id: str
    tokens: Sequence[int]
    outputs: Sequence[int] = ()
    session_id: str | None = None
    keys: Sequence[Keys] = ()
    sent: float | None = None
    done: float | None = None

    def runs(self, at: float) -> bool:
        """Return whether it may be under way then; always, where its times are not known."""
        return (self.sent is None or self.sent <= at) and (self.done is None or at <= self.done)


@dataclass(slots=True)
class ObservedRequest:
    """Facts from the events about one request.

    `reused` is in tokens; None where that cannot be known. `how`: its own `events`; `silent`: it stored nothing, so it hit all that
    is full; `unknown`: after a gap, or never seen although it must have stored something. `stored` holds (number of the batch among
    those read, number of the event in it) of each of its own events; `blocks` counts what it stored. `guessed`: only the order of
    sending told it from another one that could have stored the same then.
    """

    id: str
    reused: int | None = None
    how: Literal["events", "silent", "unknown"] = "unknown"
    rank: int | None = None
    stored: list[tuple[int, int]] = field(default_factory=list)
    blocks: int = 0
    guessed: bool = False


@dataclass(slots=True)
class EventReuse:
    """Requests by id, and what else the events say.

    `admitted` are the ids of those that stored something, in the order of their first own events. `foreign` events are of none of
    the requests: other traffic. `cleared` holds the numbers of the batches in which the cache was reset.
    """

    requests: dict[str, ObservedRequest]
    admitted: list[str] = field(default_factory=list)
    foreign_events: int = 0
    foreign_tokens: int = 0
    breaks: list[Break] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)
    groups: int = 0
    contradictions: int = 0


def reuse_from_events(batches: Iterable[EventBatch], prompts: Sequence[AnsweredPrompt]) -> EventReuse:
    """Return the reuse of each request, given in the order of sending, from every batch since the cache was empty or reset."""
    states = RankStates()
    result = EventReuse({prompt.id: ObservedRequest(prompt.id) for prompt in prompts})
    owners: _Owners | None = None
    for number, batch in enumerate(batches):
        for index, (state, event) in enumerate(states.take(batch)):
            if isinstance(event, ClearedBlocks):
                result.cleared.append(number)
            if not isinstance(event, StoredBlocks) or not state.followed.takes(event):
                continue
            if owners is None:
                owners = _Owners(prompts, event.block_size)
            owner = owners.of(event, state, batch.at)
            if owner is None:
                result.foreign_events += 1
                result.foreign_tokens += len(event.block_hashes) * event.block_size
                continue
            seen = result.requests[owner.prompt.id]
            if not seen.stored:
                result.admitted.append(seen.id)
                seen.rank = batch.rank
                if state.known:
                    seen.how = "events"
                    seen.reused = state.hits(owner.names, len(owner.prompt.tokens)) * event.block_size
            seen.stored.append((number, index))
            seen.blocks += len(event.block_hashes)
    result.breaks = states.breaks
    result.groups = max((len(state.groups) for state in states.ranks.values()), default=0)
    result.contradictions = sum(state.contradictions for state in states.ranks.values())
    whole = not states.breaks and all(state.known for state in states.ranks.values())
    for prompt in prompts:
        seen = result.requests[prompt.id]
        if whole and owners is not None and not seen.stored and owners.can_be_silent(prompt):
            seen.reused = len(prompt.tokens) // owners.block_size * owners.block_size
            seen.how = "silent"
    for place in () if owners is None else owners.guessed:
        result.requests[prompts[place].id].guessed = True
    return result


class _Owner:
    """A request whose events are looked for: how far its blocks are stored, None before its first event."""

    def __init__(self, place: int, prompt: AnsweredPrompt, block_size: int) -> None:
        self.place = place
        self.prompt = prompt
        self.names = block_names([*prompt.tokens, *prompt.outputs], block_size, prompt.keys)
        self.stored: int | None = None


class _Owners:
    """Whose an event is: by its session's id where one request has that, else by what it stores."""

    def __init__(self, prompts: Sequence[AnsweredPrompt], block_size: int) -> None:
        self.block_size = block_size
        self._by_session: dict[str, list[_Owner]] = defaultdict(list)
        self._by_name: dict[BlockName, list[tuple[_Owner, int]]] = defaultdict(list)
        self._by_id: dict[str, _Owner] = {}
        self._stored: set[BlockName] = set()
        """Those of our blocks that were ever stored."""
        self.guessed: set[int] = set()
        """The places of requests that only the order distinguished."""
        self._newest = -1
        """The place of the last request that was recognized by what it stored, in the order of sending."""
        for place, prompt in enumerate(prompts):
            owner = _Owner(place, prompt, block_size)
            self._by_id[prompt.id] = owner
            if prompt.session_id is not None:
                self._by_session[prompt.session_id].append(owner)
            for depth, name in enumerate(owner.names, start=1):
                self._by_name[name].append((owner, depth))

    def of(self, event: StoredBlocks, state: EventState, at: float) -> _Owner | None:
        """Return the request that stored these blocks; a later one of equal prompts where its turn has come."""
        names = state.names_of(event)
        self._stored.update(name for name in names if name in self._by_name)
        named = self._by_session.get(event.session_id) if event.session_id is not None else None
        if named is not None and len(named) == 1:
            self._newest = max(self._newest, named[0].place)
            return named[0]
        found = self._by_name.get(names[-1], []) if names else []
        able = [(owner, depth) for owner, depth in found if (owner in named if named else self._nameless(owner))]
        if not able:
            return None
        able = [found for found in able if found[0].prompt.runs(at)] or able
        start = able[0][1] - len(names)
        waiting = [owner for owner, _ in able if owner.stored is None]
        if all(
            owner.prompt.sent is None for owner in waiting
        ):  # no clock to go by, so the order: earlier ones were silent
            waiting.sort(key=lambda owner: owner.place < self._newest)
        owner = next((owner for owner, _ in able if owner.stored == start), None)
        if owner is None and waiting:
            fitting = [owner for owner in waiting if self._hit(owner, state) == start] or waiting
            owner = fitting[0]
            if len(fitting) > 1:
                self.guessed.update(each.place for each in fitting)
        if owner is None:
            owner = able[-1][0]  # computed again after a preemption
        owner.stored = able[0][1]
        self._newest = max(self._newest, owner.place)
        return owner

    def can_be_silent(self, prompt: AnsweredPrompt) -> bool:
        """Return whether a request that stored nothing can have hit all of its full blocks: each of them was stored once, and its
        last token, which is computed in any case, is in none of them."""
        full, rest = divmod(len(prompt.tokens), self.block_size)
        return bool(rest) and self._stored.issuperset(self._by_id[prompt.id].names[:full])

    @staticmethod
    def _nameless(owner: _Owner) -> bool:
        return owner.prompt.session_id is None

    def _hit(self, owner: _Owner, state: EventState) -> int:
        return state.hits(owner.names, len(owner.prompt.tokens))
