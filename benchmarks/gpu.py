"""Checks and times the engine on a GPU: ceilings of the machine, the same logits as on the CPU, TTFT with the cache cold and warm.

The engine runs the torch twins of the kernels. `benchmarks/gpu.sh` starts this.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model import Decoder
from kvtool.engine.model_config import ModelConfig
from kvtool.engine.model_runner import ModelRunner
from kvtool.engine.request import Request

VOCABULARY = 32_000


def seconds(run: Callable[[], object], device: torch.device, repeats: int = 10) -> float:
    """Median seconds of a call, after three that are not counted."""

    def once() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for _ in range(3):
        once()
    return statistics.median(once() for _ in range(repeats))


def ceilings(device: torch.device, smoke: bool) -> dict[str, float]:
    """What the machine can do: copied bytes and bf16 matrix FLOPs per second."""
    size = (1 << 20) if smoke else (1 << 30)
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    side = 256 if smoke else 8192
    matrix = torch.randn(side, side, dtype=torch.bfloat16, device=device)
    return {
        "copy_bytes_per_s": 2 * size / seconds(lambda: target.copy_(source), device),
        "matmul_flops_per_s": 2 * side**3 / seconds(lambda: matrix @ matrix, device),
    }


def first_logits(model: Decoder, prompts: list[np.ndarray], prefix_caching: bool) -> list[torch.Tensor]:
    """The logits of each prompt's first token, the prompts one after the other through one cache."""
    seen: list[torch.Tensor] = []
    runner = ModelRunner(model, 16, on_logits=lambda _, logits: seen.append(logits.float().cpu()))
    engine = Engine(EngineConfig(enable_prefix_caching=prefix_caching, max_num_batched_tokens=384), runner, WallClock())
    for index, ids in enumerate(prompts):
        engine.add(Request(str(index), len(ids), prompt_ids=ids, max_tokens=1))
        while engine.busy:
            engine.step()
    return seen


def correctness(device: torch.device, smoke: bool) -> dict[str, float]:
    """Largest difference of logits: this device against the CPU, and reused blocks against computed ones."""
    rng = np.random.default_rng(0)
    shared = rng.integers(0, VOCABULARY, 64 if smoke else 1000, dtype=np.int32)
    prompts = [np.concatenate([shared, rng.integers(0, VOCABULARY, 40, dtype=np.int32)]) for _ in range(4)]
    config = ModelConfig.tiny(VOCABULARY)
    here, there = (Decoder.random(config, seed=0, device=where) for where in (device, "cpu"))
    cached, uncached = first_logits(here, prompts, True), first_logits(here, prompts, False)
    reference = first_logits(there, prompts, True)
    return {
        "max_difference_to_cpu": max(float((a - b).abs().max()) for a, b in zip(cached, reference, strict=True)),
        "max_difference_cached_to_uncached": max(
            float((a - b).abs().max()) for a, b in zip(cached, uncached, strict=True)
        ),
    }


def ttft(device: torch.device, smoke: bool) -> dict[str, float]:
    """Seconds to the first token of a question behind a document, with the document new and with it cached."""
    rng = np.random.default_rng(1)
    model = Decoder.random(ModelConfig.tiny(VOCABULARY), seed=0, device=device)
    document = 256 if smoke else 6000
    engine = Engine(EngineConfig(), ModelRunner(model, 16), WallClock())
    cold: list[float] = []
    warm: list[float] = []
    for index in range(3 if smoke else 12):
        shared = rng.integers(0, VOCABULARY, document, dtype=np.int32)
        for times in (cold, warm):
            ids = np.concatenate([shared, rng.integers(0, VOCABULARY, 30, dtype=np.int32)])
            request = Request(f"{index}", len(ids), prompt_ids=ids, output_ids=[0])
            began = time.perf_counter()
            engine.add(request)
            while engine.busy:
                engine.step()
            times.append(time.perf_counter() - began)
    return {"cold_p50_s": statistics.median(cold[1:]), "warm_p50_s": statistics.median(warm[1:])}


def main() -> None:
    smoke = "--smoke" in sys.argv[1:]
    if not smoke and not torch.cuda.is_available():
        sys.exit("no GPU here: benchmarks/gpu.sh --smoke tries the program on the CPU")
    device = torch.device("cpu" if smoke else "cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    result: dict[str, object] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu (smoke)",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "ceilings": ceilings(device, smoke),
        "correctness": correctness(device, smoke),
        "ttft_tiny_model": ttft(device, smoke),
    }
    text = json.dumps(result, indent=2)
    print(text)
    worst = max(result["correctness"].values())  # type: ignore[attr-defined]  # a dict, as built above
    if not smoke:
        folder = Path(__file__).parent / "results"
        folder.mkdir(exist_ok=True)
        name = str(result["device"]).lower().replace(" ", "-")
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    if worst > 1e-3:
        sys.exit(f"logits differ by {worst}")


if __name__ == "__main__":
    main()
