"""How long calls take on a device: CUDA graphs timed with events, or a host clock on the CPU."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from kvtool.engine.model import weights
from kvtool.engine.no_garbage_collection import uncollected

Call = Callable[[], object]

_LEAST_REPLAY_S = 2e-3  # a replay is timed between two events, and starting it takes some microseconds
_MOST_CALLS = 1024  # captured in one graph
_ROUNDS = (7, 400)  # at least and at most


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: median, least and most over `rounds`, in each of which every call ran."""

    seconds: float
    fastest: float
    slowest: float
    rounds: int
    graph: bool
    """Whether the calls were replayed from a CUDA graph, so that no launch by the host is in the figure."""

    @classmethod
    def of(cls, times: Sequence[float], *, graph: bool) -> Timing:
        return cls(statistics.median(times), min(times), max(times), len(times), graph)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release(device: torch.device) -> None:
    """Give back the memory of what is no longer used; to call between measurements that take much of it."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def l2_bytes(device: torch.device) -> int:
    """Return the size of the device's last cache; a guess where it does not report one."""
    if device.type != "cuda":
        return 1 << 20
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20


def layers_to_rotate(bytes_per_layer: int, device: torch.device, memory: int | None = None, most: int = 32) -> int:
    """Return how many layers' data to go through in turn, so that the L2 cache holds little of a layer when its turn comes again.

    At least 4, more where they are small, up to the `most` that a model has; never more than fit into `memory` bytes, but one.
    """
    enough = -(-4 * l2_bytes(device) // max(bytes_per_layer, 1))
    wanted = min(max(enough, 4), most)
    if memory is not None:
        wanted = min(wanted, memory // max(bytes_per_layer, 1))
    return max(wanted, 1)


def free_memory(device: torch.device) -> int:
    """Return bytes that a measurement may take: all that are free on a GPU, little of a computer that others use as well."""
    return weights.free_memory(device) if device.type == "cuda" else 1 << 30


def measure(calls: Sequence[Call], device: torch.device, *, seconds: float = 0.15) -> Timing:
    """Time of one of `calls`, which run in turn (one for each layer, say), after warm-up runs that are not counted.

    On CUDA they are captured into one graph, repeated in it until a replay is long beside its start, and replays are timed with
    events for about `seconds`. Where the calls cannot be captured, they are launched one by one.
    On the CPU a host clock times rounds of the calls; `seconds` of 0 is a single round and no warm-up.
    """
    if device.type != "cuda":
        return _on_host(calls, device, seconds)
    for _ in range(2):
        for call in calls:
            call()
    torch.cuda.synchronize(device)
    replay, captured, copies = _repeated(calls, 1), False, 1
    recorded: Call | None = None
    seen = _between_events(replay)
    for _ in range(2):  # a graph is quicker than the launches that the first guess is from
        copies = max(copies, min(round(copies * _LEAST_REPLAY_S / max(seen, 1e-6)), _MOST_CALLS // len(calls)))
        replay = _repeated(calls, copies)
        recorded = (
            None  # given up before there is another one: torch may free cuBLAS's workspace, which both have, with it
        )
        recorded = _captured(replay)
        captured = recorded is not None
        replay = recorded or replay
        replay()
        seen = _between_events(replay)
        if seen > _LEAST_REPLAY_S / 2 or not captured:
            break
    rounds = int(min(max(seconds / max(seen, 1e-6), _ROUNDS[0]), _ROUNDS[1]))
    each = len(calls) * copies
    return Timing.of([_between_events(replay) / each for _ in range(rounds)], graph=captured)


def _repeated(calls: Sequence[Call], times: int) -> Call:
    def run() -> None:
        for _ in range(times):
            for call in calls:
                call()

    return run


def _between_events(run: Call) -> float:
    """Return seconds of device time."""
    # torch's own classes of events have no types.
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    began.record()
    run()
    ended.record()
    ended.synchronize()
    return cast("float", began.elapsed_time(ended)) / 1e3


def _captured(run: Call) -> Call | None:
    """Return what replays the launches of `run`; None where some of it cannot be captured."""
    recorded = torch.cuda.CUDAGraph()
    try:
        with uncollected(), torch.cuda.graph(recorded):
            run()
    except RuntimeError:
        torch.cuda.synchronize()  # raises again where the device, not the capture, has failed
        return None
    return recorded.replay


def _on_host(calls: Sequence[Call], device: torch.device, seconds: float) -> Timing:
    def time_round() -> float:
        began = time.perf_counter()
        for call in calls:
            call()
        synchronize(device)
        return (time.perf_counter() - began) / len(calls)

    if seconds > 0:
        time_round()
    times = [time_round()]
    until = time.perf_counter() + seconds - times[0] * len(calls)
    while time.perf_counter() < until and len(times) < _ROUNDS[1]:
        times.append(time_round())
    return Timing.of(times, graph=False)


def host_seconds(run: Call, device: torch.device) -> float:
    """Return seconds on the host's clock until the device has done what one call of `run` gives it."""
    synchronize(device)
    began = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - began
