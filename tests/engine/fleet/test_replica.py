"""A replica of a fleet does what the engine does, request by request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from tests.engine.fleet.made_requests import serve

MODELS = [LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator(name)) for name in ("h100", "rtx-4090")]
"""The second attends with FlashAttention 2, which is timed in another way."""


@dataclass(frozen=True)
class RuleRequest:
    """A prompt, its answer, whether a log says the answer, and when it comes."""

    prompt: list[int]
    answer: list[int]
    known: bool
    arrival: float


@dataclass(frozen=True)
class Served:
    hits: list[int]
    first: list[float]
    last: list[float]
    preemptions: int


def by_engine(asked: list[RuleRequest], config: EngineConfig, model: LatencyModel) -> Served:
    clock = VirtualClock(model)
    engine = Engine(config, DryRunner(), clock)
    requests = [
        Request(
            str(number),
            len(each.prompt),
            prompt_ids=np.array(each.prompt, np.int32),
            output_ids=each.answer,
            arrival=each.arrival,
        )
        for number, each in enumerate(asked)
    ]
    last = [0.0] * len(requests)
    coming = requests[::-1]
    while coming or engine.busy:
        while coming and coming[-1].arrival <= clock.now():
            engine.add(coming.pop())
        if engine.busy:
            for request in engine.step():
                last[int(request.id)] = clock.now()
        else:
            clock.wait_until(coming[-1].arrival)
    hits = [request.num_cached_tokens // config.block_size for request in requests]
    first = [request.first_token_at or 0.0 for request in requests]
    return Served(hits, first, last, engine.scheduler.num_preemptions)


def fleet_requests(asked: list[RuleRequest], block_size: int) -> list[FleetRequest]:
    numbers: dict[BlockHash, int] = {}
    found = []
    for number, each in enumerate(asked):
        tokens = each.prompt + (each.answer[:-1] if each.known else [])
        full = len(tokens) // block_size
        hashes = (
            NATIVE.chain(np.array(tokens[: full * block_size], np.int32), block_size, None, None, None) if full else []
        )
        found.append(
            FleetRequest(
                number,
                each.arrival,
                [numbers.setdefault(block, len(numbers)) for block in hashes],
                (len(each.prompt) - 1) // block_size,
                len(each.prompt),
                len(each.answer),
            )
        )
    return found


def by_replica(asked: list[RuleRequest], config: EngineConfig, model: LatencyModel, *, looks: bool) -> Served:
    """`looks`: a router looks at the cache at each arrival, and everything is checked."""
    ledger = FleetLedger(len(asked))
    replica = Replica(0, config, model, ledger)
    serve(replica, fleet_requests(asked, config.block_size), looks=looks)
    return Served(ledger.hit_blocks, ledger.first_token, ledger.finished, ledger.preemptions)


def same(served: Served, expected: Served) -> None:
    assert served.hits == expected.hits
    assert served.preemptions == expected.preemptions
    assert served.first == pytest.approx(expected.first, rel=1e-6)
    assert served.last == pytest.approx(expected.last, rel=1e-6)


@st.composite
def workloads(draw: st.DrawFn) -> list[RuleRequest]:
    """Prompts that share prefixes, some with the answer of another in them; bursts and pauses."""
    block = draw(st.sampled_from([4, 8]))
    texts: list[list[int]] = [[]]
    asked: list[RuleRequest] = []
    moment = 0.0
    for number in range(draw(st.integers(1, 24))):
        stem = texts[draw(st.integers(0, len(texts) - 1))]
        fresh = draw(st.integers(0, 3 * block))
        prompt = stem[: draw(st.integers(0, len(stem)))] + [1000 * number + place for place in range(fresh)]
        prompt = prompt or [7]
        known = draw(st.booleans())
        length = draw(st.one_of(st.integers(1, 4), st.integers(1, 60)))
        same_words = known and draw(st.booleans())
        answer = [500 + place if same_words else 1000 * number + 900 + place for place in range(length)]
        asked.append(RuleRequest(prompt, answer, known, moment))
        texts.append(prompt + answer if known else prompt)
        moment += draw(st.sampled_from([0.0, 0.0, 1e-4, 0.0031, 0.0207, 0.173, 1.9]))
    return asked


@given(
    workloads(),
    st.sampled_from([4, 8]),
    st.sampled_from([None, 0, 1, 3, 9]),
    st.sampled_from([4, 24, 8192]),
    st.sampled_from([1, 3, 256]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(MODELS),
)
def test_as_the_engine(
    asked: list[RuleRequest],
    block: int,
    beyond: int | None,
    tokens: int,
    seqs: int,
    chunked: bool,
    looks: bool,
    model: LatencyModel,
) -> None:
    most = max(len(each.prompt) + len(each.answer) - 1 for each in asked)
    config = EngineConfig(
        block_size=block,
        num_blocks=None if beyond is None else 1 + -(-most // block) + beyond,
        max_num_batched_tokens=tokens if chunked else max(tokens, most),
        max_num_seqs=seqs,
        enable_chunked_prefill=chunked,
    )
    same(by_replica(asked, config, model, looks=looks), by_engine(asked, config, model))


def test_an_answer_that_is_being_written_makes_room() -> None:
    """Who waits for a block may hit one more when a running request fills it, in the middle of a run of decode steps."""
    prompt, answer = [1, 2, 3, 4], list(range(100, 109))
    later = prompt + answer[:4] + list(range(500, 508))
    asked = [RuleRequest(prompt, answer, True, 0.0), RuleRequest(later, [9], False, 0.012)]
    config = EngineConfig(block_size=4, num_blocks=5)
    served = by_replica(asked, config, MODELS[0], looks=False)
    assert served.hits == [0, 2]
    assert served.last[1] < served.last[0]
    same(served, by_engine(asked, config, MODELS[0]))
