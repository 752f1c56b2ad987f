"""The latency model against real vLLM: 300 ShareGPT requests at 10 per second, Llama-3.1-8B in bf16, on two accelerators.

The same requests go through kvtool's engine with the recorded server's parameters; time passes as the latency model tells. Printed
are time to first token, time per output token and makespan (first arrival to last token), predicted against measured.

With a checkout of LLMServingSim a third run comes after them: 300 other requests, Qwen3-32B on two of the server cards.

None of the model's constants is fitted on a run: they come from times of single kernels (see `LatencyModel`). But they were chosen
with the first two runs known, and what is assumed of a link without NVLink was corrected after a first look at the third one. So
all three are in-sample, and are called so. The baseline is the plain data sheet, `max(FLOPs / peak FLOP/s, bytes / peak B/s)` of a
whole step.

The recorded runs are LLMServingSim's (MIT licence). They do not say how many prefix hits and preemptions vLLM had; the figures to
compare with are that project's own simulator's, which is calibrated kernel by kernel on these accelerators.

    python benchmarks/latency_validation.py [FOLDER [CHECKOUT]]    # default: ../shared/data/llmservingsim_sharegpt
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.engine.clock import StepTimes, VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.fleet.fleet import serve
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.replica import Replica
from kvtool.engine.fleet.routers.blind_routers import RoundRobinRouter
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.accelerators import Accelerator, find_accelerator
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.step import EngineStep

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "llmservingsim_sharegpt"
WORKLOAD = "sharegpt-llama-3.1-8b-300-sps10.jsonl"

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recorded:
    """A recorded run: its folder, what it ran on, and what LLMServingSim's simulator counted in it, where that is known."""

    folder: str
    accelerator: str
    simulated_hits: int | None = None
    simulated_preemptions: int | None = None
    model: str = "llama-3.1-8b"
    workload: str = WORKLOAD
    accelerators: int = 1

    @property
    def geometry(self) -> Geometry:
        return find_geometry(self.model)

    def latency(self) -> LatencyModel:
        accelerator = find_accelerator(self.accelerator)
        return LatencyModel(self.geometry, accelerator, tensor_parallel=self.accelerators)


RUNS = (
    Recorded("vllm_measured/RTX4090/Llama-3.1-8B", "rtx-4090", 4_848, 194),
    Recorded("vllm_measured/RTXPRO6000/Llama-3.1-8B", "rtx-pro-6000-se", 19_520, 0),
)
"""The second is a Server Edition: that project's description of the machine says so, with 1,597 GB/s."""
THIRD = Recorded(
    "bench/examples/RTXPRO6000/Qwen3-32B/vllm",
    "rtx-pro-6000-se",
    model="qwen3-32b",
    workload="workloads/sharegpt-qwen3-32b-300-sps10.jsonl",
    accelerators=2,
)
FIRST_LOOK = 35.841e9
"""Bytes per second of its link at the first look: 0.56 of PCIe 5.0, as NCCL was measured elsewhere."""


@dataclass(frozen=True)
class Times:
    """When each request arrived, got its first token and its last one; seconds since the first arrival."""

    arrival: Seconds
    first: Seconds
    last: Seconds
    outputs: npt.NDArray[np.int64]

    def metrics(self) -> dict[str, float]:
        """Milliseconds; the makespan in seconds."""
        ttft = 1e3 * (self.first - self.arrival)
        tpot = 1e3 * (self.last - self.first) / np.maximum(self.outputs - 1, 1)
        found: dict[str, float] = {}
        for name, values in (("TTFT", ttft), ("TPOT", tpot)):
            found[f"{name} mean"] = float(values.mean())
            found[f"{name} p50"], found[f"{name} p90"] = (float(each) for each in np.percentile(values, (50, 90)))
        found["makespan"] = float(self.last.max() - self.arrival.min())
        return found


@dataclass(frozen=True)
class Replay:
    """What the engine predicts for a run."""

    times: Times
    hits: int
    preemptions: int


@dataclass(frozen=True)
class DataSheet:
    """The naive baseline."""

    geometry: Geometry
    accelerator: Accelerator
    accelerators: int = 1

    def step_seconds(self, work: Iterable[tuple[int, int]]) -> float:
        geometry = self.geometry
        flops = moved = 0.0
        head = geometry.vocab_size * geometry.hidden_size
        layers = geometry.num_layers * geometry.layer_parameters
        for before, new in work:
            flops += 2.0 * (layers * new + head)
            flops += 4.0 * geometry.num_layers * geometry.num_heads * geometry.head_dim * new * (before + (new + 1) / 2)
            moved += (before + new) * geometry.kv_bytes_per_token()
        moved += 2 * (layers + head)
        return max(flops / self.accelerator.flops, moved / self.accelerator.bandwidth) / self.accelerators


