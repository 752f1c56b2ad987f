"""Compile every Triton kernel to machine code, without a GPU, and print what it needs: registers, shared memory, instructions.

    python tests/kernels/compile_gate.py [--target sm_90] [--only paged_prefill] [--covering] [--json]

The launchers in kernels/gpu run as they are, on CPU tensors, under a stand-in driver that says it is the target; each kernel is
compiled for the very arguments that they pass, and is not started. A process of its own, without TRITON_INTERPRET: whether a kernel
is compiled or interpreted is decided where it is defined. Triton keeps what it compiled ($TRITON_CACHE_DIR): only what changed is
compiled again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

CANNOT_RUN = 77
"""The exit code where there is no Triton, or not its tools; stderr has the reason."""

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2, INT8 = torch.float8_e4m3fn, torch.float8_e5m2, torch.int8
_NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32", E4M3: "e4m3", E5M2: "e5m2", INT8: "int8"}

TARGETS: dict[str, tuple[str, int | str, int]] = {  # as Triton names them: backend, architecture, threads of a warp
    "sm_80": ("cuda", 80, 32),
    "sm_89": ("cuda", 89, 32),
    "sm_90": ("cuda", 90, 32),
    "gfx942": ("hip", "gfx942", 64),
}
_COUNTED = ("HGMMA", "HMMA", "LDGSTS", "UTMALDG", "LDG.E.128", "STG.E.128", "LDL", "STL")


# ---------------------------------------------------------------------------------------------------------------- what is compiled


@dataclass(frozen=True)
class Variant:
    """One call of a launcher."""

    kernel: str
    q: torch.dtype = BF16
    cache: torch.dtype = BF16
    dim: int = 128
    group: int = 4
    rows: int = 0  # decode: queries of an item x heads of a group
    more: bool = False  # norm of q and k in rotary_store_kv, the sum in rms_norm

    @property
    def name(self) -> str:
        words = [_NAMES[self.q]]
        if self.kernel in _PAGED:
            words += [f"{_NAMES[self.cache]} cache", f"D={self.dim}"]
        if self.kernel.startswith("paged"):
            words.append(f"group {self.group}")
        if self.rows:
            words.append(f"{self.rows} rows")
        if self.more:
            words.append("with norm" if self.kernel == "rotary_store_kv" else "with sum")
        return ", ".join(words)


_PAGED = ("paged_prefill", "paged_decode", "store_kv", "rotary_store_kv")
_PREFILL, _DECODE = partial(Variant, "paged_prefill"), partial(Variant, "paged_decode")
_STORE, _ROTARY_STORE = partial(Variant, "store_kv"), partial(Variant, "rotary_store_kv")

_FIRST = [  # for every target
    _PREFILL(),
    _DECODE(rows=16),
    _DECODE(rows=128),
    _ROTARY_STORE(),
    _STORE(),
    Variant("merge_states"),
    Variant("rms_norm"),
    Variant("rms_norm", more=True),
    Variant("rotary"),
    Variant("swiglu"),
]
_QUANTIZED = [
    _PREFILL(cache=INT8),
    _DECODE(cache=INT8, rows=16),
    _DECODE(cache=INT8, rows=64),
    _ROTARY_STORE(cache=INT8),
    _PREFILL(cache=E5M2),
    _DECODE(cache=E5M2, rows=16),
    _STORE(cache=E5M2),
]
_E4M3 = [_PREFILL(cache=E4M3), _DECODE(cache=E4M3, rows=16), _DECODE(cache=E4M3, rows=64), _ROTARY_STORE(cache=E4M3)]
_FP32 = [_PREFILL(q=FP32, cache=FP32), _DECODE(q=FP32, cache=FP32, rows=16)]
_SHAPES = [
    _PREFILL(q=FP16, cache=FP16),
    _DECODE(q=FP32, cache=FP32, rows=64),
    _PREFILL(dim=64, group=7),  # Qwen2.5-0.5B
    _DECODE(dim=64, group=7, rows=7),
    _PREFILL(dim=80, group=1),
    _DECODE(dim=80, group=1, rows=1),
    _STORE(cache=INT8),
    _ROTARY_STORE(dim=64, more=True),
    _ROTARY_STORE(dim=80),
    _ROTARY_STORE(q=FP32, cache=FP32, more=True),
]
VARIANTS = {
    "sm_80": [*_FIRST, _DECODE(rows=64), *_QUANTIZED, *_FP32],
    "sm_89": [*_E4M3],
    "sm_90": [*_FIRST, _DECODE(rows=64), *_QUANTIZED, *_E4M3, *_FP32, *_SHAPES],
    "gfx942": _FIRST,
}
_SMALL = [variant for variant in _FIRST if not variant.kernel.startswith("paged_")]
COVERING = {  # every kernel and type of cache at least once
    "sm_80": [_PREFILL(cache=INT8)],
    "sm_89": [_DECODE(cache=E4M3, rows=64)],
    "sm_90": [
        _PREFILL(q=FP16, cache=FP16),
        _DECODE(rows=128),
        _ROTARY_STORE(q=FP32, cache=FP32, more=True),
        _ROTARY_STORE(dim=64, more=True),
        _STORE(cache=E5M2),
        *_SMALL,
    ],
    "gfx942": [_PREFILL(), *_SMALL],
}


def _launch(variant: Variant) -> None:
    """Call the kernel's launcher; sizes that vary from step to step are such that no kernel can be made for them alone."""
    launcher = getattr(importlib.import_module(f"kvtool.kernels.gpu.{variant.kernel}"), variant.kernel)
    _CALLS[variant.kernel](launcher, variant)


