"""The engine's scheduler and the plain one, side by side: each operation is done to both, and then both must be the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored
from kvtool.engine.request import Request, Status
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from tests.fuzz.plain_engine import Content, PlainRequest, PlainScheduler

BEGINNINGS = ((0,), (1,), (0, 0, 0, 0), (0, 0, 0, 0, 1, 1), (0,) * 9, (2,) * 5, (0, 1) * 6, (3,) * 16)


@dataclass
class BothEngines:
    """Requests that are in neither are refused by the engine; the plain one takes its word for that."""

    config: EngineConfig
    pairs: dict[str, tuple[Request, PlainRequest]] = field(default_factory=dict)
    contents: dict[BlockHash, Content] = field(default_factory=dict)
    submitted: int = 0

    def __post_init__(self) -> None:
        self.engine = Scheduler(self.config, BlockManager(self.config, record_events=True))
        self.plain = PlainScheduler(self.config)

    def add(self, ids: list[int], outputs: int, *, salt: str = "", priority: int = 0, skips: bool = False) -> None:
        """Submit a request, to be answered with 900, 901…"""
        name, answer = str(self.submitted), [900 + index % 3 for index in range(outputs)]
        self.submitted += 1
        request = Request(
            name,
            len(ids),
            prompt_ids=np.array(ids, np.int32),
            output_ids=answer,
            cache_salt=salt or None,
            priority=priority,
            arrival=float(self.submitted),
            skip_reading_cache=skips,
        )
        try:
            self.engine.add(request)
        except EngineError:
            return
        plain = PlainRequest(name, list(ids), answer, salt, priority, self.submitted, skips)
        self.plain.add(plain)
        self.pairs[name] = request, plain

    def step(self) -> None:
        """One step of both, with the tokens that it samples."""
        before = {name: list(request.block_ids) for name, (request, _) in self.pairs.items()}
        step = self.engine.schedule()
        finished = self.engine.update(step, DryRunner().run(step))
        scheduled, preempted, ended = self.plain.step()
        assert [(item.request.id, item.start, item.num_tokens) for item in step.scheduled] == scheduled, before
        assert [request.id for request in step.preempted] == preempted
        assert [request.id for request in finished] == ended
        self._name_blocks()
        for name in ended:
            request, plain = self.pairs.pop(name)
            assert request.status is Status.FINISHED
            assert request.outputs == plain.answer[: plain.given]
            assert request.admissions == plain.admissions

    def reset(self, *, running: bool) -> None:
        """Forget the cache of both; with `running`, what runs is put back."""
        assert self.engine.reset_prefix_cache(reset_running=running) == self.plain.reset(running=running)

    def finish(self, most: int = 3000) -> None:
        """Step until nothing is left."""
        for _ in range(most):
            if not self.pairs:
                break
            self.step()
            self.compare()
        assert not self.pairs, "requests that fit wait for ever"

    def compare(self) -> None:
        """Assert that both hold the same, block for block."""
        engine, plain = self.engine, self.plain
        cache = engine.cache
        engine.check()
        assert [request.id for request in engine.running] == [request.name for request in plain.running]
        assert [request.id for request in engine.waiting] == [request.name for request in plain.waiting]
        assert list(cache.free_queue) == plain.cache.free
        assert cache.num_blocks == plain.cache.count
        held = {block: users for block, users in plain.cache.users.items() if users}
        assert {block: refs for block, refs in enumerate(cache.refs) if refs} == held
        content = {block: self.contents[key] for block, key in enumerate(cache.hashes) if key is not None}
        assert content == plain.cache.content
        assert {self.contents[key]: block for key, block in cache.cached.items()} == {
            content: copies[0] for content, copies in plain.cache.copies.items() if copies
        }
        for request, other in self.pairs.values():
            assert request.block_ids == other.blocks
            assert (request.num_computed_tokens, request.num_tokens) == (other.computed, len(other.tokens))
        assert self._events() == plain.cache.events
        plain.cache.events.clear()

    def _name_blocks(self) -> None:
        """Note what each hash stands for: a hash of two contents, or a content of two hashes, would be found."""
        for request, plain in self.pairs.values():
            extend_hashes(request, self.config.block_size)
            for index, key in enumerate(request.block_hashes):
                if key not in self.contents:
                    self.contents[key] = plain.content(index, self.config.block_size)

    def _events(self) -> list[tuple[str, tuple[Content, ...]]]:
        found: list[tuple[str, tuple[Content, ...]]] = []
        for event in self.engine.cache.take_events():
            match event:
                case BlockStored(stored, _):
                    found.append(("stored", tuple(self.contents[key] for key in stored)))
                case BlockRemoved(removed):
                    found.append(("removed", (self.contents[removed],)))
                case AllBlocksCleared():
                    found.append(("cleared", ()))
        return found


def random_config(rng: random.Random) -> EngineConfig:
    """Small pools, tight budgets, every option of the scheduler."""
    block_size = rng.choice((1, 1, 2, 4, 5))
    tokens = rng.choice((None, 28, 44, 44, 60, 90))  # the longest request has 44 of them
    return EngineConfig(
        block_size=block_size,
        num_blocks=None if tokens is None else tokens // block_size + 1,
        max_num_batched_tokens=rng.choice((2, 3, 4, 5, 8, 64)),
        max_num_seqs=rng.choice((1, 2, 4, 8, 8)),
        max_model_len=rng.choice((13, 24, 1 << 31)),
        enable_prefix_caching=rng.random() < 0.85,
        enable_chunked_prefill=rng.random() < 0.85,
        long_prefill_token_threshold=rng.choice((0, 0, 2)),
        watermark=rng.choice((0.0, 0.0, 0.3)),
        scheduler_reserve_full_isl=rng.random() < 0.5,
        policy=rng.choice(("fcfs", "priority")),
    )


def random_operation(rng: random.Random, both: BothEngines) -> None:
    """A request, a step or a reset."""
    kind = rng.random()
    if kind < 0.25 and len(both.pairs) < 12:
        ids = [*rng.choice(BEGINNINGS[: rng.choice((3, len(BEGINNINGS)))]), *rng.choices((0, 1), k=rng.randrange(5))]
        salt, priority = rng.choice(("", "", "", "s")), rng.randrange(3)
        both.add(ids, rng.choice((1, 4, 12, 24)), salt=salt, priority=priority, skips=rng.random() < 0.1)
    elif kind < 0.98:
        both.step()
    else:
        both.reset(running=rng.random() < 0.5)
