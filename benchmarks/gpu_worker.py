"""The sections of `gpu.py`, run one after the other in this process; each leaves a JSON file, written anew as it gets on.

Started by `gpu.py`, which survives it. A fault on the device ends the process: the sections after it then get another one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

if "--smoke" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks when it is imported

import torch

from benchmarks.device import peers
from benchmarks.device.checks import Check, DeviceLostError
from benchmarks.device.decode import DecodePoint, decode_memory, measure_decode
from benchmarks.device.end_to_end import ThroughputResult, TtftResult, measure_throughput, measure_ttft
from benchmarks.device.prefill import PrefillPoint, measure_prefill
from benchmarks.device.writes import measure_norms, measure_rotary_store
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.presets import find_model
from kvtool.engine.model.decoder import Decoder
from kvtool.measure.bench.attention import AttentionShape, WriteResult, measure_store
from kvtool.measure.bench.this_machine import Ceilings, measure_ceilings
from kvtool.measure.bench.timing import Timing, free_memory, release, synchronize

ROOT = Path(__file__).resolve().parents[1]
DEVICE_LOST = 3
"""Exit code."""

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_GIB = 1 << 30


class Section:
    """What a section has found so far, and until when it may go on."""

    def __init__(self, file: Path, until: float, smoke: bool) -> None:
        self.smoke = smoke
        self.device = torch.device("cpu" if smoke else "cuda")
        self.until = until
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.problems: list[str] = []
        """Tracebacks of what was given up."""
        self._file = file
        self._began = time.time()

    @property
    def left(self) -> float:
        return self.until - time.time()

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        self.save("running")

    def save(self, status: str, error: str = "") -> None:
        found = {
            "status": status,
            "began": self._began,
            "until": self.until,
            "seconds": time.time() - self._began,
            "rows": self.rows,
            "notes": self.notes,
            **({"error": error} if error else {}),
        }
        write_json(self._file, found)

    def enough_time(self, items: list[Any], seconds: float) -> Iterator[Any]:
        """The items, as long as there are `seconds` for another one; a note says how many there were not."""
        for index, item in enumerate(items):
            if self.left < seconds:
                what = item[0] if isinstance(item, tuple) and isinstance(item[0], str) else item
                self.notes.append(f"no time for {len(items) - index} of {len(items)}: {what} and what follows")
                return
            yield item

    @contextlib.contextmanager
    def trying(self, what: object) -> Iterator[None]:
        """Goes on if it fails; DeviceLostError where nothing could."""
        try:
            yield
        except DeviceLostError:
            raise
        except Exception as error:
            first = (str(error).strip() or "-").splitlines()[0]
            self.notes.append(f"{what}: {type(error).__name__}: {first}"[:300])
            self.problems.append(traceback.format_exc()[-3000:])
            self.save("running")
        release(self.device)
        try:
            synchronize(self.device)
        except RuntimeError as lost:
            raise DeviceLostError(f"{what}: {lost}") from lost

    @cached_property
    def ceilings(self) -> Ceilings:
        """Of this run; measured here where no section did."""
        file = self._file.with_name("ceilings.json")
        with contextlib.suppress(OSError, ValueError, LookupError):
            row = json.loads(file.read_text())["rows"][0]
            return Ceilings(row["copy_bytes_per_s"], row["matmul_flops_per_s"])
        return measure_ceilings(self.device, small=self.smoke, seconds=0.0 if self.smoke else 0.2)

    @cached_property
    def kernels(self) -> Any:
        from kvtool.kernels.gpu import triton_kernels

        return triton_kernels

    @property
    def seconds(self) -> float:
        """For one measurement."""
        return 0.0 if self.smoke else 0.1


def plain(value: Any) -> Any:
    """For JSON, which has neither types of torch nor NaN."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def write_json(file: Path, value: Any) -> None:
    """Whole or not at all; processes beside this one may write the same file."""
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(plain(value)), encoding="utf-8")
    part.replace(file)


# ------------------------------------------------------------------------------------------------------------------ correctness


def keep(section: Section, checks: Iterable[Check]) -> None:
    """Until there is no more time."""
    try:
        for check in checks:
            section.add(**plain(check), ok=check.ok)
            if section.left < 0:
                section.notes.append("no time for further cases")
                return
    except DeviceLostError as error:
        section.notes.append(str(error))
        raise


def extent(section: Section) -> Any:
    from benchmarks.device.check_attention import SMALL, Extent

    return SMALL if section.smoke else Extent()


def types(section: Section) -> list[torch.dtype]:
    """The interpreter computes bf16 wrong."""
    return [torch.float16, torch.float32] if section.smoke else list(TYPES.values())


