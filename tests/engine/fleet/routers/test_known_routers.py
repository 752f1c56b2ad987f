"""What holds for every router there is, and how one is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter
from kvtool.engine.fleet.routers.known_routers import ROUTERS
from kvtool.engine.fleet.routers.named_router import asked_router, settings_of
from kvtool.engine.fleet.routers.sglang_gateway import SglangSettings
from tests.engine.fleet.routers.made_replica import MadeReplica, chosen, made_request, toy_run

RUN = [name for name, kind in ROUTERS.items() if kind.settings is not None]
VARIANTS = [
    "sglang:poor=smallest-tree",
    "llm-d:load-aware=1:no-hit-lru=2",
    "dynamo:temperature=0.5:decay=1",
    "first-block-hash:block=3",
]


def router_of(name: str, seed: int = 0) -> FleetRouter:
    made = asked_router(name).settings
    assert made is not None
    return made.router(seed)


def test_each_kind_says_what_it_is() -> None:
    for name, kind in ROUTERS.items():
        assert kind.name == name
        assert kind.rule
        assert kind.sources or not kind.version
        if kind.settings is not None:
            router = kind.settings.router(0)
            assert callable(router.choose)


REPLICA = st.builds(
    MadeReplica,
    st.just(0),
    st.integers(0, 12),
    st.integers(0, 400),
    st.integers(0, 400),
    st.integers(0, 10**6),
    st.integers(0, 100),
    st.sampled_from([100, None]),
    below=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    queue=st.floats(0, 1e6),
)
REQUEST = st.tuples(st.integers(0, 12), st.integers(-1, 5), st.integers(0, 30), st.integers(1, 50))


@pytest.mark.parametrize("name", [*RUN, *VARIANTS])
@given(data=st.data())
def test_every_router_answers_with_a_replica_and_the_same_for_a_seed(name: str, data: st.DataObject) -> None:
    first, again = router_of(name, 5), router_of(name, 5)
    count = data.draw(st.integers(1, 6))
    for number in range(data.draw(st.integers(1, 8))):
        replicas = [data.draw(REPLICA) for _ in range(count)]
        for at, replica in enumerate(replicas):
            replica.number = at
        blocks, session, begin, output = data.draw(REQUEST)
        request = made_request(number, blocks, session=session, first=begin, output=output)
        chose = chosen(first, replicas, request, now=7.0 * number)
        assert 0 <= chose < count
        assert chosen(again, replicas, request, now=7.0 * number) == chose
        for router in (first, again):
            router.first_token(request, chose, 0.5, 7.0 * number + 0.5)
            if number % 2:
                router.finished(request, chose, 7.0 * number + 1)


@given(
    st.lists(
        st.tuples(st.floats(0, 2), st.integers(0, 3), st.integers(1, 30), st.integers(-1, 3)), min_size=1, max_size=60
    ),
    st.integers(20, 200),
)
def test_one_replica_gives_the_same_for_all(made: list[tuple[float, int, int, int]], num_blocks: int) -> None:
    requests, now = [], 0.0
    for number, (gap, tree, blocks, session) in enumerate(made):
        now += gap
        names = [tree * 1000 + place for place in range(blocks)]
        requests.append(FleetRequest(number, now, names, blocks, blocks * 16, 5, session))
    runs = {
        name: toy_run(router_of(name), requests, replicas=1, num_blocks=num_blocks, block_size=16)
        for name in [*RUN, *VARIANTS]
    }
    assert all(run == runs["round-robin"] for run in runs.values())


def test_settings_are_asked_for_by_name() -> None:
    asked = asked_router("sglang: share=0.5:poor=smallest-tree")
    assert asked.settings == SglangSettings(share=0.5, poor="smallest-tree")
    assert asked.name == "sglang:share=0.5:poor=smallest-tree"
    assert asked_router("sglang").name == "sglang"
    assert settings_of(asked_router("dynamo:blocks=off:decay=2").settings)["blocks"] == "off"
    assert settings_of(None) == {}


def test_what_there_is_not_is_refused() -> None:
    for text, said in [
        ("", "unknown router ''"),
        ("sgl", "unknown router 'sgl'"),
        ("\x1b[31m", r"unknown router '\\x1b\[31m'"),
        ("sglang:shared=1", "unknown setting 'shared=1'"),
        ("sglang:share", "unknown setting 'share'"),
        ("sglang:share=much", "'much' must be a number of at least 0"),
        ("sglang:share=nan", "'nan' must be a number"),
        ("sglang:share=-1", "'-1' must be a number"),
        ("sglang:apart=1.5", "'1.5' must be a whole number"),
        ("sglang:apart=99999999999999999", "must be a whole number"),
        ("sglang:poor=rich", "'rich' is not one of least-loaded, smallest-tree"),
        ("dynamo:blocks=maybe", "'maybe' is neither on nor off"),
        ("round-robin:a=1", "unknown setting 'a=1'"),
        ("oracle:a=1", "unknown setting 'a=1'"),
    ]:
        with pytest.raises(EngineError, match=said):
            asked_router(text)
