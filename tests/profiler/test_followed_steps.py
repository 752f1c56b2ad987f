"""Random clients at a random server, that is the engine with arrivals that nobody tells; what it publishes must lead to them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec")

from kvtool.accounting.event_writer import event_fields
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import DEFAULT_ACCELERATOR, DEFAULT_MODEL, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.layer_spec import AttentionLayer
from kvtool.engine.groups.planner import PlanOptions, plan_cache
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.measure.servers.kv_events.event_batches import ClearedBlocks, StoredBlocks, read_payload
from kvtool.profiler.reconcile import followed_steps
from kvtool.profiler.reconcile.event_trace import EventTrace
from kvtool.profiler.reconcile.followed_steps import Followed, StepFollower
from kvtool.profiler.reconcile.served_steps import TrackedRequest, steps_of
from kvtool.profiler.reconcile.twin import Ask, request_of
from tests.conftest import some
from tests.measure.servers.published import CLEARED, of_engine, payload, stored

SIZE = 4
LATENCY = LatencyModel(find_geometry(DEFAULT_MODEL), find_accelerator(DEFAULT_ACCELERATOR), kv_token_bytes=1.0)


def _layer(window: int | None) -> AttentionLayer:
    return AttentionLayer(
        block_size=SIZE,
        kind="full" if window is None else "sliding",
        kv_heads=1,
        head_size=8,
        value_size=8,
        dtype=find_kv_dtype("bf16"),
        window=window,
    )


WINDOWS = plan_cache([_layer(20), _layer(20), _layer(None)], PlanOptions(block_size=SIZE, max_num_batched_tokens=128))


def config_of(*, asynchronous: bool, blocks: int, plan: CachePlan | None = None, seqs: int = 4) -> EngineConfig:
    return EngineConfig(
        plan=plan,
        block_size=SIZE,
        num_blocks=blocks,
        max_num_batched_tokens=128,
        max_num_seqs=seqs,
        max_model_len=120,
        hash_algo="sha256_cbor",
        async_scheduling=asynchronous,
    )


class Served:
    """Clients, each of which sends its next prompt some steps after its answer."""

    def __init__(self, seed: int, config: EngineConfig, clients: int = 4) -> None:
        rng = random.Random(seed)
        self.config = config
        self.engine = engine = Engine(config, DryRunner(), VirtualClock(LATENCY), record_events=True)
        beginnings = [[rng.randrange(50) for _ in range(rng.randint(4, 60))] for _ in range(4)]
        self.asks = {
            number: Ask(
                number,
                np.asarray(
                    rng.choice(beginnings) + [rng.randrange(2) for _ in range(rng.randint(1, 9))], dtype=np.int32
                ),
                tuple(rng.randrange(3) for _ in range(rng.randint(1, 9))),
                rng.choice([None, None, "a"]),
            )
            for number in range(max(40, 6 * clients))
        }
        self.cached: dict[int, int] = {}
        self.sent: dict[int, float] = {}
        self.done: dict[int, float] = {}
        self.batches = [read_payload(payload([CLEARED], at=0.0), 0)]
        self._owners: list[str] = []
        register = "register" if config.plan is None else "store_full"
        self._plain_register = getattr(engine.cache, register)
        setattr(engine.cache, register, self._register)  # to know for whom each block is stored
        waiting = list(self.asks)
        due: list[tuple[int, int]] = [(rng.randint(0, 3), waiting.pop(0)) for _ in range(clients)]
        step = 0
        while due or engine.busy:
            awaited = engine.awaits
            for moment, number in sorted(each for each in due if each[0] <= step):
                due.remove((moment, number))
                self.sent[number] = moment - 0.5
                engine.add(request_of(number, self.asks[number]))
            if engine.busy:
                publishes = not config.async_scheduling or awaited
                for request in engine.step():
                    number = int(request.id)
                    self.cached[number] = request.num_cached_tokens
                    self.done[number] = step + 0.6
                    if waiting:
                        due.append((step + rng.randint(1, 6), waiting.pop(0)))
                if publishes:
                    self._publish(step)
            step += 1

    def _register(self, request: Request, *more: Any) -> None:
        """As the cache does it; notes for whom."""
        events = self.engine.cache.events
        assert events is not None
        before = len(events)
        self._plain_register(request, *more)
        self._owners += [request.id] * (len(events) - before)

    def _publish(self, step: int) -> None:
        groups = self.config.plan.groups if self.config.plan is not None else ()
        rows = [event_fields(event, SIZE, groups=groups) for event in self.engine.cache.take_events()]
        owners = iter(self._owners)
        events = [{**row, "session_id": next(owners)} if row["type"] == "BlockStored" else row for row in rows]
        self._owners.clear()
        if events:
            self.batches.append(read_payload(payload(events, at=float(step)), len(self.batches)))

    def requests(self, *, timed: bool) -> list[TrackedRequest]:
        """As clients know them, whose clocks are 100 s late."""
        trace = EventTrace.of(self.batches)
        last = {event.session_id: place for place, event in enumerate(trace.events) if isinstance(event, StoredBlocks)}
        return [
            TrackedRequest(
                ask,
                self.sent[number] - 100 if timed else None,
                self.done[number] - 100 if timed else None,
                trace.admitted.get(str(number)),
                last.get(str(number)),
            )
            for number, ask in self.asks.items()
        ]

    def follow(self, *, timed: bool = True) -> Followed | None:
        steps = steps_of(EventTrace.of(self.batches))
        assert steps is not None
        return StepFollower(replace(self.config, hash_algo="native"), steps, self.requests(timed=timed)).follow()


def test_the_events_lead_to_the_arrivals() -> None:
    for plan in [None, WINDOWS]:
        for asynchronous in [False, True]:
            for seed in some(range(5), 2):
                served = Served(
                    seed, config_of(asynchronous=asynchronous, blocks=40 if plan is None else 110, plan=plan)
                )
                found = served.follow()
                assert found is not None
                run = found.run(served.config, LATENCY, served.asks, events=True)
                assert run.cached == served.cached
                published = [event for batch in served.batches[1:] for event in batch.events]
                assert len(published) > 50
                assert [event["block_hashes"] for event in of_engine(run.events, SIZE)] == [
                    list(event.block_hashes) for event in published if not isinstance(event, ClearedBlocks)
                ]


@pytest.mark.parametrize("seed", some((16, 0, 1, 3, 2, *range(4, 16), *range(18, 24)), 2))  # 17 takes 15 times the work
def test_more_clients_with_little_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_steps, "MOST_WORK", 600_000)  # too little for 16 without what later events show
    rng = random.Random(seed)
    clients, grouped = rng.randint(6, 16), rng.random() < 0.4
    blocks = rng.choice((24, 40, 60)) * clients // 4 * (3 if grouped else 1)
    config = config_of(
        asynchronous=rng.random() < 0.6,
        blocks=blocks,
        plan=WINDOWS if grouped else None,
        seqs=rng.choice((4, clients)),
    )
    served = Served(seed, config, clients)
    found = served.follow()
    assert found is not None
    assert found.run(served.config, LATENCY, served.asks, events=False).cached == served.cached


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_where_little_is_evicted_it_may_not_be_found_but_is_never_wrong(
    seed: int, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_steps, "MOST_WORK", 500_000)
    served = Served(seed, config_of(asynchronous=asynchronous, blocks=60))
    found = served.follow()
    if found is not None:
        assert found.run(served.config, LATENCY, served.asks, events=False).cached == served.cached


def test_clients_without_clocks_lead_there_too() -> None:
    served = Served(1, config_of(asynchronous=False, blocks=40))
    found = served.follow(timed=False)
    assert found is not None
    assert found.run(served.config, LATENCY, served.asks, events=False).cached == served.cached


def test_a_server_of_other_rules_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(2, config_of(asynchronous=False, blocks=40))
    served.config = replace(served.config, num_blocks=39)
    monkeypatch.setattr(followed_steps, "MOST_WORK", 300_000)
    assert served.follow() is None


def test_a_cache_that_is_emptied_in_between() -> None:
    first, second = (
        Served(3, config_of(asynchronous=False, blocks=60)),
        Served(3, config_of(asynchronous=False, blocks=60)),
    )
    assert first.cached == second.cached
    trace = EventTrace.of(
        [*first.batches, *(replace(batch, seq=(batch.seq or 0) + len(first.batches)) for batch in second.batches)]
    )
    steps = steps_of(trace)
    assert steps is not None
    assert trace.cleared == [len(EventTrace.of(first.batches).events)]
    assert steps.steps.count((("cleared", ()),)) == 1


@pytest.mark.parametrize(
    "event",
    [
        stored([5], [1] * SIZE, 77),
        stored([5], [1] * SIZE, lora_name="x"),
        stored([5], [1] * SIZE, extra_keys=[[("h", 1)]]),
    ],
)
def test_events_that_tell_too_little_are_not_followed(event: dict[str, object]) -> None:
    batches = [read_payload(payload([CLEARED]), 0), read_payload(payload([event]), 1)]
    assert steps_of(EventTrace.of(batches)) is None


def test_events_with_a_gap_are_not_followed() -> None:
    batches = [read_payload(payload([stored([number], [number] * SIZE)]), number) for number in range(3)]
    assert steps_of(EventTrace.of(batches)) is not None
    assert steps_of(EventTrace.of([batches[0], batches[2]])) is None
    assert steps_of(EventTrace.of(batches[1:])) is None