def check_elementwise(section: Section) -> None:
    from benchmarks.device.check_elementwise import elementwise_checks

    for dtype in types(section):
        keep(section, elementwise_checks(section.kernels, dtype, extent(section), section.device))


def check_store(section: Section) -> None:
    from benchmarks.device.check_elementwise import store_checks

    for dtype in types(section):
        keep(section, store_checks(section.kernels, dtype, extent(section), section.device))


def check_decode(name: str) -> Callable[[Section], None]:
    def check(section: Section) -> None:
        from benchmarks.device.check_attention import decode_checks

        keep(section, decode_checks(section.kernels, TYPES[name], extent(section), section.device))

    return check


def check_prefill(name: str) -> Callable[[Section], None]:
    def check(section: Section) -> None:
        from benchmarks.device.check_attention import prefill_checks

        keep(section, prefill_checks(section.kernels, TYPES[name], extent(section), section.device))

    return check


def check_engine(section: Section) -> None:
    from benchmarks.device.check_engine import engine_checks

    kernels = section.kernels if section.smoke else None
    keep(section, engine_checks(section.device, small=section.smoke, kernels=kernels))


# ----------------------------------------------------------------------------------------------------------------------- timing


def ceilings(section: Section) -> None:
    found = measure_ceilings(section.device, small=section.smoke, seconds=0.0 if section.smoke else 0.5)
    section.add(**plain(found))


def shape(section: Section, **changes: Any) -> AttentionShape:
    base = AttentionShape(4, 1, 32, 16, torch.float32) if section.smoke else AttentionShape()
    return dataclasses.replace(base, **changes)


def answers(found: dict[str, peers.Answer]) -> dict[str, Any]:
    """Seconds, or why there are none."""
    return {name: answer.seconds if isinstance(answer, Timing) else answer for name, answer in found.items()}


def decode_row(section: Section, point: DecodePoint, at: AttentionShape) -> dict[str, Any]:
    result = measure_decode(
        point,
        at,
        section.ceilings,
        section.kernels,
        section.device,
        seconds=section.seconds,
        most_layers=1 if section.smoke else 32,
    )
    return {
        **plain(point),
        "kv_bytes": point.batch * point.context * at.kv_bytes_per_token,
        "floor": result.floor,
        "seconds": {mode: timing.seconds for mode, timing in result.timings.items()},
        "timings": plain(result.timings),
        "tokens_read": result.tokens_read,
        "plan_seconds": result.plan_seconds,
        "layers": result.layers,
        "speedup": result.speedup,
        "auto_over_best": result.auto_over_best,
    }


def decode(section: Section) -> None:
    """Batch x context x share; peers once for each batch and context, since sharing is nothing to them."""
    at = shape(section)
    sizes = [(3, 80)] if section.smoke else [(b, c << 10) for c in (1, 4, 16, 64) for b in (64, 32, 128)]
    for batch, context in section.enough_time(sizes, 6.0):
        found: dict[str, Any] = {}
        for share in (0.0, 0.8) if section.smoke else (0.0, 0.5, 0.95):
            point = DecodePoint.sharing(batch, context, share, at.block_size)
            if decode_memory(point, at) > 0.85 * free_memory(section.device):
                section.notes.append(f"no memory for {batch} x {context} with {share:.0%} shared")
                continue
            with section.trying(point):
                row = decode_row(section, point, at)
                section.add(share=share, **row, peers=found)
            if not share and not section.smoke and section.left > 2:
                with section.trying(f"SDPA, {point}"):
                    found |= answers(peers.sdpa_decode(point, at, section.device))  # of the row above, too


def chunk_attention(section: Section) -> None:
    """Where ChunkAttention's paper reports 3.2 to 4.8 times: 32 K/V heads of 128, fp16, a batch of 32 with little of its own."""
    small = {"heads": 2, "kv_heads": 2, "dtype": torch.float16}
    at = shape(section, **small if section.smoke else {"kv_heads": 32, "dtype": torch.float16})
    for shared in section.enough_time([32] if section.smoke else [1024, 2048, 4096], 3.0):
        point = DecodePoint(2 if section.smoke else 32, shared + (16 if section.smoke else 64), shared)
        with section.trying(point):
            section.add(**decode_row(section, point, at))


