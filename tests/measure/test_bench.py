"""`kvtool bench`: its steps are real ones, its tables fit any width, and what it leaves can be used. No test asserts times."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from kvtool.cli.app import run
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.measure.bench import session, timing
from kvtool.measure.bench.attention import StepTimer, build_step
from kvtool.measure.bench.bench_result import BenchOptions, BenchResult, StepTime
from kvtool.measure.bench.calibration import Constants, Fitted, Point
from kvtool.measure.bench.calibration_file import Calibration, load_calibration
from kvtool.measure.bench.cases import CPU, GPU, StepCase, shallow_cases, step_cases
from kvtool.report.terminal.server_views.bench import print_bench
from kvtool.results.documents.bench import TimedStore
from kvtool.results.documents.calibrated import Machine
from kvtool.text.terminal.console import cell_width, make_console
from tests.results.documents import redumped

SMALL = ModelConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    name="small",
)
TINY = ModelConfig.tiny(32_000)
SLOW = Constants(1e11, 8e9, layer_overhead=2e-4, request_overhead=9e-5, step_overhead=1e-4)
FAST = Constants(5e14, 3.5e12, layer_overhead=5e-6, step_overhead=2e-4)


def made_up(*, gpu: bool = False, **changes: Any) -> BenchResult:
    """A result on a machine of known constants, all of whose steps took exactly what the model says."""
    geometry = find_geometry("llama-3.1-8b") if gpu else Geometry.of(TINY)
    dtype, dtype_bytes = ("bfloat16", 2) if gpu else ("float32", 4)
    machine = (
        Machine(
            device="NVIDIA Some GPU",
            type="cuda",
            memory=140 << 30,
            threads=8,
            kernels="triton",
            python="3.12.1",
            torch="2.11.0",
            triton="3.6.0",
            driver="550.1.2",
        )
        if gpu
        else Machine(
            device="Some CPU, 4 threads",
            type="cpu",
            memory=8 << 30,
            threads=4,
            kernels="torch",
            python="3.12.1",
            torch="2.11.0",
        )
    )
    constants = FAST if gpu else SLOW
    kv_token_bytes = float(geometry.kv_bytes_per_token(dtype_bytes))
    result = BenchResult(
        machine=machine,
        geometry=geometry,
        dtype=dtype,
        dtype_bytes=dtype_bytes,
        kv_cache_dtype="bf16" if gpu else "fp32",
        kv_token_bytes=kv_token_bytes,
        block_size=16,
        copy_bytes_per_s=4.1e12 if gpu else 1.2e10,
        matmul_flops_per_s=7.9e14 if gpu else 1.6e11,
        store=TimedStore(tokens=8192, bytes=64 << 20, seconds=2e-5 if gpu else 7e-3),
        budget=30.0,
        seconds=29.3,
    )
    of = Fitted(geometry, dtype_bytes, kv_token_bytes)
    for case in step_cases(GPU if gpu else CPU, 16, prefix_aware=True):
        seconds = of.predict(constants, Point(case.work, geometry.num_layers, 1.0))
        if case.mode == "prefix-aware":
            seconds *= 0.4
        result.steps.append(StepTime(case, seconds, 1.02 * seconds, 9))
    result.calibration = Calibration(
        machine=machine,
        date="2026-11-21T03:00:00Z",
        geometry=geometry,
        dtype=dtype,
        kv_cache_dtype=result.kv_cache_dtype,
        block_size=16,
        kv_token_bytes=kv_token_bytes,
        copy_bytes_per_s=result.copy_bytes_per_s,
        matmul_flops_per_s=result.matmul_flops_per_s,
        constants=constants,
        points=tuple(result.points()),
    )
    return replace(result, **changes)


def shown(result: BenchResult, width: int = 80, encoding: str = "utf-8") -> list[str]:
    stream = TextIOWrapper(BytesIO(), encoding=encoding)
    print_bench(make_console(file=stream, width=width), result, "do this", ["kvtool", "profile", "w.yaml"])
    stream.flush()
    stream.seek(0)
    return stream.read().splitlines()


# The steps


@pytest.mark.parametrize("sizes", [CPU, GPU], ids=["cpu", "gpu"])
def test_steps_to_fit_to_and_to_check_the_fit(sizes: Any) -> None:
    cases = step_cases(sizes, 16, prefix_aware=True)
    assert len(set(cases)) == len(cases)
    usable = [case for case in cases if case.fits_the_model]
    kept = {case.work for case in usable if not case.held_out}
    unseen = {case.work for case in usable if case.held_out}
    assert len(kept) >= 12
    assert len(unseen) >= 8
    assert not kept & unseen
    for kind in ("prefill", "extend", "chunk", "decode", "mixed"):
        assert {case.held_out for case in usable if case.kind == kind} == {False, True}, kind
    assert not any(case.held_out for case in shallow_cases(sizes))


def test_what_sharing_wins_is_told_where_both_ways_were_measured() -> None:
    result = made_up(gpu=False)
    gains = {(gain.requests, gain.shared_tokens): gain.gain for gain in result.sharing()}
    assert set(gains) == {(batch, shared) for batch in (8, 32, 64) for shared in (0, 512, 768, 960)}
    assert all(gain == pytest.approx(1 / 0.4) for gain in gains.values())
    assert [step for step in result.document().sharing if step.requests == 8][1].flat_s > 0
    lines = shown(result)
    assert any(line.split() == ["Gain", "of", "sharing", "0%", "50%", "75%", "94%"] for line in lines)
    assert any(line.split() == ["64", "x", "1,024", *["2.50", "x"] * 4] for line in lines)
    result.steps = [step for step in result.steps if step.case.mode == "flat" or len(step.case.work) == 8]
    assert {gain.requests for gain in result.sharing()} == {8}  # no figure that was not measured
    result.steps = [step for step in result.steps if step.case.mode == "flat"]
    assert result.sharing() == []
    assert not any("Gain of sharing" in line for line in shown(result))


def test_prefix_aware_steps_have_flat_ones_beside_them() -> None:
    aware = [case for case in step_cases(GPU, 16, prefix_aware=True) if case.mode == "prefix-aware"]
    flat = [case for case in step_cases(GPU, 16) if case.shared]
    assert [replace(case, mode="flat") for case in aware] == flat
    assert len(flat) == 6


@pytest.mark.parametrize(
    ("work", "shared", "blocks"),
    [
        (((0, 20),), 0, 2),
        (((40, 5), (0, 16)), 0, 4),
        (((99, 1), (99, 1), (99, 1)), 64, 4 + 3 * 3),
        (((63, 1), (63, 1)), 64, 4),
    ],
)
def test_a_step_has_its_blocks(work: Any, shared: int, blocks: int) -> None:
    """All of them different but those that are shared; none is the null block, and none is beyond what is reserved."""
    case = StepCase("decode", work, shared)
    assert case.blocks(16) == blocks
    step = build_step(case, 97, 16)
    tables = [item.request.block_ids for item in step.scheduled]
    assert set().union(*tables) == set(range(1, blocks + 1))
    common = shared // 16
    assert len({tuple(table[:common]) for table in tables}) == 1
    own = [block for table in tables for block in table[common:]]
    assert len(set(own)) == len(own)
    for (before, new), item, table in zip(work, step.scheduled, tables, strict=True):
        assert (item.start, item.num_tokens, item.samples) == (before, new, True)
        assert len(table) == -(-(before + new) // 16)


@pytest.mark.parametrize("work", [((0, 20),), ((40, 5), (0, 17)), ((33, 1), (64, 1), (15, 1))])
def test_flops_are_those_that_torch_counts(work: Any) -> None:
    """torch counts matrix products, but not those with packed weights, which bf16 has not; attention is worked out here: the last
    layer's is of one token for each request."""
    case = StepCase("chunk", work)
    timer = StepTimer(Decoder.random(SMALL, dtype=torch.bfloat16), [case], 16, "auto")
    with FlopCounterMode(display=False) as counter:
        assert timer.run(timer.build(case)) > 0
    pairs = sum(2 * (new * before + new * (new + 1) // 2) + before + new for before, new in work)
    attention = 4 * SMALL.num_attention_heads * SMALL.head_dim * pairs
    geometry = Geometry.of(SMALL)
    result = replace(made_up(), geometry=geometry, kv_token_bytes=float(geometry.kv_bytes_per_token(4)))
    assert result.flops(case) == counter.get_total_flops() + attention


@pytest.mark.parametrize("kv_cache_dtype", ["auto", "bf16", "fp8_e4m3", "int8"])
def test_steps_run_on_any_cache(kv_cache_dtype: str) -> None:
    cases = [StepCase("prefill", ((0, 20),)), StepCase("decode", ((63, 1),) * 3, shared=32)]
    seen: list[bool] = []
    timer = StepTimer(Decoder.random(SMALL), cases, 16, kv_cache_dtype)
    runner = timer._runners["flat"]
    runner.on_logits = lambda _, logits: seen.append(bool(logits.isfinite().all()))
    for case in cases:
        timer.run(timer.build(case))
    assert seen == [True] * 4


def test_a_floor_counts_a_shared_prefix_once() -> None:
    result = made_up()
    apart = StepCase("decode", ((255, 1),) * 4)
    shared = replace(apart, shared=128)
    saved = (result.memory_floor(apart) - result.memory_floor(shared)) * result.copy_bytes_per_s
    assert saved == pytest.approx(3 * 128 * result.kv_token_bytes)


# The views


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize(
    "result",
    [
        made_up(),
        made_up(gpu=True),
        made_up(calibration=None, no_calibration="there was time for 3 steps to fit to, and 8 are needed"),
        made_up(steps=[], store=None, calibration=None, partial=True),
        made_up(left_out=step_cases(GPU, 16), load=0.9, notes=["Triton does not run here, so torch computes"]),
    ],
    ids=["cpu", "gpu", "unfitted", "interrupted", "left out"],
)
def test_lines_fit_the_width(result: BenchResult, width: int, encoding: str) -> None:
    lines = shown(result, width, encoding)
    assert max(cell_width(line) for line in lines) <= width
    if encoding == "ascii":
        assert "\\x" not in "\n".join(lines)
    assert lines[-1] == "  kvtool profile w.yaml"


def test_the_tables_have_the_figures() -> None:
    result = made_up(gpu=True)
    lines = shown(result, 120)
    [prefill] = [line.split() for line in lines if line.split()[:1] == ["2,048"]]
    step = next(step for step in result.steps if step.case.work == ((0, 2048),))
    rate = result.flops(step.case) / step.seconds
    assert prefill[1:5] == [
        f"{1e3 * step.seconds:,.2f}",
        f"{2048 / step.seconds:,.0f}",
        f"{rate / 1e12:,.1f}",
        f"{100 * rate / 7.9e14:.1f}%",
    ]
    extend = next(line for line in lines if line.startswith("  6,000 + 30"))
    cold, cached = (
        next(step.seconds for step in result.steps if step.case.work == work) for work in (((0, 6030),), ((6000, 30),))
    )
    assert extend.split()[3:] == [f"{1e3 * cold:,.2f}", f"{1e3 * cached:,.2f}", f"{100 * cached / cold:.1f}%"]
    shared = [line.split() for line in lines if line.startswith("  64 x 4,096")]
    assert [row[3] for row in shared] == ["0%", "50%", "95%"]
    assert [row[-2:] for row in shared[1:]] == [["2.50", "x"]] * 2
    flat = made_up()
    flat.steps = [step for step in flat.steps if step.case.mode == "flat"]
    assert "gain" not in "\n".join(shown(flat, 120))


def test_a_machine_that_was_busy_is_told() -> None:
    def said(result: BenchResult) -> bool:
        return "this machine was busy" in " ".join(" ".join(shown(result)).split())

    idle = made_up()
    assert not said(idle)
    assert said(made_up(load=0.8))
    assert said(replace(idle, steps=[replace(step, median=1.4 * step.seconds) for step in idle.steps]))


def test_a_rate_that_is_a_guess_is_told() -> None:
    known = made_up()
    guess = replace(known, matmul_flops_per_s=known.matmul_flops_per_s / 10)
    text = [" ".join(" ".join(shown(result)).split()) for result in (known, guess)]
    assert "is a guess" not in text[0]
    assert "the rate of arithmetic is a guess: no step that there was time for is limited by it" in text[1]


def test_the_json_has_the_same_figures() -> None:
    result = made_up(gpu=True)
    text = result.document().to_json()
    assert redumped(text) == text
    found = json.loads(text)
    assert (found["schema"], found["model"], found["machine"]["driver"]) == (
        "kvtool.bench/1",
        "llama-3.1-8b",
        "550.1.2",
    )
    assert len(found["steps"]) == len(result.steps)
    for row, step in zip(found["steps"], result.steps, strict=True):
        assert (row["requests"], row["decode_attention"]) == (len(step.case.work), step.case.mode)
        assert row["seconds"] == step.seconds
        assert row["flops"] == result.flops(step.case)
    assert found["calibration"]["kind"] == "kvtool-calibration"


# The command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the config.json of a model that takes next to no time."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "torch_dtype": "float32",
    }
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks count the seconds of this process alone: other programs on the machine take nothing from its budget."""
    clock = SimpleNamespace(perf_counter=time.process_time)
    for module in (session, timing):
        monkeypatch.setattr(module, "time", clock)


def test_the_whole_command(folder: Path, own_time: None, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    """With no time to speak of; the fit of what it timed is used to predict."""
    flags = ["--model", "small", "--device", "cpu", "--budget", "4", "--quiet"]
    assert run(["bench", *flags, "-o", "c.json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Fitted to this machine" in out
    assert "kvtool profile workloads/support-bot.yaml --model small --calibration c.json" in " ".join(
        out.replace("\\", " ").split()
    )
    calibration = load_calibration("c.json")
    assert (calibration.geometry.name, calibration.dtype, calibration.kv_cache_dtype) == ("small", "float32", "fp32")
    assert {point.layers for point in calibration.points} == {1, 4}
    assert calibration.machine.type == "cpu"
    assert calibration.residuals(held_out=True).points > 0
    (folder / "w.txt").write_text("Be brief. " * 40, encoding="utf-8")
    assert run(["profile", "w.txt", "-t", bytes_json, "--dry-run", "--quiet", "--json", "--calibration", "c.json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    assert profile["config"]["accelerator"] == calibration.machine.device
    assert profile["ttft"]["predicted"]["on"]["p50"] > 0


def test_json_on_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "small", "--device", "cpu", "--budget", "0.2", "--quiet", "--kv-cache-dtype", "int8", "--json"]
    assert run(["bench", *flags]) == 0
    out = capsys.readouterr().out
    assert redumped(out) == out
    found = json.loads(out)
    assert found["schema"] == "kvtool.bench/1"
    assert (found["kv_cache_dtype"], found["model"], found["machine"]["kernels"]) == ("int8", "small", "torch")
    assert found["steps"]
    assert found["store_kv"]["bytes"] == 8192 * (2 * 2 * (8 * 4 + 8 + 4) + 8)  # and each slot


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--budget", "0"], "--budget is a number of seconds above 0, not 0"),
        (["--budget", "nan"], "--budget is a number of seconds above 0, not nan"),
        (["--budget", "inf"], "--budget is a number of seconds above 0, not inf"),
        (["--dtype", "int4"], "unknown dtype `int4`"),
        (["--kv-cache-dtype", "int2"], "unknown KV cache dtype `int2`"),
        (["--model", "llama-9"], "unknown model `llama-9`"),
        (["--model", "./nothing"], "no such file or folder"),
        (["--output", "-"], "--output needs a file"),
        (["--output", "no/such/folder/c.json"], "cannot write no/such/folder/c.json"),
        (["--device", "tpu"], "this machine has no device 'tpu'"),
        (["--model", "llama-3.1-405b", "--device", "cpu"], "memory are free"),
    ],
)
def test_what_cannot_be(folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert run(["bench", "--quiet", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert not list(folder.glob("*.part"))


class _Answers:
    """In place of the measuring session."""

    def __init__(self, result: BenchResult) -> None:
        self.result = result

    def __call__(self, *_: object) -> _Answers:
        return self

    def run(self) -> BenchResult:
        return self.result


def answering(monkeypatch: pytest.MonkeyPatch, result: BenchResult) -> None:
    monkeypatch.setattr(session, "Bench", _Answers(result))


def test_an_interrupted_run_leaves_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, made_up(calibration=None, no_calibration="interrupted", partial=True))
    (folder / "c.json").write_text("before", encoding="utf-8")
    assert run(["bench", "-o", "c.json"]) == 130
    out = capsys.readouterr().out
    assert "PARTIAL: interrupted" in out
    assert out.splitlines()[-1] == "  kvtool bench -o c.json"
    assert [path.name for path in folder.glob("c.json*")] == ["c.json"]
    assert (folder / "c.json").read_text(encoding="utf-8") == "before"


def test_ctrl_c_keeps_what_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the second round: every step was timed once."""
    timed = StepTimer.run

    def once(self: StepTimer, case: Any) -> float:
        if case.times:
            raise KeyboardInterrupt
        return timed(self, case)

    rounds = session.Bench._rounds
    monkeypatch.setattr(StepTimer, "run", once)
    monkeypatch.setattr(  # however busy the machine is, there is a second round
        session.Bench, "_rounds", lambda self, timer, admitted, _: rounds(self, timer, admitted, math.inf)
    )
    options = BenchOptions(budget=1.0, model="small", device="cpu")
    result = session.Bench(options, lambda *_: None).run()
    assert result.partial
    assert result.calibration is None
    assert len(result.steps) + len(result.left_out) == len(step_cases(CPU, 16, prefix_aware=True))
    assert {step.runs for step in result.steps} == {1}


def test_too_little_time_for_a_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, made_up(calibration=None, no_calibration="there was time for 3 steps to fit to"))
    assert run(["bench", "-o", "c.json", "--budget", "7"]) == 2
    out, err = capsys.readouterr()
    assert "Nothing was fitted: there was time for 3 steps to fit to" in out
    assert out.splitlines()[-1] == "  kvtool bench -o c.json --budget 14"
    assert err.splitlines()[0] == "error: c.json is not written: there was time for 3 steps to fit to"
    assert not list(folder.glob("c.json*"))
    assert run(["bench", "--budget", "7"]) == 0


