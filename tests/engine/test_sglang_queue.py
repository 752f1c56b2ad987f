"""SGLang's queue: order, admission, chunks, retraction; what runs keeps its prefix; alone, it is as one request at a time."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang import SglangCache
from kvtool.engine.rules.sglang_memory import RadixMemory
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_queue import SglangQueue
from kvtool.engine.rules.sglang_request import RadixRequest
from kvtool.engine.rules.sglang_tree import TOKEN_BYTES

from .sglang_cases import Case, random_case
from .sglang_queues import QUEUES

SEEDS = st.integers(0, 1 << 30)


def asked(request: Case) -> RuleRequest:
    return RuleRequest(
        np.array(request["prompt"], np.int32),
        np.array(request["output"], np.int32),
        (request.get("extra_key"), request.get("cache_salt")),
        request.get("priority", 0),
    )


def options_of(engine: Case) -> SglangOptions:
    return SglangOptions(
        page_size=engine["page_size"],
        radix_eviction_policy=engine["eviction"],
        protected_threshold=engine.get("eviction_config", {}).get("protected_threshold", 2),
        max_total_tokens=engine["capacity"],
        schedule_policy=engine["policy"],
        max_running_requests=engine["max_running"],
        max_prefill_tokens=engine["max_prefill_tokens"],
        chunked_prefill_size=engine.get("chunked_prefill_size"),
        new_token_ratio=engine["new_token_ratio"],
    )


def test_a_queue_worked_out_by_hand() -> None:
    for case in QUEUES.values():
        requests, expected = case["requests"], case["expected"]
        together = [[asked(each) for each in group] for _, group in groupby(requests, key=lambda each: each["arrival"])]
        run = SglangQueue(options_of(case["engine"])).serve(together)
        assert (run.prefill_batches, run.cached) == (expected["prefill_batches"], expected["cached_tokens"])


def path_of(queue: SglangQueue, request: RadixRequest) -> bytes:
    """What the tree holds above the node of a request."""
    node, pieces = request.node, []
    while node.parent is not None:
        assert node.locks
        pieces.append(node.key)
        node = node.parent
    assert node is queue.memory.tree.root, "nobody was evicted from its path"
    return b"".join(reversed(pieces))


def check(queue: SglangQueue) -> None:
    memory = queue.memory
    memory.tree.check()
    alive = [*queue.running, *([] if queue.cut is None else [queue.cut])]
    own = sum(memory.whole_pages(request.computed) - request.held for request in alive)
    assert memory.num_free + memory.tree.num_tokens + own == memory.capacity
    assert memory.num_free >= 0
    for request in alive:
        assert path_of(queue, request) == request.text[: request.held * TOKEN_BYTES]
    if not alive:
        assert memory.tree.num_locked == 0


@given(SEEDS)
def test_what_runs_keeps_its_prefix_and_every_token_is_accounted_for(seed: int) -> None:
    case = random_case(seed, "queue")
    queue = SglangQueue(options_of(case["engine"]))
    for _, together in groupby(case["requests"], key=lambda request: request["arrival"]):
        requests = [queue.add(asked(request)) for request in together]
        while queue.waiting or queue.running or queue.cut is not None:
            queue.step()
            check(queue)
        for request in requests:
            assert request.cached is not None
            assert 0 <= request.cached < request.num_prompt
            assert request.cached % queue.memory.page_size == 0
            assert request.num_left == 0


@given(SEEDS, st.sampled_from(("fcfs", "lpm", "dfs-weight")))
def test_requests_that_come_alone_are_served_as_by_the_cache(seed: int, policy: str) -> None:
    """fcfs touches what waits first, which the cache of requests one at a time has no queue for: with lru that changes nothing, as
    what is touched is looked up next."""
    case = random_case(seed, "queue")
    options = options_of({**case["engine"], "policy": policy})
    queue, cache = SglangQueue(options), SglangCache(options)
    requests = [asked(request) for request in case["requests"]]
    served = [cache.serve(request) for request in requests]
    run = queue.serve([request] for request in requests)
    assert run.cached == [each.cached for each in served]
    assert run.evicted == [each.evicted for each in served]
    assert run.num_tokens == cache.num_tokens
    assert run.num_retracted == 0


def test_who_runs_is_taken_back_where_nothing_is_free() -> None:
    """Two with answers of 30 in a pool of 60 that keeps nothing free for answers: the one with the longer prompt begins anew."""
    options = SglangOptions(max_total_tokens=60, new_token_ratio=0.0)
    arrivals = [
        [RuleRequest(np.arange(start, start + tokens), np.arange(500, 530)) for start, tokens in ((0, 10), (100, 14))]
    ]
    run = SglangQueue(options).serve(arrivals)
    assert run.num_retracted == 1
    assert run.prefill_batches == [[0], [1], [1]]
    assert run.cached == [0, 0]


def test_a_prompt_ends_where_a_node_ends_even_where_an_answer_is_computed_with_it() -> None:
    """As after a retraction, when the prompt has gone from the tree."""
    memory = RadixMemory(SglangOptions(page_size=4, max_total_tokens=64))
    request = RadixRequest(RuleRequest(np.arange(10), np.arange(50, 60)), memory.tree.root)
    request.sampled, request.target = 6, 16
    memory.prefill([request])
    assert memory.publish(request) == 0
    assert [len(node.key) // TOKEN_BYTES for node in memory.tree.nodes()] == [8, 8]


@pytest.mark.parametrize(("prompt", "said"), [([], "no tokens"), (list(range(60)), "does not fit")])
def test_a_request_that_could_never_run(prompt: list[Any], said: str) -> None:
    queue = SglangQueue(SglangOptions(max_total_tokens=60))
    with pytest.raises(EngineError, match=said) as refused:
        queue.serve([[RuleRequest(np.array(prompt, np.int32), np.array([1], np.int32))]])
    assert refused.value.hint
    assert not queue.waiting