class RecordingClock(VirtualClock):
    """Notes when each request gets its tokens."""

    def __init__(self, model: StepTimes) -> None:
        super().__init__(model)
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def step_done(self, step: EngineStep) -> None:
        super().step_done(step)
        now = self.now()
        for item in step.scheduled:
            if item.samples:
                self.first.setdefault(item.request.id, now)
                self.last[item.request.id] = now


def read_workload(folder: Path, workload: str = WORKLOAD) -> list[Request]:
    """The requests, with the seconds since the first one's arrival."""
    rows = [json.loads(line) for line in (folder / workload).read_text(encoding="utf-8").splitlines()]
    return [
        Request(
            str(index),
            len(row["input_tok_ids"]),
            prompt_ids=np.array(row["input_tok_ids"], np.int32),
            output_ids=row["output_tok_ids"],
            arrival=(row["arrival_time_ns"] - rows[0]["arrival_time_ns"]) / 1e9,
        )
        for index, row in enumerate(rows)
    ]


def read_measured(folder: Path, recorded: Recorded) -> Times:
    """A request arrives where vLLM's engine queued it, as in the recording's own summary; its frontend took 15 to 30 ms before."""
    lines = (folder / recorded.folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: int(row["request_id"].rsplit("-", 1)[1]))
    arrival, first, last = (
        np.array([row[name] for row in rows]) for name in ("queued_ts", "first_token_ts", "last_token_ts")
    )
    start = arrival.min()
    return Times(arrival - start, first - start, last - start, np.array([row["output_toks"] for row in rows]))


def read_config(folder: Path, recorded: Recorded) -> EngineConfig:
    """The recorded server's parameters. Where the number of blocks is not recorded, the cache was large enough for everything."""
    meta = json.loads((folder / recorded.folder / "meta.json").read_text(encoding="utf-8"))
    cache = meta.get("kv_cache", {})
    return EngineConfig(
        block_size=cache.get("block_size", 16),
        num_blocks=cache.get("num_gpu_blocks"),
        max_num_seqs=meta["engine_kwargs"]["max_num_seqs"],
        max_num_batched_tokens=meta["engine_kwargs"]["max_num_batched_tokens"],
        async_scheduling=True,  # vLLM 0.19's default; recorded as such where it is recorded
    )


def replay(requests: list[Request], config: EngineConfig, model: StepTimes) -> Replay:
    """Run the requests as they arrive."""
    clock = RecordingClock(model)
    engine = Engine(config, DryRunner(), clock)
    coming = sorted(requests, key=lambda request: request.arrival)
    submitted = 0
    while submitted < len(coming) or engine.busy:
        while submitted < len(coming) and coming[submitted].arrival <= clock.now():
            engine.add(coming[submitted])
            submitted += 1
        if engine.busy:
            engine.step()
        else:
            clock.wait_until(coming[submitted].arrival)
    times = Times(
        np.array([request.arrival for request in requests]),
        np.array([clock.first[request.id] for request in requests]),
        np.array([clock.last[request.id] for request in requests]),
        np.array([len(request.outputs) for request in requests]),
    )
    hits = sum(request.num_cached_tokens for request in requests)
    return Replay(times, hits, engine.scheduler.num_preemptions)