def test_the_next_command_keeps_what_was_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, made_up())
    assert run(["bench", "--dtype", "float32"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  kvtool bench --dtype float32 -o calibration.json"


@pytest.mark.parametrize("color", ["always", "never"])
def test_colour(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], color: str) -> None:
    answering(monkeypatch, made_up())
    assert run(["bench", "--color", color]) == 0
    assert ("\x1b[" in capsys.readouterr().out) == (color == "always")


def test_help_and_mistakes_need_no_torch() -> None:
    lines = ["bench --help", "bench --budget 0", "profile nothing.yaml --calibration c.json"]
    program = f"import sys\nfrom kvtool.cli.app import run\nfor line in {lines}: run(line.split())\nprint('torch' in sys.modules)"
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_counting_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """On no terminal, a line now and then names the stage and how many of its steps are done."""
    from kvtool.cli.commands.bench import _Stages
    from kvtool.text.terminal import progress

    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    heard = StringIO()
    monkeypatch.setattr(sys, "stderr", heard)
    with progress.Progress(make_console(file=heard), unit="steps") as shown_progress:
        stages = _Stages(shown_progress)
        for stage, done in (("warming up", 0), ("warming up", 3), ("round 1", 0), ("round 1", 5)):
            stages(stage, done, 9)
    assert [line.rsplit(",", 1)[0] for line in heard.getvalue().splitlines()] == [
        "kvtool: warming up, 0 of 9 steps",
        "kvtool: warming up, 3 of 9 steps",
        "kvtool: round 1, 0 of 9 steps",
        "kvtool: round 1, 5 of 9 steps",
    ]
