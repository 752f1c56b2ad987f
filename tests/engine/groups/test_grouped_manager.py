"""Several groups of layers in one pool: what holds whatever the layers and the workload are, and what was worked out by hand."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from kvtool.engine.blocks.block_keys import Image
from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.grouped_manager import GroupedManager
from kvtool.engine.groups.kv_group import CachePlan, KVGroup
from kvtool.engine.replay import Replay
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.engine.step import EngineStep, Sampled, Scheduled
from tests.conftest import some
from tests.engine.groups.random_workloads import Case, random_case

FULL = KVGroup(kind="full", block_size=4)


def plan(*groups: KVGroup, **units: Any) -> CachePlan:
    size = groups[0].block_size
    numbered = tuple(groups)
    return CachePlan(
        **{
            "groups": numbered,
            "bytes_per_block": 1,
            "scheduler_block_size": size,
            "hash_block_size": size,
            "hit_alignment": size,
            **units,
        }
    )


def engine(cache_plan: CachePlan, **options: Any) -> Scheduler:
    config = EngineConfig(block_size=cache_plan.hash_block_size, plan=cache_plan, **options)
    return Scheduler(config, GroupedManager(config, record_events=True))


def request(name: str, ids: list[int], outputs: int = 1, **named: Any) -> Request:
    tokens = np.asarray(ids, dtype=np.int32)
    return Request(name, len(ids), prompt_ids=tokens, output_ids=[9] * outputs, **named)


def finish(scheduler: Scheduler, *requests: Request) -> None:
    runner = DryRunner()
    for each in requests:
        scheduler.add(each)
    while len(scheduler):
        step = scheduler.schedule()
        scheduler.check()
        scheduler.update(step, runner.run(step))
        scheduler.check()


class Watched(Replay):
    """A run whose books are checked after each step, and whose hits never reach a prompt's last token."""

    def _engine_step(self) -> None:
        super()._engine_step()
        self.scheduler.check()
        for each in self.scheduler.running:
            assert each.admissions[-1][1] < each.num_tokens
            assert all(0 <= block < self.cache.num_blocks for table in each.tables for block in table.blocks)
        assert self.cache.hashes[0] is None


@pytest.mark.parametrize("seed", some(range(60), 15))
def test_the_books_balance_whatever_the_layers(seed: int) -> None:
    """No vLLM is needed: references agree with tables, the null block holds nothing, a hit leaves a token to compute."""
    case = random_case(random.Random(seed))
    for asynchronous in (False, True)[: 1 if case["params"]["spec"] else 2]:
        try:
            Watched(case, asynchronous=asynchronous).run()
        except EngineError:
            continue  # what vLLM does not start with, or could never schedule


@pytest.mark.parametrize("seed", some(range(8), 2))
def test_one_full_group_is_what_an_engine_without_a_plan_is(seed: int) -> None:
    """Block ids, events and the free queue, through the manager of groups and through the one for a single group."""
    chance = random.Random(seed)
    stem = [chance.randrange(100) for _ in range(40)]
    specs = [
        (
            stem[: chance.randrange(40)] + [chance.randrange(100) for _ in range(chance.randrange(1, 20))],
            chance.randrange(1, 9),
        )
        for _ in range(20)
    ]
    options: dict[str, Any] = {"num_blocks": 24, "max_num_batched_tokens": 16, "max_num_seqs": 3}
    plain_config = EngineConfig(block_size=4, **options)
    plain = Scheduler(plain_config, make_cache(plain_config, record_events=True))
    grouped = engine(plan(FULL), **options)
    for scheduler in (plain, grouped):
        finish(scheduler, *(request(str(at), ids, outputs) for at, (ids, outputs) in enumerate(specs)))
    assert grouped.cache.take_events() == plain.cache.take_events()
    assert list(grouped.cache.free_queue) == list(plain.cache.free_queue)
    assert grouped.stats == plain.stats
    assert grouped.num_preemptions == plain.num_preemptions


def test_a_plan_of_one_full_group_needs_no_manager_of_groups() -> None:
    config = EngineConfig(block_size=4, num_blocks=9, plan=plan(FULL))
    assert not isinstance(make_cache(config), GroupedManager)


def test_the_third_sibling_is_the_first_to_hit() -> None:
    """The first leaves a state at its own end only; the second finds in the full group what they share, and keeps a state there."""
    scheduler = engine(plan(KVGroup(kind="mamba", block_size=4), KVGroup(kind="full", block_size=4, spec_id=1)))
    shared = list(range(12))
    siblings = [request(str(at), [*shared, *([50 + at] * 6)]) for at in range(3)]
    for each in siblings:
        finish(scheduler, each)
    assert [each.num_cached_tokens for each in siblings] == [0, 0, 12]
    assert siblings[1].admissions[0][2] == 12


def test_a_window_is_given_back_while_a_request_runs() -> None:
    windows = KVGroup(kind="sliding", block_size=4, window=5)
    scheduler = engine(plan(windows, KVGroup(kind="full", block_size=4, spec_id=1)), max_num_batched_tokens=8)
    one = request("a", list(range(24)), outputs=2)
    scheduler.add(one)
    runner = DryRunner()
    for _ in range(3):
        step = scheduler.schedule()
        tables = [list(table.blocks) for table in one.tables]
        scheduler.update(step, runner.run(step))
    assert tables[0][:3] == [0, 0, 0]
    assert all(tables[0][3:])
    assert all(tables[1])