def prefill(section: Section) -> None:
    at = shape(section)
    points = [PrefillPoint(new << 10) for new in (8, 2, 4, 16, 32)]
    points += [PrefillPoint(2048, 14 << 10), PrefillPoint(512, 32 << 10), PrefillPoint(30, 6000)]
    if section.smoke:
        points = [PrefillPoint(40), PrefillPoint(5, 64)]
    for point in section.enough_time(points, 3.0):
        found: dict[str, Any] = {}
        with section.trying(point):
            result = measure_prefill(
                point,
                at,
                section.ceilings,
                section.kernels,
                section.device,
                seconds=section.seconds,
                most_layers=1 if section.smoke else 8,
            )
            section.add(
                **plain(point),
                floor=result.floor,
                flops=result.flops,
                seconds=result.timing.seconds,
                timing=plain(result.timing),
                flops_per_s=result.flops_per_s,
                peers=found,
            )
        if not section.smoke and section.left > 2:
            with section.trying(f"SDPA, {point}"):
                found |= answers(peers.sdpa_prefill(point, at, section.device))


def writes(section: Section) -> None:
    """store_kv into every type of cache, its fusion with the rotation, and the norms."""

    how: dict[str, Any] = {"seconds": section.seconds, "most_layers": 1 if section.smoke else 32}
    floors, device, kernels = section.ceilings, section.device, section.kernels
    many, few = (8, 2) if section.smoke else (8192, 64)
    hidden, inner = (64, 96) if section.smoke else (4096, 14_336)
    kept = [None, torch.int8] if section.smoke else [None, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8]
    caches = [shape(section, cache_dtype=cache) for cache in kept]
    jobs: list[tuple[str, Callable[[], WriteResult | list[WriteResult]]]] = [
        (f"store_kv, {at.kept}", partial(measure_store, kernels, at, many, floors, device, **how)) for at in caches
    ]
    for at, count in [*((at, many) for at in caches), (caches[0], few)]:
        run = partial(measure_rotary_store, kernels, at, count, floors, device, **how)
        jobs.append((f"rotary_store_kv, {at.kept}, {count} tokens", run))
    for count in (many, few):
        norms = partial(measure_norms, kernels, caches[0].dtype, count, hidden, inner, floors, device, **how)
        jobs.append((f"norms and swiglu, {count} tokens", norms))
    for name, job in section.enough_time(jobs, 2.0):
        with section.trying(name):
            found = job()
            for result in found if isinstance(found, list) else [found]:
                section.add(**plain(result))


def model_config(section: Section) -> ModelConfig:
    """The largest of two geometries that the device has room for."""
    if section.smoke:
        return ModelConfig(
            256, 64, 96, 2, num_attention_heads=4, num_key_value_heads=1, head_dim=16, max_position_embeddings=4096
        )
    large = free_memory(section.device) > 70 * _GIB
    if not large:
        section.notes.append("too little memory for Llama-3.1-8B and its caches: Llama-3.2-1B instead")
    return find_model("llama-3.1-8b" if large else "llama-3.2-1b")


def end_to_end(section: Section) -> None:
    """Time to the first token, cold and warm, and decode of a batch, with random weights."""
    config = model_config(section)
    dtype = torch.float32 if section.smoke else torch.bfloat16
    began = time.time()
    model = Decoder.random(config, 0, device=section.device, dtype=dtype)
    section.add(
        kind="model", model=config.name, dtype=str(dtype), kernels=model.kernels.NAME, seconds=time.time() - began
    )
    until = time.monotonic() + section.left / 3
    small = {"document": 48, "question": 5, "documents": 1} if section.smoke else {}
    with section.trying("time to the first token"):
        section.add(**ttft_row(measure_ttft(model, until=until, **small)))
    runs = [(64, 1024, 0, "auto"), (64, 1024, 0, "flat"), (64, 4096, 3888, "prefix-aware"), (64, 4096, 3888, "flat")]
    runs += [
        (64, 4096, 3888, "auto"),
        (64, 1024, 960, "flat"),
        (64, 1024, 960, "prefix-aware"),
        (64, 1024, 960, "auto"),
    ]
    if section.smoke:
        runs = [(3, 64, 32, "flat"), (3, 64, 32, "prefix-aware")]
    for batch, context, shared, mode in section.enough_time(runs, 8.0):
        with section.trying(f"{batch} x {context}, {shared} shared, {mode}"):
            result = measure_throughput(
                model, batch=batch, context=context, shared=shared, mode=mode, steps=2 if section.smoke else 48
            )
            section.add(**throughput_row(result))


def ttft_row(found: TtftResult) -> dict[str, Any]:
    medians = {"cold_median": found.cold_median, "warm_median": found.warm_median, "share": found.warm_share}
    return {"kind": "ttft", **plain(found), **medians}


def throughput_row(found: ThroughputResult) -> dict[str, Any]:
    return {"kind": "decode", **plain(found), "tpot": found.tpot, "tokens_per_second": found.tokens_per_second}


