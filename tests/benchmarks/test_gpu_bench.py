"""`benchmarks/gpu.sh`: the whole program on the CPU, what it does when a section breaks, and whether its checks would notice."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.device import check_attention, check_engine, references
from benchmarks.device.check_attention import SMALL, decode_checks, prefill_checks
from benchmarks.device.check_elementwise import elementwise_checks, store_checks
from benchmarks.device.checks import Check, checked, covering
from benchmarks.device.decode import DecodePoint, decode_floor, measure_decode
from benchmarks.device.prefill import PrefillPoint
from benchmarks.device.sequences import Sequences
from kvtool.kernels import torch_twins
from kvtool.kernels.store_kv import store_kv
from kvtool.measure.bench.attention import AttentionShape
from kvtool.measure.bench.this_machine import Ceilings
from kvtool.measure.bench.timing import layers_to_rotate, measure
from tests.conftest import NIGHTLY

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
CPU = torch.device("cpu")
LEFT_OUT = () if NIGHTLY else (
    *("check-engine", "check-decode-bf16", "check-decode-fp16", "check-decode-fp32", "check-prefill-fp16", "check-prefill-fp32"),
)  # fmt: skip
"""Sections that only nightly runs: `kernels/gpu` and `test_triton_engine` have the same kernels by day."""


@pytest.fixture(scope="module")
def gpu() -> Iterator[ModuleType]:
    """benchmarks/gpu.py"""
    sys.path.insert(0, str(BENCHMARKS))
    import gpu

    yield gpu
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def smoke(gpu: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What a smoke run wrote and printed, where another package of the name `benchmarks` is installed."""
    pytest.importorskip("triton")
    out, installed = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("installed")
    (installed / "benchmarks").mkdir()
    (installed / "benchmarks" / "__init__.py").touch()
    command = ["bash", str(BENCHMARKS / "gpu.sh"), "--smoke", "--out", str(out)]
    names = [section.name for section in gpu.SECTIONS if section.name not in LEFT_OUT]
    command += ["--only", ",".join(names)]
    env = with_this_python() | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=out, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.iterdir()
    assert file.name.startswith("cpu-")
    return json.loads(file.read_text(), parse_constant=pytest.fail), done.stdout  # NaN is no JSON


def with_this_python() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_every_section_is_there(smoke: tuple[dict[str, Any], str], gpu: ModuleType) -> None:
    result, _ = smoke
    assert result["smoke"]
    wanted = [section.name for section in gpu.SECTIONS if section.name not in (*gpu.SKIPPED_IN_SMOKE, *LEFT_OUT)]
    assert list(result["sections"]) == wanted
    for name, state in result["sections"].items():
        assert state["status"] == "ok", (name, state)
        assert state["rows"], name
        assert not state["notes"], name


def test_errors_are_within_bounds(smoke: tuple[dict[str, Any], str]) -> None:
    result, _ = smoke
    rows = [row for name, state in result["sections"].items() if name.startswith("check-") for row in state["rows"]]
    assert all(row["ok"] and row["error"] <= row["bound"] <= 1e-2 for row in rows)
    kernels = {row["kernel"].split()[0] for row in rows}
    by_night = {"paged_decode", "merge_states", "whole", "engine"} if NIGHTLY else set()
    assert kernels >= by_night | {
        *("paged_prefill", "store_kv", "rotary_store_kv", "rms_norm", "add_rms_norm", "swiglu"),
    }
    assert {row["dtype"] for row in rows} == {"fp32", "fp16", "bf16"}
    assert any(row["error"] > 0 for row in rows)


def test_what_was_measured(smoke: tuple[dict[str, Any], str]) -> None:
    sections = smoke[0]["sections"]
    apart, shared = sections["decode"]["rows"]
    assert apart["tokens_read"]["flat"] == shared["tokens_read"]["flat"] == 3 * 80
    assert shared["tokens_read"]["prefix-aware"] == 64 + 3 * 16
    assert shared["floor"] < apart["floor"]
    kinds = [row["kind"] for row in sections["end-to-end"]["rows"]]
    assert kinds == ["model", "ttft", "decode", "decode"]


def test_tables(smoke: tuple[dict[str, Any], str]) -> None:
    _, printed = smoke
    lines = printed.splitlines()
    tables = lines[lines.index("") :]
    assert max(map(len, tables)) <= 100
    order = [
        "mean nothing",
        "between the matrix",
        "causal prefill",
        "ChunkAttention",
        "decode, micro",
        "TTFT",
        "correctness",
    ]
    places = [next(i for i, line in enumerate(tables) if title in line) for title in order]
    assert places == sorted(places)
    assert "goals" not in printed
    assert "WRONG" not in printed


