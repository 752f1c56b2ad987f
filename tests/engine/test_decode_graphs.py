"""What holds decode steps that are recorded and replayed together, with stand-ins for CUDA."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model import decode_graphs, model_runner
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decode_graphs import CudaRecorder, DecodeGraphs, Replay
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request
from kvtool.kernels import torch_twins

MODEL = ModelConfig(97, 32, 40, 2, num_attention_heads=2, num_key_value_heads=1, head_dim=16)


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder.random(MODEL, seed=3)


class Calls:
    """Replays by calling again; says how many recordings were alive when each began."""

    def __init__(self) -> None:
        self.alive: list[int] = []
        self.graphs: DecodeGraphs | None = None

    def __call__(self, run: Callable[[], None]) -> Replay:
        assert self.graphs is not None
        self.alive.append(len(self.graphs._graphs))
        return run


def outputs(model: Decoder, calls: Calls | None) -> list[list[int]]:
    """Of five requests with fewer and fewer tokens to say, so that batches have several sizes."""
    runner = ModelRunner(model, 4, decode_attention="prefix-aware")
    if calls is not None:
        runner._graphs = calls.graphs = DecodeGraphs(model, runner.kv, calls)
    engine = Engine(EngineConfig(block_size=4), runner, WallClock())
    random = np.random.default_rng(1)
    requests = [
        Request(str(index), 9, prompt_ids=random.integers(0, 97, 9, dtype=np.int32), max_tokens=3 + 2 * index)
        for index in range(5)
    ]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    return [request.outputs for request in requests]


def test_too_many_graphs_are_given_up_all_at_once(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_graphs, "_MOST_GRAPHS", 2)
    calls = Calls()
    assert outputs(model, calls) == outputs(model, None)
    assert calls.alive[:3] == [0, 1, 0]
    assert set(calls.alive) == {0, 1}


def run_long(model: Decoder, calls: Calls | None, *, grow: bool) -> list[list[int]]:
    """Two requests of many blocks; the cache moves to other memory between their decode steps, if it is to `grow`."""
    runner = ModelRunner(model, 4, decode_attention="prefix-aware")
    if calls is not None:
        runner._graphs = calls.graphs = DecodeGraphs(model, runner.kv, calls)
    engine = Engine(EngineConfig(block_size=4), runner, WallClock())
    random = np.random.default_rng(2)
    prompts = [random.integers(0, 97, count, dtype=np.int32) for count in (700, 900)]
    requests = [Request(str(index), len(ids), prompt_ids=ids, max_tokens=6) for index, ids in enumerate(prompts)]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
        if grow and len(requests[0].outputs) == 3:
            before = runner.kv.k[0]
            runner.kv.reserve(runner.kv.num_blocks + 1)
            before.fill_(torch.nan)
    return [request.outputs for request in requests]


def test_graphs_do_not_outlive_the_memory_of_the_cache(model: Decoder) -> None:
    calls = Calls()
    assert run_long(model, calls, grow=True) == run_long(model, None, grow=False)
    assert calls.alive == [0, 0]


def test_more_parts_than_requests(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device with many processors, for which long requests are cut."""
    monkeypatch.setattr(model_runner, "processors", lambda _: 132)
    parts: list[tuple[int, int]] = []
    of = decode_graphs._Shape.of

    def seen(batch: Any, plan: Any) -> Any:
        parts.append((len(plan.query_index), len(batch.input_ids)))
        return of(batch, plan)

    monkeypatch.setattr(decode_graphs._Shape, "of", seen)
    assert run_long(model, Calls(), grow=False) == run_long(model, None, grow=False)
    assert all(count > 2 * requests for count, requests in parts)


class Cuda:
    """As much of torch.cuda as records: what happened, in order."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.CUDAGraph = lambda: SimpleNamespace(pool=lambda: "the first one's", replay=lambda: None)

    def Stream(self, _device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(wait_stream=lambda _: self.log.append("waits"))

    def current_stream(self, _device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(wait_stream=lambda _: self.log.append("waited for"))

    @contextlib.contextmanager
    def stream(self, stream: SimpleNamespace) -> Iterator[None]:
        self.log.append(("on", stream))
        yield

    @contextlib.contextmanager
    def graph(self, _graph: object, pool: object, stream: SimpleNamespace) -> Iterator[None]:
        assert not gc.isenabled()
        self.log.append(("records", pool, stream))
        yield


def test_graphs_share_memory_and_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function runs once before it is recorded, on the same stream, where libraries then have what they need."""
    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    record = CudaRecorder(torch.device("cuda"))
    record(lambda: cuda.log.append("first"))
    record(lambda: cuda.log.append("second"))
    (stream,) = {id(entry[-1]): entry[-1] for entry in cuda.log if isinstance(entry, tuple)}.values()
    for name, pool in (("first", None), ("second", "the first one's")):
        steps = ["waits", ("on", stream), name, "waited for", ("records", pool, stream), name]
        assert cuda.log[: len(steps)] == steps
        del cuda.log[: len(steps)]
    assert not cuda.log
    assert gc.isenabled()


def test_kernels_that_read_their_plans_on_the_host_are_not_recorded(
    model: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch on a GPU without Triton, told to read shared prefixes once."""
    monkeypatch.setattr(model_runner, "KVStore", lambda *_, **__: SimpleNamespace(k=[torch.empty(0)], vector_bytes=32))
    monkeypatch.setattr(model_runner, "processors", lambda _: 132)
    monkeypatch.setattr(model, "device", torch.device("cuda"))
    made: list[object] = []
    monkeypatch.setattr(model_runner, "CudaRecorder", made.append)
    assert model.kernels is torch_twins
    ModelRunner(model, 4, decode_attention="prefix-aware")
    assert not made
    monkeypatch.setattr(model, "kernels", SimpleNamespace(prefill_queries=torch_twins.prefill_queries))
    monkeypatch.setattr(model_runner, "DecodeGraphs", lambda *_: None)
    ModelRunner(model, 4)
    assert made == [torch.device("cuda")]
