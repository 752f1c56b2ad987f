"""Requests whose prompts are paths in a tree of blocks, and a replica that serves them with all its counts checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator

MODEL = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
SIZE = 4

paths = st.lists(st.integers(0, 2), min_size=1, max_size=6)


def request(number: int, path: list[int], *, arrival: float = 0.0, tail: int = 1, outputs: int = 1) -> FleetRequest:
    """Whole blocks of a path in the tree and `tail` tokens more."""
    blocks, name = [], 0
    for turn in path:
        name = name * 3 + turn + 1
        blocks.append(name)
    tokens = len(path) * SIZE + tail
    return FleetRequest(number, arrival, blocks, (tokens - 1) // SIZE, tokens, outputs)


@st.composite
def bursts(draw: st.DrawFn, answers: Sequence[int]) -> list[FleetRequest]:
    """Some at once, some after a pause, with answers of these lengths."""
    found, moment = [], 0.0
    for number in range(draw(st.integers(1, 20))):
        moment += draw(st.sampled_from([0.0, 0.0, 1e-3, 0.02, 0.4]))
        path, outputs, tail = draw(paths), draw(st.sampled_from(answers)), draw(st.integers(0, SIZE - 1))
        found.append(request(number, path, arrival=moment, tail=tail, outputs=outputs))
    return found


def serve(replica: Replica, requests: Iterable[FleetRequest], *, looks: bool = True) -> None:
    """All of them to their end; `looks`: a router looks at the cache at each arrival."""
    for each in requests:
        replica.advance(each.arrival)
        if looks:
            assert 0 <= replica.matched(each) <= each.asked
            replica.check()
        replica.add(each, each.arrival)
        replica.check()
    replica.finish()
    replica.check()
    assert not replica.running
    assert not replica.waiting
    assert not replica.pending_tokens
    assert not replica.used_blocks