def test_without_a_gpu(tmp_path: Path) -> None:
    """Says so, and leaves no file."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--only", "ceilings", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "no GPU here" in done.stderr
    assert not list(tmp_path.iterdir())


def test_list_and_only() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(BENCHMARKS / "gpu.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    names = [line.split()[0] for line in run("--list", "--only", "check-decode,writes").stdout.splitlines()]
    assert names == ["check-decode-bf16", "check-decode-fp16", "check-decode-fp32", "writes"]
    done = run("--only", "decode,nothing")
    assert done.returncode == 1
    assert "nothing" in done.stderr


def test_needs_little() -> None:
    """The packages that a bare machine with torch lacks are not imported, and the starter does not even import torch."""
    missing = ["pydantic", "orjson", "rapidfuzz", "mistral_common", "typer", "rich", "yaml", "jinja2", "zstandard"]
    modules = [
        "gpu_worker",
        *(f"benchmarks.device.{name}" for name in ("check_engine", "check_elementwise", "peer_transformers")),
    ]
    code = f"""
import sys
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(ROOT)!r}]
import gpu
assert "torch" not in sys.modules
for name in {missing!r}:
    sys.modules[name] = None
for name in {modules!r}:
    __import__(name)
assert "transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_processes_that_write_the_same_file(gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them say which machine this is, at the same time."""
    assert gpu  # whose folder is on the path
    worker = importlib.import_module("gpu_worker")
    file, replace = tmp_path / "machine.json", Path.replace

    def meanwhile(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        worker.write_json(file, {"device": "of the other process"})
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    worker.write_json(file, {"device": "a GPU"})
    assert json.loads(file.read_text()) == {"device": "a GPU"}


# --------------------------------------------------------------------------------------------------------------- broken sections

STUB = """
import json, os, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
work = arguments["--work"]
def write(name, value):
    part = f"{work}/{name}.{os.getpid()}.part"
    with open(part, "w") as file:
        json.dump(value, file)
    os.replace(part, f"{work}/{name}.json")
write("machine", {"device": "stub"})
for item in arguments["--sections"].split(","):
    name, most, _ = item.split("=")
    state = {"status": "running", "until": time.time() + float(most), "seconds": 0.0, "rows": [{"pid": os.getpid()}], "notes": []}
    write(name, state)
    if name == "dies":
        print("a fault", flush=True)
        os.kill(os.getpid(), 9)
    if name == "hangs":
        time.sleep(60)
    if name == "loses the device":
        write(name, state | {"status": "error", "error": "lost"})
        os._exit(3)
    write(name, state | {"status": "ok"})
"""


def started(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], budget: float = 60
) -> Any:
    """A run of made-up sections with a made-up worker."""
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    monkeypatch.setattr(gpu.Run, "program", stub)
    monkeypatch.setattr(gpu, "GRACE", 0.3)
    monkeypatch.setattr(gpu, "POLL", 0.02)
    sections = [gpu.Section(name, "", 0.5, 0.1) for name in names]
    monkeypatch.setattr(gpu, "SECTIONS", sections)
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setattr(gpu, "report", lambda _: "tables")
    return gpu.Run(argparse.Namespace(smoke=False, budget=budget, out=tmp_path / "out"))