def fleet_requests(requests: list[Request], block_size: int) -> list[FleetRequest]:
    """The requests in order of arrival, their blocks by number: those of the answers, too, but for the last token."""
    numbers: dict[BlockHash, int] = {}
    found = []
    for place, request in enumerate(sorted(requests, key=lambda request: request.arrival)):
        assert request.prompt_ids is not None
        assert request.output_ids is not None
        tokens = np.concatenate([request.prompt_ids, np.array(request.output_ids[:-1], np.int32)])
        hashes = NATIVE.chain(tokens[: len(tokens) // block_size * block_size], block_size, None, None, None)
        blocks = [numbers.setdefault(block, len(numbers)) for block in hashes]
        prompt = request.num_prompt_tokens
        asked = (prompt - 1) // block_size
        found.append(FleetRequest(place, request.arrival, blocks, asked, prompt, len(request.output_ids)))
    return found


def by_replica(requests: list[Request], config: EngineConfig, model: LatencyModel) -> Replay:
    """The same through one replica of a fleet, which schedules synchronously and sums runs of steps."""
    asked = fleet_requests(requests, config.block_size)
    run = serve(asked, lambda number, ledger: Replica(number, config, model, ledger), 1, RoundRobinRouter())
    times = Times(run.arrival, run.first_token, run.finished, run.output_tokens)
    return Replay(times, int(run.hit_blocks.sum()) * config.block_size, run.preemptions)


def predict(folder: Path, recorded: Recorded, model: StepTimes | None = None) -> Replay:
    """By the latency model, or by another one."""
    requests = read_workload(folder, recorded.workload)
    return replay(requests, read_config(folder, recorded), model or recorded.latency())


def data_sheet(recorded: Recorded) -> DataSheet:
    return DataSheet(recorded.geometry, find_accelerator(recorded.accelerator), recorded.accelerators)


def main(folder: Path = DATA, checkout: Path | None = None) -> None:
    for needed in (folder, checkout):
        if needed is not None and not needed.is_dir():
            sys.exit(f"{needed}: not there; it has the recorded runs")
    constants = RUNS[0].latency()
    print(
        f"constants, fitted on neither run: bandwidth {constants.bandwidth_efficiency:.2f}, "
        f"{1e6 * constants.layer_overhead:.0f} µs a layer, {1e3 * constants.step_overhead:.2f} ms a step"
    )
    for recorded in RUNS:
        _print_run(folder, recorded, "in-sample")
        _print_replica(folder, recorded)
    if checkout is not None:
        _print_run(checkout, THIRD, "in-sample since its link was corrected")
        _print_first_look(checkout)


def _print_run(folder: Path, recorded: Recorded, sample: str) -> None:
    """Predictions and the data sheet against what was measured."""
    began = time.perf_counter()
    measured = read_measured(folder, recorded).metrics()
    predicted, naive = predict(folder, recorded), predict(folder, recorded, data_sheet(recorded))
    took = time.perf_counter() - began
    accelerator = find_accelerator(recorded.accelerator)
    cards = "" if recorded.accelerators == 1 else f"{recorded.accelerators} x "
    print(f"\n{cards}{accelerator.name}, compute {accelerator.compute_efficiency:.2f}: {accelerator.source}")
    print(f"  {recorded.model}, {sample}")
    print(f"  {'':10} {'vLLM':>10} {'predicted':>10} {'error':>8} {'data sheet':>11} {'error':>8}")
    ours, theirs = predicted.times.metrics(), naive.times.metrics()
    for name, value in measured.items():
        unit = "s" if name == "makespan" else "ms"
        print(
            f"  {name:10} {value:10,.1f} {ours[name]:10,.1f} {ours[name] / value - 1:+8.1%} "
            f"{theirs[name]:11,.1f} {theirs[name] / value - 1:+8.1%}  {unit}"
        )
    if recorded.simulated_hits is not None:
        print(f"  prefix hits {predicted.hits:,} tokens; LLMServingSim's simulator: {recorded.simulated_hits:,}")
        print(f"  preemptions {predicted.preemptions:,}; LLMServingSim's simulator: {recorded.simulated_preemptions:,}")
    print(f"  ({took:.1f} s for both replays)")


def _print_first_look(folder: Path) -> None:
    """The out-of-sample errors: those of the first look, with the link that was assumed then."""
    now = THIRD.latency()
    model = replace(now, accelerator=replace(now.accelerator, link=FIRST_LOOK / now.link_efficiency))
    measured, found = read_measured(folder, THIRD).metrics(), predict(folder, THIRD, model).times.metrics()
    errors = ", ".join(
        f"{name} {found[name]:,.1f} ms {found[name] / measured[name] - 1:+.1%}" for name in ("TTFT mean", "TPOT mean")
    )
    print(f"  out of sample, first look, {FIRST_LOOK / 1e9:.0f} GB/s: {errors}")


def _print_replica(folder: Path, recorded: Recorded) -> None:
    """A replica of a fleet beside the engine, which goes step by step."""
    model = recorded.latency()
    config = replace(read_config(folder, recorded), async_scheduling=False)
    for name, run in (("engine", replay), ("fleet's replica", by_replica)):
        requests = read_workload(folder)
        began = time.process_time()
        found = run(requests, config, model)
        took = time.process_time() - began
        told = found.times.metrics()
        print(
            f"  {name}, synchronous: TTFT {told['TTFT mean']:,.3f} ms, TPOT {told['TPOT mean']:,.3f} ms, "
            f"{found.hits:,} hit tokens, {found.preemptions:,} preemptions ({took:.2f} s of CPU)"
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