_KV_HEADS, _PAGE, _BLOCKS, _TOKENS = 8, 16, 40, 37


def _caches(variant: Variant) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[Any, Any]]:
    """Two caches and their scales: int8's belong to tokens and heads."""
    shape = (_BLOCKS, _KV_HEADS, _PAGE, variant.dim)
    caches = torch.zeros(shape, dtype=variant.cache), torch.zeros(shape, dtype=variant.cache)
    return caches, (torch.ones(shape[:3]), torch.ones(shape[:3])) if variant.cache == INT8 else (1.0, 1.0)


def _queries(variant: Variant) -> torch.Tensor:
    return torch.zeros(_TOKENS, _KV_HEADS * variant.group, variant.dim, dtype=variant.q)


def _partials(variant: Variant) -> tuple[torch.Tensor, torch.Tensor]:
    heads = _KV_HEADS * variant.group
    return torch.zeros(_TOKENS, heads, variant.dim), torch.zeros(_TOKENS, heads)


def _i32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def _paged_prefill(launcher: Callable[..., Any], variant: Variant) -> None:
    (k, v), (k_scale, v_scale) = _caches(variant)
    q = _queries(variant)
    prefill_queries = importlib.import_module("kvtool.kernels.gpu.paged_prefill").prefill_queries
    count = prefill_queries(variant.q, variant.group, variant.dim, variant.cache)
    table = torch.arange(6, dtype=torch.int32)[None].repeat(2, 1)
    tiles = _i32(0, 0, 0, 20, -1, 1, 0, 0, 90, 0).view(2, 5)
    lengths = (_i32(0, 20, _TOKENS), _i32(20, 90))
    launcher(
        q,
        k,
        v,
        table,
        *lengths,
        tiles,
        count,
        torch.zeros_like(q),
        *_partials(variant),
        k_scale=k_scale,
        v_scale=v_scale,
    )