def test_the_others_go_on(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["first", "dies", "second", "hangs", "loses the device", "third", "fourth"]
    run = started(gpu, tmp_path, monkeypatch, names)
    run.in_turn(gpu.SECTIONS)
    assert run.finish() == 0  # none of them was about correctness
    (file,) = (tmp_path / "out").iterdir()
    assert [file.name] == [other.name for other in (tmp_path / "benchmarks" / "results").iterdir()]
    found = json.loads(file.read_text())["sections"]
    assert [found[name]["status"] for name in names] == ["ok", "died", "ok", "late", "error", "ok", "ok"]
    assert "a fault" in found["dies"]["error"]
    assert "code -9" in found["dies"]["error"]
    assert all(state["rows"] for state in found.values())  # what there was is kept
    processes = [found[name]["rows"][0]["pid"] for name in names]
    assert len(set(processes)) == 4
    assert processes[-1] == processes[-2] != processes[-3]
    run.close()
    assert "died" in capsys.readouterr().out


def test_checks_side_by_side(gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its process; one that could not be run to its end is as bad as a wrong result."""
    names = ["check-a", "check-b", "check-c"]
    run = started(gpu, tmp_path, monkeypatch, names)
    run.side_by_side(gpu.SECTIONS, processes=2)
    assert run.finish() == 0
    assert len({run.found[name]["rows"][0]["pid"] for name in names}) == 3
    run.found["check-b"]["status"] = "died"
    assert run.finish() == 1
    run.close()


def test_out_of_time(gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(gpu, tmp_path, monkeypatch, ["first", "second"], budget=0.05)
    run.in_turn(gpu.SECTIONS)
    assert [run.found[name]["status"] for name in ("first", "second")] == ["skipped", "skipped"]
    run.close()


def test_tables_of_a_full_run(gpu: ModuleType, smoke: tuple[dict[str, Any], str]) -> None:
    """As many rows as on a GPU, some with peers that refused, and faults: still what the end of an output can hold."""
    result = json.loads(json.dumps(smoke[0])) | {"smoke": False}
    sections = result["sections"]
    row = sections["decode"]["rows"][0]
    sections["decode"]["rows"] = [
        row | {
            "batch": batch, "context": context << 10, "share": share, "kv_bytes": 4096 * batch * context << 10,
            "peers": {"SDPA flash": 0.00123, "SDPA cuDNN": "RuntimeError: no such thing"},
        }
        for batch in (32, 64, 128) for context in (1, 4, 16, 64) for share in (0.0, 0.5, 0.95)
    ]  # fmt: skip
    point = sections["prefill"]["rows"][0]
    sections["prefill"]["rows"] = [point | {"new": n << 10, "peers": {"SDPA flash": 0.1}} for n in (2, 4, 8, 16, 32)]
    broken = {
        "kernel": "swiglu",
        "dtype": "bf16",
        "case": "x" * 200,
        "error": None,
        "bound": 0.0,
        "note": "a\nb",
        "ok": False,
    }
    sections["check-store"]["rows"] += [broken] * 20
    sections["flex"] = {"status": "late", "rows": [], "notes": ["no time"], "seconds": 1.0, "error": "a\nb"}
    printed = gpu.report(result)
    assert max(map(len, printed.splitlines())) <= 100
    assert len(printed) < 12_000
    assert printed.count("WRONG swiglu") == 8
    assert "goals on an H200" in printed
    assert "NO   checks within their bounds" in printed
    for name in sections:
        sections[name] = {"status": "error", "rows": [], "notes": [], "seconds": 0.0, "error": "gone"}
    assert "decode: error gone" in gpu.report(result)


# -------------------------------------------------------------------------------------------------------------- would it notice?


def twins(**changed: Any) -> Any:
    """The torch kernels, some of them broken."""
    names = [name for name in torch_twins.__all__ if name != "NAME"]
    return SimpleNamespace(**{name: getattr(torch_twins, name) for name in names} | changed)


CHECKS = (elementwise_checks, store_checks, decode_checks, prefill_checks)


def all_checks(kernels: Any, dtype: torch.dtype = torch.float32, checks: Sequence[Any] = CHECKS) -> list[Check]:
    return [found for check in checks for found in check(kernels, dtype, SMALL, CPU)]


def wrong(checks: list[Check]) -> set[str]:
    return {check.kernel for check in checks if not check.ok}


def test_the_twins_are_right() -> None:
    for dtype in [torch.float32, torch.float16, torch.bfloat16]:
        assert not [check for check in all_checks(twins(), dtype) if not check.ok]


def test_products_of_few_bits() -> None:
    """tf32 for fp32 is noticed."""

    def rough(q: torch.Tensor, *arguments: Any, **named: Any) -> None:
        torch_twins.paged_decode((q.view(torch.int32) & -(1 << 13)).view(torch.float32), *arguments, **named)

    assert wrong(all_checks(twins(paged_decode=rough), checks=[decode_checks])) >= {"paged_decode", "whole step"}


def test_reads_beyond_the_end() -> None:
    def eager(q: Any, k: Any, v: Any, items: torch.Tensor, *rest: Any, **named: Any) -> None:
        longer = items.clone()
        longer[:, 3] = torch.where(items[:, 3] > 0, (items[:, 3] + 15) // 16 * 16, 0)  # whole blocks
        torch_twins.paged_decode(q, k, v, longer, *rest, **named)

    found = [check for check in all_checks(twins(paged_decode=eager), checks=[decode_checks]) if not check.ok]
    assert {check.kernel for check in found} >= {"paged_decode", "paged_decode LSE", "whole step"}
    assert any(math.isnan(check.error) for check in found)


def test_writes_what_it_should_not() -> None:
    def generous(
        q: Any, k: Any, v: Any, items: Any, query: Any, blocks: Any, most: int, out: Any, lse: Any, **named: Any
    ) -> None:
        out.nan_to_num_(0.0)
        torch_twins.paged_decode(q, k, v, items, query, blocks, most, out, lse, **named)

    def careless(k: Any, v: Any, k_cache: torch.Tensor, v_cache: Any, slots: Any, *scales: Any) -> None:
        store_kv(k, v, k_cache, v_cache, slots, *scales)
        k_cache.view(-1)[0] = 5 if k_cache.view(-1)[0] == 3 else 3

    assert "paged_decode" in wrong(all_checks(twins(paged_decode=generous), checks=[decode_checks]))
    assert wrong(all_checks(twins(store_kv=careless))) == {"store_kv k"}


def test_a_mask_off_by_one() -> None:
    def late(
        q: Any, k: Any, v: Any, table: Any, start: Any, lens: Any, tiles: torch.Tensor, *rest: Any, **named: Any
    ) -> None:
        shorter = lens.clone() - 1
        torch_twins.paged_prefill(q, k, v, table, start, shorter, tiles, *rest, **named)

    assert "paged_prefill" in wrong(all_checks(twins(paged_prefill=late), checks=[prefill_checks]))


def test_a_lost_part() -> None:
    def forgetful(out: Any, lse: Any, start: torch.Tensor, index: Any, *rest: Any) -> None:
        torch_twins.merge_states(out, lse, start, index.clone().fill_(int(index[0])), *rest)

    assert wrong(all_checks(twins(merge_states=forgetful), checks=[decode_checks])) >= {"merge_states", "whole step"}


def test_a_wrong_rotation_and_a_raised_error() -> None:
    def turned(qkv: Any, cos: Any, sin: Any, *rest: Any, **named: Any) -> Any:
        return torch_twins.rotary_store_kv(qkv, cos, -sin, *rest, **named)

    def broken(gate_up: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such tile")

    found = [
        check
        for check in all_checks(twins(rotary_store_kv=turned, swiglu=broken), checks=[store_checks, elementwise_checks])
        if not check.ok
    ]
    assert {check.kernel for check in found} == {"rotary_store_kv q", "rotary_store_kv k", "swiglu"}
    assert all("no such tile" in check.note for check in found if check.kernel == "swiglu")


def test_an_engine_that_differs() -> None:
    """A norm that is a little off in every layer."""

    def off(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return torch_twins.rms_norm(x, weight, eps + 0.01)

    assert not [check for check in check_engine.engine_checks(CPU, small=True, kernels=twins()) if not check.ok]
    found = [
        check for check in check_engine.engine_checks(CPU, small=True, kernels=twins(rms_norm=off)) if not check.ok
    ]
    assert any("against the CPU" in check.case for check in found)


def test_nan_is_never_right() -> None:
    assert not Check("a", "fp32", "", math.nan, math.inf).ok
    (found,) = checked("a", torch.float32, "b", CPU, lambda: [][1])
    assert not found.ok
    assert "IndexError" in found.note


# ------------------------------------------------------------------------------------------------------------------ yardsticks


def test_references() -> None:
    q, k, v = (torch.randn(n, h, 16, dtype=torch.float64) for n, h in ((7, 6), (11, 2), (11, 2)))
    expected = scaled_dot_product_attention(
        *(x.transpose(0, 1)[None] for x in (q, k, v)),
        attn_mask=torch.ones(7, 11, dtype=torch.bool).tril(4),
        enable_gqa=True,
    )[0].transpose(0, 1)
    torch.testing.assert_close(references.causal_attention(q, k, v, most_rows=3), expected)
    whole, lse = references.attention(q, k, v)
    parts = [references.attention(q, k[part], v[part]) for part in (slice(0, 4), slice(4, 11))]
    outs, lses = torch.stack([out for out, _ in parts]), torch.stack([lse for _, lse in parts])
    torch.testing.assert_close(references.merged(outs[:, 3], lses[:, 3]), whole[3])
    torch.testing.assert_close(torch.logsumexp(lses * math.log(2), dim=0) / math.log(2), lse)


def test_covering_begins_with_all_pairs() -> None:
    values = ((1, 2, 3, 4), "abc", (True, False), (7, 8, 9))
    ordered = covering(*values)
    assert len(ordered) == len(set(ordered)) == 4 * 3 * 2 * 3
    pairs = {pair for case in ordered for pair in combinations(enumerate(case), 2)}
    first = {pair for case in ordered[:18] for pair in combinations(enumerate(case), 2)}
    assert first == pairs


def test_sequences_share_what_they_should() -> None:
    found = Sequences.sharing([1, 5, 2], [70, 64, 100], 48, 16, seed=3)
    table = [row[: -(-length // 16)].tolist() for row, length in zip(found.block_table, found.lengths, strict=True)]
    assert all(row[:3] == table[0][:3] for row in table)
    own = [block for row in table for block in row[3:]]
    everything = [*table[0][:3], *own]
    assert sorted(everything) == list(range(1, found.num_blocks))
    assert everything != sorted(everything)  # not in the order of the pool
    assert found.batch().query_start.tolist() == [0, 1, 6, 8]


def test_decode_reads_and_floors() -> None:
    """Flat plans read every token for each sequence; the floors are those of the design's table."""
    shape = AttentionShape(4, 2, 16, 16, torch.float32)
    point = DecodePoint.sharing(4, 200, 0.7)
    assert (point.shared_tokens, point.unique_tokens) == (128, 128 + 4 * 72)
    result = measure_decode(point, shape, Ceilings(1e9, 1e9), torch_twins, CPU, seconds=0.0, most_layers=2)
    assert result.tokens_read["flat"] == 4 * 200
    assert result.tokens_read["prefix-aware"] == point.unique_tokens
    assert result.layers == 2
    assert result.speedup == result.timings["flat"].seconds / result.timings["prefix-aware"].seconds
    llama, h200 = AttentionShape(), Ceilings(4.3e12, 790e12)
    for share, microseconds in ((0.0, 250.0), (0.5, 127.0), (0.95, 17.0)):
        floor = decode_floor(DecodePoint.sharing(64, 4096, share), llama, h200)
        assert floor * 1e6 == pytest.approx(microseconds, rel=0.03)


def test_prefill_work() -> None:
    for point in (PrefillPoint(7), PrefillPoint(5, 9, 3)):
        rows = np.arange(point.new) + point.cached + 1
        assert point.pairs() == point.sequences * rows.sum()
    floor = PrefillPoint(8192).floor(AttentionShape(), Ceilings(4.3e12, 790e12))
    assert floor * 1e6 == pytest.approx(696, rel=0.01)
    assert PrefillPoint(30, 6000).floor(AttentionShape(), Ceilings(4.3e12, 790e12)) == pytest.approx(
        (6030 * 4096 + 30 * 2 * 32 * 128 * 2) / 4.3e12
    )


def test_measure_runs_all_calls_in_turn() -> None:
    seen: list[int] = []
    timing = measure([lambda: seen.append(0), lambda: seen.append(1)], CPU, seconds=0.0)
    assert seen == [0, 1]
    assert timing.rounds == 1
    assert not timing.graph
    timing = measure([lambda: seen.append(0)], CPU, seconds=0.01)
    assert timing.fastest <= timing.seconds <= timing.slowest
    assert len(seen) == 2 + 1 + timing.rounds


def test_layers_to_rotate() -> None:
    assert layers_to_rotate(1, CPU) == 32
    assert layers_to_rotate(1 << 40, CPU) == 4
    assert layers_to_rotate(1 << 40, CPU, memory=3 << 40) == 3
    assert layers_to_rotate(1 << 40, CPU, memory=1) == 1
    assert layers_to_rotate(1, CPU, most=2) == 2


def test_every_pair_of_shapes_is_tried() -> None:
    """On a GPU, the first eighteen shapes of each type of queries have every pair of cache type, D, group and block size."""
    found = check_attention.shapes(torch.bfloat16, check_attention.Extent())
    assert len(found) == 72
    pairs = {(shape.kept, shape.head_dim) for shape in found[:18]}
    assert len(pairs) == 12
    assert {(shape.heads // shape.kv_heads, shape.block_size) for shape in found[:18]} == {
        (group, block) for group in (1, 4, 8) for block in (16, 64)
    }