def transformers(section: Section) -> None:
    """The same model and prompts through transformers' continuous batching."""
    from benchmarks.device.peer_transformers import TransformersPeer

    config = model_config(section)
    batch, context = (3, 128) if section.smoke else (64, 1024)
    document, question = (96, 5) if section.smoke else (6000, 30)
    dtype = torch.float32 if section.smoke else torch.bfloat16
    peer = TransformersPeer(config, section.device, dtype, most_tokens=batch * (context + 128) * 2, batch=batch)
    try:
        peer.warm_up(batch=batch, context=context)
        with section.trying("time to the first token"):
            documents = 1 if section.smoke else 2
            section.add(**ttft_row(peer.ttft(document=document, question=question, documents=documents)))
        with section.trying("decode"):
            steps = 4 if section.smoke else 24
            section.add(**throughput_row(peer.throughput(batch=batch, context=context, steps=steps)))
    finally:
        peer.close()


def slow_peer(name: str) -> Callable[[Section], None]:
    """One that compiles for long: a few points only."""

    def measured(section: Section) -> None:
        at = shape(section)
        points: list[DecodePoint | PrefillPoint] = [
            DecodePoint(64, 4096),
            PrefillPoint(8192),
            PrefillPoint(512, 32 << 10),
        ]
        for point in section.enough_time(points, 5.0):
            ask = peers.DECODE[name] if isinstance(point, DecodePoint) else peers.PREFILL[name]
            answer = peers.answered(partial(ask, point, at, section.device))
            section.add(peer=name, point=plain(point), answer=answers({name: answer})[name])
            release(section.device)

    return measured


SECTIONS: dict[str, Callable[[Section], None]] = {
    "check-elementwise": check_elementwise,
    "check-store": check_store,
    **{f"check-decode-{name}": check_decode(name) for name in TYPES},
    **{f"check-prefill-{name}": check_prefill(name) for name in TYPES},
    "check-engine": check_engine,
    "ceilings": ceilings,
    "decode": decode,
    "end-to-end": end_to_end,
    "prefill": prefill,
    "chunk-attention": chunk_attention,
    "writes": writes,
    "transformers": transformers,
    "flex": slow_peer("flex_attention"),
    "flashinfer": slow_peer("FlashInfer"),
}


def machine(device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {"device": "cpu", "torch": torch.__version__, "python": platform.python_version()}
    with contextlib.suppress(ImportError):
        import triton

        found["triton"] = triton.__version__
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "device": torch.cuda.get_device_name(device),
            "capability": list(torch.cuda.get_device_capability(device)),
            "cuda": torch.version.cuda,
            "processors": properties.multi_processor_count,
            "memory": properties.total_memory,
            "l2": getattr(properties, "L2_cache_size", None),
        }
    return found


def corrections() -> contextlib.AbstractContextManager[None]:
    """What the tests put right in Triton's interpreter: some loops fail in it with newer numpy versions."""
    spec = importlib.util.spec_from_file_location("interpreter", ROOT / "tests" / "kernels" / "interpreter.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["interpreter"] = module
    spec.loader.exec_module(module)
    found: contextlib.AbstractContextManager[None] = module.corrected()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for the sections' files")
    parser.add_argument("--sections", required=True, help="name=seconds at most=seconds at least, separated by commas")
    parser.add_argument("--until", type=float, required=True, help="when all must be done, in seconds since the epoch")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    device = torch.device("cpu" if options.smoke else "cuda")
    if not options.smoke and not torch.cuda.is_available():
        write_json(options.work / "machine.json", {"device": None})
        return
    torch.manual_seed(time.time_ns() % (1 << 31))  # fresh numbers in every run
    torch.backends.cuda.matmul.allow_tf32 = False
    write_json(options.work / "machine.json", machine(device))
    with corrections() if options.smoke else contextlib.nullcontext():
        for item in options.sections.split(","):
            name, most, least = item.split("=")
            run(name, min(options.until, time.time() + float(most)), float(least), options)


def run(name: str, until: float, least: float, options: argparse.Namespace) -> None:
    section = Section(options.work / f"{name}.json", until, options.smoke)
    if section.left < least:
        section.notes.append("no time")
        section.save("skipped")
        return
    section.save("running")
    try:
        SECTIONS[name](section)
        failed = any(not row.get("ok", True) for row in section.rows)
        section.save("error" if section.problems else "failed" if failed else "ok", "\n".join(section.problems))
    except Exception as error:
        traceback.print_exc()
        section.save("error", "\n".join([*section.problems, traceback.format_exc()[-6000:]]))
        if isinstance(error, DeviceLostError):
            os._exit(DEVICE_LOST)
        if not options.smoke:
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                os._exit(DEVICE_LOST)
    if not options.smoke:
        release(section.device)


if __name__ == "__main__":
    main()
