"""Prefill and decode apart: what is sent, when answers go on, and when the split changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.decode_replica import DecodeReplica
from kvtool.engine.fleet.fleet import serve
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import ReplicaView
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.shared_link import SharedLink
from kvtool.engine.fleet.split import SplitRun, serve_split
from tests.engine.fleet import made_requests
from tests.engine.fleet.made_requests import MODEL, SIZE, bursts

CONFIG = EngineConfig(block_size=SIZE, num_blocks=200)
request = partial(made_requests.request, outputs=3)


class InTurn:
    """Round-robin."""

    def __init__(self) -> None:
        self.next = -1

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        del request, now
        self.next = (self.next + 1) % len(replicas)
        return self.next

    def first_token(self, request: FleetRequest, replica: int, ttft: float, now: float) -> None: ...

    def finished(self, request: FleetRequest, replica: int, now: float) -> None: ...


class Checked(DecodeReplica):
    """Looks at itself after each step."""

    def _go_on(self, moment: float) -> bool:
        went = super()._go_on(moment)
        self.check()
        return went


def split(
    requests: list[FleetRequest],
    pools: tuple[int, int] = (1, 1),
    *,
    bandwidth: float = inf,
    latency: float = 0.0,
    config: EngineConfig = CONFIG,
    decode: EngineConfig | None = None,
) -> SplitRun:
    return serve_split(
        requests,
        lambda number, ledger: Replica(number, config, MODEL, ledger),
        lambda number, ledger: Checked(number, decode or config, MODEL, ledger),
        pools,
        InTurn(),
        SharedLink(bandwidth, latency),
        100.0,
    )


def test_the_second_token_comes_after_the_transfer() -> None:
    found = split([request(0, [0, 1], tail=2, outputs=3)], bandwidth=2000.0, latency=0.5)
    first = MODEL.prefill_seconds(10, 0, 8192)
    assert found.run.first_token[0] == pytest.approx(first)
    assert found.transfer_bytes[0] == 1000
    assert found.transfer_seconds[0] == pytest.approx(1.0)
    steps = sum(MODEL.step_seconds([(context, 1)]) for context in (10, 11))
    assert found.run.finished[0] == pytest.approx(first + 1.0 + steps, rel=1e-6)


def test_one_token_is_not_sent_anywhere() -> None:
    found = split([request(0, [0], outputs=1)])
    assert found.decode_replica[0] == -1
    assert found.transfer_bytes[0] == 0
    assert np.isnan(found.transfer_seconds[0])
    assert found.run.finished[0] == found.run.first_token[0]


def test_what_a_decode_replica_got_it_need_not_get_again() -> None:
    requests = [request(0, [0, 1, 2]), request(1, [0, 1, 0], arrival=9.0)]
    found = split(requests)
    assert found.transfer_bytes.tolist() == [1300, 1300 - 2 * SIZE * 100]


def test_transfers_share_the_link_and_go_to_the_least_used() -> None:
    requests = [request(0, [0, 0], outputs=2), request(1, [1, 1], outputs=2)]
    found = split(requests, (2, 2), bandwidth=900.0)
    assert found.decode_replica.tolist() == [0, 1]
    assert found.transfer_seconds.tolist() == pytest.approx([2.0, 2.0])


def test_a_prompt_waits_until_its_blocks_fit() -> None:
    decode = replace(CONFIG, num_blocks=5)
    requests = [request(0, [0, 0], tail=0, outputs=9), request(1, [1, 1, 1], tail=0, outputs=2)]
    alone, both = split(requests[:1], decode=decode), split(requests, decode=decode)
    assert both.run.finished[1] > both.run.finished[0] >= alone.run.finished[0]


@pytest.mark.parametrize("pools", [(0, 1), (1, 0)])
def test_an_empty_pool_is_refused(pools: tuple[int, int]) -> None:
    with pytest.raises(EngineError, match="at least one replica in each pool"):
        split([request(0, [0])], pools)


def test_what_never_fits_the_decode_pool_is_refused() -> None:
    with pytest.raises(EngineError, match="the whole cache has 3"):
        split([request(0, [0, 0, 0], outputs=5)], decode=replace(CONFIG, num_blocks=4))


@given(bursts((1, 2, 9, 30)), st.sampled_from([4, 8192]), st.sampled_from([1, 3, 256]))
def test_decode_of_nothing_and_an_infinite_link_is_a_mixed_replica(
    requests: list[FleetRequest], budget: int, running: int
) -> None:
    config = replace(CONFIG, max_num_batched_tokens=budget, max_num_seqs=running)
    short = [replace(each, output_tokens=1) for each in requests]
    mixed = serve(short, lambda number, ledger: Replica(number, config, MODEL, ledger), 1, InTurn())
    found = split(short, config=config)
    assert found.run.first_token.tolist() == mixed.first_token.tolist()
    assert found.run.finished.tolist() == mixed.finished.tolist()
    # And decoding changes nothing of the first token either, as it is done elsewhere.
    assert split(requests, config=config).run.first_token.tolist() == mixed.first_token.tolist()


@given(
    bursts((1, 2, 9, 30)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([500.0, 1e5, inf]),
    st.sampled_from([0.0, 0.01]),
    st.integers(16, 40),
    st.sampled_from([1, 3, 256]),
    st.booleans(),
)
def test_each_request_is_finished_once_and_all_bytes_are_sent(
    requests: list[FleetRequest],
    pools: tuple[int, int],
    bandwidth: float,
    latency: float,
    blocks: int,
    running: int,
    caching: bool,
) -> None:
    config = replace(CONFIG, num_blocks=blocks, max_num_seqs=running, enable_prefix_caching=caching)
    link = SharedLink(bandwidth, latency)
    ledgers: list[FleetLedger] = []

    def decode(number: int, ledger: FleetLedger) -> DecodeReplica:
        ledgers.append(ledger)
        return Checked(number, config, MODEL, ledger)

    found = serve_split(
        requests,
        lambda number, ledger: Replica(number, config, MODEL, ledger),
        decode,
        pools,
        InTurn(),
        link,
        100.0,
    )
    run = found.run
    assert (run.first_token > run.arrival).all()
    assert (run.finished >= run.first_token).all()
    long = run.output_tokens > 1
    assert ((found.decode_replica >= 0) == long).all()
    assert (run.finished[long] >= (run.first_token + found.transfer_seconds)[long]).all()
    assert found.transfer_bytes.sum() == link.num_bytes
    if not caching:
        assert (found.transfer_bytes == np.where(long, run.prompt_tokens * 100, 0)).all()
    assert (run.hit_blocks * SIZE + run.computed_tokens == run.prompt_tokens).all()
