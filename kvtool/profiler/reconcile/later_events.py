"""What a server's later events say of the blocks that are free now: which of them it evicted first, and which were used again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE, extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import BlockRemoved
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.profiler.reconcile.event_trace import named
from kvtool.profiler.reconcile.served_steps import ServedSteps, TrackedRequest
from kvtool.profiler.reconcile.twin import request_of

Place = tuple[int, int]
"""A step, and a place among its events."""


class LaterEvents:
    """Free blocks are evicted in the order in which they were freed, so a server's evictions show this order long before.

    A block that a request may use again before its eviction shows nothing.
    """

    def __init__(
        self,
        config: EngineConfig,
        served: ServedSteps,
        requests: Mapping[int, TrackedRequest],
        prompts: Mapping[int, Request],
        clock: float,
    ) -> None:
        """Create it. `clock` is what the server's clock is ahead of the clients' at least."""
        plan = config.plan
        size, ahead = (config.block_size, 0) if plan is None else (plan.hash_block_size, plan.num_hash_lookahead)
        self.moments = served.moments
        self._over = (len(served.steps), 0)
        self._removals: dict[tuple[str, BlockHash], list[Place]] = {}
        for step, events in enumerate(served.steps):
            for place, (kind, hashes) in enumerate(events):
                if kind.startswith("removed"):
                    self._removals.setdefault((kind, hashes[0]), []).append((step, place))
        self._holders: dict[BlockHash, list[int]] = {}
        """The requests that have a block, in their prompt or answer."""
        self._due_answers: list[tuple[int, int, int]] = []
        """Requests whose first own block is one with their answer: its step, the steps that this takes, the request."""
        self._answers: dict[int, dict[int, list[int]]] = {}
        """For each request the steps that stored the blocks with these numbers, in its prompt and answer."""
        stored: dict[tuple[str | None, BlockHash], list[int]] = {}
        for step, session, blocks in zip(served.of_event, served.sessions, served.blocks, strict=True):
            for each in blocks if session is not None else ():
                stored.setdefault((session, each), []).append(step)
        self._users: dict[BlockHash, list[int]] = {}
        self.admitted: dict[int, int] = {}
        """For requests that store a block of their prompt the step of the first one: they are admitted then."""
        self.arrivals: dict[int, float] = {}
        """The first moment, by the server's clock, at which a request may be there."""
        for number, prompt in prompts.items():
            extend_hashes(prompt, size, NATIVE, ahead)
            request = requests[number]
            if request.sent is not None:
                self.arrivals[number] = request.sent + clock
            own = set(prompt.block_hashes)
            if request.first is not None and any(each in own for each in served.stored_at_first(request.first)):
                self.admitted[number] = served.of_event[request.first]
            whole = request_of(
                number, replace(request.ask, prompt=np.append(request.ask.prompt, request.ask.output).astype(np.int32))
            )
            extend_hashes(whole, size, NATIVE, ahead)
            session = None if request.first is None else served.sessions[request.first]
            steps = ((index, stored.get((session, each))) for index, each in enumerate(whole.block_hashes))
            self._answers[number] = {index: found for index, found in steps if found}
            if number not in self.admitted and self._answers[number]:
                index, found = min(self._answers[number].items())
                need = 1 + (index + 1) * config.block_size - len(request.ask.prompt) + int(config.async_scheduling)
                self._due_answers.append((found[0], need, number))
            for each in whole.block_hashes:
                self._holders.setdefault(each, []).append(number)
            if not prompt.skip_reading_cache:
                for each in prompt.block_hashes:
                    self._users.setdefault(each, []).append(number)

    def conflict(self, scheduler: Scheduler, at: int, came: frozenset[int]) -> frozenset[int] | None:
        """Return the requests whose blocks were freed in another order than that of the evictions from step `at` on; None if all
        were freed in this order. `came`: the requests that were admitted.
        """
        pool = scheduler.cache
        if not pool.limited:
            return None
        hashes, copies = pool.hashes, pool.copies
        preempted = {each for request in scheduler.waiting for each in request.block_hashes}
        latest: Place = (-1, -1)
        last: BlockHash | None = None
        for block in pool.free_queue:
            content = hashes[block]
            if content is None or content in copies:
                continue
            removal = pool.removal(content)
            place, own = self._next_removal(removal, at), removal.block_hash
            if place == latest or own in preempted or self._is_used(own, place, came):
                continue
            if place < latest:
                assert last is not None
                return came.intersection(self._holders[own] + self._holders[last])
            latest, last = place, own
        return None

    def too_early(self, scheduler: Scheduler, at: int, came: Collection[int]) -> bool:
        """Return whether running requests fill the blocks of their answers at other steps than those of their events.

        A step adds a token to each, and publishes at most one batch. Those that may be preempted first are left out: the last ones.
        """
        config, room = scheduler.config, scheduler.cache.num_blocks - 1
        size, lag = config.block_size, int(config.async_scheduling)
        steps: dict[int, int] = {}
        for request in scheduler.running if config.policy == "fcfs" else ():
            room -= scheduler.cache.blocks_needed(request.num_prompt_tokens + request.max_tokens)
            if scheduler.cache.limited and room < 0:
                break
            known = request.num_computed_tokens - lag
            if request.num_computed_tokens < request.num_prompt_tokens:
                continue
            index = max(known, request.num_prompt_tokens) // size
            place = next((each for each in self._answers[int(request.id)].get(index, ()) if each >= at), None)
            if place is None:
                continue
            left = (index + 1) * size - known
            if place - at + 1 > left or steps.setdefault(left, place) != place:
                return True
        if any(one >= later for (_, one), (_, later) in pairwise(sorted(steps.items()))):
            return True
        late = [each for each in self._due_answers if each[2] not in came] if steps else []
        return any(
            need > left - (place - due) for due, need, _ in late for left, place in steps.items() if place >= due
        )

    def _next_removal(self, removal: BlockRemoved, at: int) -> Place:
        places = self._removals.get((named("removed", removal.group), removal.block_hash), ())
        index = bisect_left(places, (at, 0))
        return places[index] if index < len(places) else self._over

    def _is_used(self, content: BlockHash, before: Place, came: Collection[int]) -> bool:
        """Return whether a request that did not come yet may use the block before that place."""
        end = self.moments[before[0]] if before[0] < len(self.moments) else None
        for number in self._users.get(content, ()):
            if number in came:
                continue
            if (step := self.admitted.get(number)) is not None:
                if step <= before[0]:
                    return True
            elif end is None or number not in self.arrivals or self.arrivals[number] <= end:
                return True
        return False