def _paged_decode(launcher: Callable[..., Any], variant: Variant) -> None:
    (k, v), (k_scale, v_scale) = _caches(variant)
    most = max(1, variant.rows // variant.group)
    items = _i32(0, most, 0, 90, most, 1, 6, 20).view(2, 4)
    queries = torch.arange(most + 1, dtype=torch.int32) % _TOKENS
    q = _queries(variant)
    partial_out, partial_lse = (torch.cat([x] * 4) for x in _partials(variant))
    blocks = torch.arange(8, dtype=torch.int32)
    launcher(q, k, v, items, queries, blocks, most, partial_out, partial_lse, k_scale=k_scale, v_scale=v_scale)


def _store_kv(launcher: Callable[..., Any], variant: Variant) -> None:
    caches, scales = _caches(variant)
    qkv = torch.zeros(_TOKENS, _KV_HEADS * (variant.group + 2), variant.dim, dtype=variant.q)
    k, v = qkv[:, -2 * _KV_HEADS : -_KV_HEADS], qkv[:, -_KV_HEADS:]
    launcher(k, v, *caches, torch.arange(_TOKENS), *scales)


def _angles(variant: Variant) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(_TOKENS, 1, variant.dim, dtype=variant.q), torch.zeros(_TOKENS, 1, variant.dim, dtype=variant.q)


def _rotary_store_kv(launcher: Callable[..., Any], variant: Variant) -> None:
    caches, scales = _caches(variant)
    heads = _KV_HEADS * (variant.group + 2)
    qkv = torch.zeros(_TOKENS, heads, variant.dim, dtype=variant.q)
    norm = torch.zeros(heads - _KV_HEADS, variant.dim, dtype=variant.q) if variant.more else None
    launcher(qkv, *_angles(variant), *caches, torch.arange(_TOKENS), *scales, qk_norm=norm, eps=1e-6)


def _merge_states(launcher: Callable[..., Any], variant: Variant) -> None:
    out = _queries(variant)
    launcher(*_partials(variant), _i32(0, 2, 5), _i32(0, 1, 2, 3, 4), _i32(0, 1), out)


def _rms_norm(launcher: Callable[..., Any], variant: Variant) -> None:
    x, weight = torch.zeros(_TOKENS, 4096, dtype=variant.q), torch.zeros(4096, dtype=variant.q)
    if variant.more:
        importlib.import_module(launcher.__module__).add_rms_norm(x, torch.zeros_like(x), weight, 1e-6)
    else:
        launcher(x, weight, 1e-6)


def _rotary(launcher: Callable[..., Any], variant: Variant) -> None:
    launcher(_queries(variant), *_angles(variant))


def _swiglu(launcher: Callable[..., Any], variant: Variant) -> None:
    launcher(torch.zeros(_TOKENS, 2 * 14_336, dtype=variant.q))


_CALLS: dict[str, Callable[[Callable[..., Any], Variant], None]] = {
    "paged_prefill": _paged_prefill,
    "paged_decode": _paged_decode,
    "store_kv": _store_kv,
    "rotary_store_kv": _rotary_store_kv,
    "merge_states": _merge_states,
    "rms_norm": _rms_norm,
    "rotary": _rotary,
    "swiglu": _swiglu,
}


# ---------------------------------------------------------------------------------------------------------------- how


@dataclass
class Compiled:
    """What a kernel needs on a target; `error` says why there is none."""

    target: str
    launcher: str
    variant: str
    kernel: str = ""  # of Triton, by its own name
    warps: int = 0
    registers: int = 0  # of a thread
    stack: int = 0  # bytes of a thread
    spills: int = 0  # instructions that spill registers or fetch them back
    shared: int = 0  # bytes of a program
    instructions: dict[str, int] = field(default_factory=dict)  # how many there are of those that are counted
    error: str = ""


class _StandInDriver:
    """A device that nothing can run on, but that kernels are compiled for."""

    def __init__(self, target: Any, number: int) -> None:
        self._target, self._number = target, number

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return self._number  # each target's own: Triton remembers kernels by device, not by target

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


@contextlib.contextmanager
def _compiling_for(target: str) -> Iterator[list[Any]]:
    """Launches are compiled and not started; yields the compiled kernels, one for each launch."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    compiled: list[Any] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled.append(run(self, *args, grid=grid, warmup=True, **kwargs))
        return compiled[-1]

    stand_in = _StandInDriver(GPUTarget(*TARGETS[target]), list(TARGETS).index(target))
    with patch.object(driver, "_active", stand_in), patch.object(JITFunction, "run", compile_only):
        yield compiled


def compile_variant(target: str, variant: Variant) -> list[Compiled]:
    """The kernels that one call launches."""
    found = partial(Compiled, target, variant.kernel, variant.name)
    try:
        with _compiling_for(target) as kernels:
            _launch(variant)
        if not kernels:
            return [found(error="launched nothing")]
        return [found(kernel.name, kernel.metadata.num_warps, **_needs(kernel)) for kernel in kernels]
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return [found(error=f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})")]


def _needs(kernel: Any) -> dict[str, Any]:
    read = _needs_of_cubin if "cubin" in kernel.asm else _needs_of_gcn
    return {"shared": kernel.metadata.shared, **read(kernel.asm)}


def _needs_of_cubin(asm: Any) -> dict[str, Any]:
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(asm["cubin"])
        file.flush()
        tool = [knobs.nvidia.cuobjdump.path, "-sass", "-res-usage", file.name]
        return _read_sass(subprocess.run(tool, capture_output=True, check=True, text=True).stdout)


def _read_sass(text: str) -> dict[str, Any]:
    """The figures in what cuobjdump prints."""
    usage = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", text)}
    operations = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", text, re.MULTILINE)
    counts = Counter({name: sum(_is(operation, name) for operation in operations) for name in _COUNTED})
    return {
        "registers": usage["REG"],
        "stack": usage["STACK"],
        "spills": counts.pop("LDL") + counts.pop("STL"),
        "instructions": dict(counts),
    }


def _is(operation: str, name: str) -> bool:
    """LDG.E.LTC128B.128.CONSTANT is an LDG.E.128."""
    return set(name.split(".")) <= set(operation.split("."))


def _needs_of_gcn(asm: Any) -> dict[str, Any]:
    text = asm["amdgcn"]
    figures = {name: int(value) for name, value in re.findall(r"^\s+\.(\w+):\s+(\d+)$", text, re.MULTILINE)}
    return {
        "registers": figures["vgpr_count"],
        "stack": figures["private_segment_fixed_size"],
        "spills": figures["vgpr_spill_count"],
        "instructions": {"MFMA": len(re.findall(r"^\s+v_mfma", text, re.MULTILINE))},
    }


# ---------------------------------------------------------------------------------------------------------------- the program


def reason_not_to_run() -> str | None:
    """Why nothing can be compiled here."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"Triton has no compiler for {sys.platform} on {platform.machine()}"
    try:
        from triton import knobs
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    if knobs.runtime.interpret:
        return "TRITON_INTERPRET is set: kernels are interpreted, not compiled"
    try:
        subprocess.run([knobs.nvidia.cuobjdump.path, "--version"], capture_output=True, check=True)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return f"this Triton has no cuobjdump that works: {error}"
    return None


def _printed(rows: list[Compiled]) -> str:
    head = ["target", "launcher", "variant", "kernel", "warps", "regs", "stack", "spills", "shared", "instructions"]
    lines = [head]
    for row in rows:
        seen = ", ".join(f"{name} {count}" for name, count in row.instructions.items() if count)
        figures = [row.warps, row.registers, row.stack, row.spills, row.shared]
        cells = [row.error] if row.error else [row.kernel, *(str(figure) for figure in figures), seen]
        lines.append([row.target, row.launcher, row.variant, *cells])
    whole = [line for line in lines if len(line) == len(head)]
    widths = [max(len(line[column]) for line in (lines if column < 3 else whole)) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile every Triton kernel without a GPU, and print what it needs.")
    parser.add_argument("--target", action="append", choices=TARGETS, help="one of the targets (again for more; all)")
    parser.add_argument("--only", action="append", default=[], help="launchers or variants with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (as many as there are cores)")
    parser.add_argument("--covering", action="store_true", help="a few variants that cover types, sizes and targets")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    reason = reason_not_to_run()
    if reason is not None:
        print(reason, file=sys.stderr)
        return CANNOT_RUN
    work = [
        (target, variant)
        for target in args.target or TARGETS
        for variant in (COVERING if args.covering else VARIANTS)[target]
        if all(text in f"{variant.kernel} {variant.name}" for text in args.only)
    ]
    if not work:
        parser.error(f"no launcher or variant has {' and '.join(args.only)} in its name")
    rows = []
    for target in (
        args.target or TARGETS
    ):  # processes of its own: Triton 3.6 keeps the first target's casts for all others
        variants = [variant for name, variant in work if name == target]
        with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork")) as pool:
            rows += [row for found in pool.map(partial(compile_variant, target), variants) for row in found]
    print(json.dumps([asdict(row) for row in rows], indent=1) if args.json else _printed(rows))
    return 1 if any(row.error for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