def test_one_at_a_time_goes_through_the_steps() -> None:
    """States stand where steps end, so that nothing can be left out; what is cached is the same."""
    states = plan(KVGroup(kind="mamba", block_size=4), KVGroup(kind="full", block_size=4, spec_id=1))
    stepped, at_once = engine(states), engine(states)
    for at in range(4):
        ids = [*range(12), at, at, at, at, at]
        finish(stepped, request(str(at), ids, outputs=5))
        account(at_once, request(str(at), ids, outputs=5))
    assert at_once.stats == stepped.stats
    assert at_once.cache.take_events() == stepped.cache.take_events()


def test_images_and_embeddings_part_what_tokens_do_not() -> None:
    scheduler = engine(plan(FULL, num_hash_lookahead=1, num_prefill_lookahead=1, num_spec_tokens=1))
    ids = [7] * 13
    runs = [
        request("text", ids),
        request("one", ids, images=(Image("x", 4, 4),)),
        request("moved", ids, images=(Image("x", 5, 4),)),
        request("again", ids, images=(Image("x", 4, 4),)),
        request("rows", ids, prompt_embeds=np.ones((13, 2), dtype=np.float32)),
    ]
    for each in runs:
        finish(scheduler, each)
    # A hash covers the token behind its block: the image at token 4 is in the first one, that at token 5 is not.
    assert [each.num_cached_tokens for each in runs] == [0, 0, 4, 12, 0]


def test_options_that_a_plan_cannot_have_are_refused() -> None:
    for options, said in [
        ({"prefix_cache_retention_interval": 6}, "not a multiple of 4"),
        ({"prefix_cache_retention_interval": -4}, "must not be negative"),
        ({"prefill_schedule_interval": 0}, "at least 1"),
        ({"max_num_active_seqs": 999}, "from 1 to max_num_seqs"),
        ({"block_size": 8}, "hashes blocks of 4 tokens"),
    ]:
        states = plan(KVGroup(kind="mamba", block_size=4), KVGroup(kind="full", block_size=4, spec_id=1))
        with pytest.raises(EngineError, match=said):
            EngineConfig(**{"block_size": 4, "plan": states, **options})


def test_retention_without_windows_and_states_is_refused() -> None:
    with pytest.raises(EngineError, match="needs a model with windows or states"):
        EngineConfig(block_size=4, plan=plan(FULL), prefix_cache_retention_interval=4)


def test_a_request_that_would_preempt_itself_for_ever_is_told_of() -> None:
    """vLLM preempts and admits it over and over: its drafts need a block more than there is."""
    drafts = plan(FULL, num_spec_tokens=4, num_lookahead_tokens=4)
    scheduler = engine(drafts, num_blocks=5, scheduler_reserve_full_isl=False)
    with pytest.raises(EngineError, match=r"over and over|never be scheduled"):
        finish(scheduler, request("a", list(range(10)), outputs=6))


class PlaceholdersReplay(Replay):
    """Notes what requests get that are admitted with more tokens than they have."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.placeholders: list[tuple[Scheduled, Sampled]] = []

    def _update(self, step: EngineStep, tokens: Sequence[Sampled]) -> None:
        for item, sampled in zip(step.scheduled, tokens, strict=True):
            if item.num_drafts and item.request.admissions[-1][0] == step.index:
                self.placeholders.append((item, sampled))
        super()._update(step, tokens)


def test_no_placeholder_is_accepted() -> None:
    """vLLM admits a request with one token left as if it had drafts. A model samples no placeholder, so it gets one token."""
    chance = random.Random(361)
    admitted: list[tuple[Scheduled, Sampled]] = []
    for case in [random_case(chance) for _ in range(100)]:
        if case["params"]["spec"]:
            case["params"]["spec"]["accept"] = [3]
            with suppress(EngineError):  # where vLLM fails, too
                admitted += PlaceholdersReplay(case).run().placeholders
    assert {len(sampled) for _, sampled in admitted if isinstance(sampled, list)} == {1}
    kinds = {(item.request.num_preemptions > 0, item.start > 0) for item, _ in admitted}
    assert kinds > {(False, False), (False, True)}, "a prompt of one token, a hit, a resumption"


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_a_copy_goes_on_as_the_original_does(seed: int) -> None:
    chance = random.Random(seed)
    window = KVGroup(kind="sliding", block_size=4, window=chance.choice((5, 9)), spec_id=1)
    original = engine(plan(FULL, window), num_blocks=40)
    stems = [[chance.randrange(9) for _ in range(24)] for _ in range(3)]
    for number in range(20):
        ids = chance.choice(stems)[: chance.randint(1, 24)] + [chance.randrange(9) for _ in range(5)]
        copied = copy.deepcopy(original)
        finish(original, request(str(number), ids))
        finish(copied, request(str(number), ids))
        assert original.cache.take_events() == copied.cache.take_events()
        original = copied  # what is wrong in a copy shows in what comes later
