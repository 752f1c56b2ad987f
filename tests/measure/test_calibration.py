"""The fit of the latency model to a machine, its file, and predictions from it. The machines are made up: no test asserts times."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.errors import KvtoolError
from kvtool.measure.bench.calibration import LEAST_POINTS, Constants, Fitted, Point, fit, misses, residuals
from kvtool.measure.bench.calibration_file import Calibration, load_calibration
from kvtool.measure.bench.cases import CPU, GPU, Sizes, shallow_cases, step_cases
from kvtool.results.documents.calibrated import CalibrationDocument, Machine, Residuals

TINY = Geometry.of(ModelConfig.tiny(32_000))
LLAMA = find_geometry("llama-3.1-8b")
LAPTOP = Constants(1.2e11, 9e9, layer_overhead=2e-4, request_overhead=8e-5, step_overhead=3e-4)
SERVER = Constants(6e14, 3.9e12, layer_overhead=6e-6, request_overhead=1e-7, step_overhead=2e-4)


def fitted(geometry: Geometry) -> Fitted:
    dtype_bytes = 4 if geometry is TINY else 2
    return Fitted(geometry, dtype_bytes, float(geometry.kv_bytes_per_token(dtype_bytes)))


def seen(of: Fitted, machine: Constants, *, noise: float = 0.0, seed: int = 0) -> list[Point]:
    """What `kvtool bench` would time on a machine with those constants."""
    sizes: Sizes = CPU if of.geometry is TINY else GPU
    layers = of.geometry.num_layers
    cases = [(case, layers) for case in step_cases(sizes, 16) if case.fits_the_model]
    cases += [(case, layers // 4) for case in shallow_cases(sizes)]
    random = np.random.default_rng(seed)
    points = []
    for case, depth in cases:
        seconds = of.predict(machine, Point(case.work, depth, 1.0)) * math.exp(noise * random.standard_normal())
        points.append(Point(case.work, depth, seconds, case.held_out))
    return points


def held_out(points: list[Point]) -> list[Point]:
    return [point for point in points if point.held_out]


# The fit

rates = st.floats(9.0, 15.5)
intensities = st.floats(0.5, 2.3)  # FLOPs a machine computes while it moves a byte: 3 to 200
parts = st.floats(0.05, 1.0)


@settings(max_examples=12)
@given(rates, intensities, parts, parts, parts, st.sampled_from([TINY, LLAMA]))
def test_constants_come_back(
    log_rate: float, log_intensity: float, layer: float, request: float, step: float, geometry: Geometry
) -> None:
    """Without noise, all five, whatever the machine; overheads are parts of what the smallest step computes and moves."""
    of = fitted(geometry)
    bare = Constants(10**log_rate, 10 ** (log_rate - log_intensity))
    shortest = min(point.seconds for point in seen(of, bare))
    layer_overhead = layer * shortest / geometry.num_layers
    machine = Constants(
        bare.flops, bare.bandwidth, layer_overhead, request * layer_overhead, step_overhead=step * shortest
    )
    found = fit(of, seen(of, machine))
    for name in ("flops", "bandwidth", "layer_overhead", "request_overhead", "step_overhead"):
        assert getattr(found, name) == pytest.approx(getattr(machine, name), rel=0.02, abs=2e-9), name


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from([(TINY, LAPTOP), (LLAMA, SERVER)]))
def test_noise_hardly_matters(seed: int, machine: tuple[Geometry, Constants]) -> None:
    """With 3 % of noise on each step, rates are found within 15 %, and other steps are predicted within 10 %."""
    geometry, constants = machine
    of = fitted(geometry)
    found = fit(of, seen(of, constants, noise=0.03, seed=seed))
    assert found.flops == pytest.approx(constants.flops, rel=0.15)
    assert found.bandwidth == pytest.approx(constants.bandwidth, rel=0.15)
    others = [((300, 7),), ((0, 700), (1500, 1)), ((900, 1),) * 6, ((0, 3000),)]
    truth = [
        Point(work, geometry.num_layers, of.predict(constants, Point(work, geometry.num_layers, 1.0)))
        for work in others
    ]
    assert residuals(of, found, truth).worst < 0.10


def test_a_disturbed_step_decides_little() -> None:
    """One of them took eight times as long as it should have."""
    of = fitted(TINY)
    points = seen(of, LAPTOP)
    index = next(index for index, point in enumerate(points) if not point.held_out and point.layers == 4)
    points[index] = Point(points[index].work, 4, 8 * points[index].seconds)
    assert residuals(of, fit(of, points), held_out(points)).worst < 0.06


def test_a_fit_beats_a_guess() -> None:
    """Held-out steps of a machine that is slower than its ceilings in every way, predicted from them alone and fitted."""
    of = fitted(TINY)
    points = seen(of, LAPTOP, noise=0.05)
    guess = Constants(2 * 0.78 * LAPTOP.flops, 2 * 0.9 * LAPTOP.bandwidth, 23e-6, step_overhead=0.5e-3)
    unseen = held_out(points)
    assert len(unseen) >= 8
    assert residuals(of, fit(of, points), unseen).median < 0.2 * residuals(of, guess, unseen).median


def test_what_is_not_there_is_not_found() -> None:
    of = fitted(TINY)
    found = fit(of, seen(of, Constants(1e11, 1e10)))
    assert (found.layer_overhead, found.request_overhead, found.step_overhead) == (0.0, 0.0, 0.0)
    assert found.flops == pytest.approx(1e11, rel=0.01)


def test_held_out_steps_have_no_part_in_the_fit() -> None:
    of = fitted(TINY)
    points = seen(of, LAPTOP)
    spoiled = [Point(p.work, p.layers, 100 * p.seconds, True) if p.held_out else p for p in points]
    assert fit(of, spoiled) == fit(of, points)


def test_a_rate_that_nothing_is_limited_by_stays_in_bounds() -> None:
    """Steps that only wait tell nothing of either rate; the fit must not run away with it."""
    of = fitted(TINY)
    found = fit(of, seen(of, Constants(1e20, 1e20, step_overhead=1e-3)))
    assert math.isfinite(found.flops)
    assert math.isfinite(found.bandwidth)
    assert of.predict(found, Point(((0, 64),), 4, 1.0)) == pytest.approx(1e-3, rel=0.01)
    limited = fit(of, seen(of, Constants(1e20, 1e20, step_overhead=1e-3)), most_flops=1e14, most_bandwidth=1e13)
    assert limited.flops <= 1.001e14
    assert limited.bandwidth <= 1.001e13


def test_too_few_steps() -> None:
    of = fitted(TINY)
    points = [point for point in seen(of, LAPTOP) if not point.held_out][: LEAST_POINTS - 1]
    with pytest.raises(EngineError, match="7 steps are too few to fit five constants; 8 are needed"):
        fit(of, [*points, *(Point(p.work, p.layers, p.seconds, held_out=True) for p in points)])


def test_residuals() -> None:
    points = [Point(((0, 1),), 1, seconds) for seconds in (1.0, 2.0, 4.0)]
    found = misses([1.1, 2.0, 3.0], points)
    assert (found.points, found.median, found.worst) == (3, pytest.approx(0.1), pytest.approx(0.25))
    assert misses([], []) == Residuals(points=0, median=0.0, worst=0.0)


# The file


def calibration(dtype: str = "float32", geometry: Geometry = TINY, machine: Constants = LAPTOP) -> Calibration:
    of = fitted(geometry)
    points = seen(of, machine)
    return Calibration(
        machine=Machine(
            device="Some CPU, 4 threads",
            type="cpu",
            memory=8 << 30,
            threads=4,
            kernels="torch",
            python="3.12.1",
            torch="2.11.0",
        ),
        date="2026-11-21T03:00:00Z",
        geometry=geometry,
        dtype=dtype,
        kv_cache_dtype="fp32",
        block_size=16,
        kv_token_bytes=of.kv_token_bytes,
        copy_bytes_per_s=2e10,
        matmul_flops_per_s=1.5e11,
        constants=machine,
        points=tuple(points),
    )


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    """The document of a calibration."""
    document: dict[str, Any] = json.loads(calibration().dump())
    return document


def written(folder: Path, document: object) -> str:
    path = folder / "c.json"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return str(path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = calibration()
    path = tmp_path / "c.json"
    path.write_bytes(kept.dump())
    read = load_calibration(str(path))
    assert (read.machine, read.constants, read.points) == (kept.machine, kept.constants, kept.points)
    assert read.document() == kept.document()
    document = CalibrationDocument.model_validate_json(kept.dump())
    assert (json.dumps(document.model_dump(mode="json", by_alias=True), indent=1) + "\n").encode() == kept.dump()


def test_the_file_says_how_good_it_is(good: dict[str, Any]) -> None:
    assert (good["kind"], good["version"]) == ("kvtool-calibration", 1)
    assert good["residuals"]["fit"]["worst"] == pytest.approx(0.0, abs=1e-12)
    assert good["residuals"]["fit"]["points"] + good["residuals"]["held_out"]["points"] == len(good["points"])
    for point in good["points"]:
        assert point["predicted_s"] == pytest.approx(point["seconds"])


HUGE = 10**30


@pytest.mark.parametrize(
    ("change", "message", "at"),
    [
        (
            lambda d: d.update(kind="kvtool-report"),
            "is not a calibration: its `kind` is not `kvtool-calibration`",
            '"kind"',
        ),
        (lambda d: d.pop("kind"), "is not a calibration", None),
        (lambda d: d.update(version=2), "version 2; this kvtool reads version 1", '"version"'),
        (lambda d: d.update(version=0), "`version` must be a whole number from 1 to", '"version"'),
        (
            lambda d: d["constants"].update(flops_per_s=-1.0),
            "`constants.flops_per_s` must be a number from 0",
            '"flops_',
        ),
        (
            lambda d: d["constants"].update(flops_per_s=0),
            "`constants.flops_per_s` must be a number of at least 1, not 0",
            '"flops_per',
        ),
        (lambda d: d["constants"].update(bytes_per_s=math.inf), "`constants.bytes_per_s` must be a n", '"bytes_per_s"'),
        (lambda d: d["constants"].update(step_overhead_s=math.nan), "step_overhead_s` must be a number", '"step_over'),
        (lambda d: d["constants"].update(layer_overhead_s=-1e-6), "layer_overhead_s` must be a number", '"layer_over'),
        (lambda d: d["constants"].update(layer_overhead_s="2"), 'from 0 to 1000, not "2"', '"layer_overhead_s"'),
        (lambda d: d["constants"].update(layer_overhead_s=HUGE), "from 0 to 1000, not 1000000", '"layer_overhead_s"'),
        (
            lambda d: d["constants"].pop("request_overhead_s"),
            "`constants.request_overhead_s` is missing",
            '"constants"',
        ),
        (lambda d: d.update(constants=[1]), "`constants.flops_per_s` is missing", '"constants"'),
        (
            lambda d: d["model"].update(num_layers=HUGE),
            "`model.num_layers` must be a whole number from 1",
            '"num_layers"',
        ),
        (lambda d: d["model"].update(hidden_size=True), "`model.hidden_size` must be a whole number", '"hidden_size"'),
        (lambda d: d["model"].update(num_heads=3), "not a multiple of `model.num_kv_heads`", '"num_heads"'),
        (lambda d: d["model"].update(dtype="int2"), "`model.dtype` must be one of float32", '"dtype"'),
        (lambda d: d["machine"].update(device=""), "`machine.device` must be a text of 1 to 200", '"device"'),
        (lambda d: d["machine"].update(device="x" * 999), "`machine.device` must be a text of 1 to 200", '"device"'),
        (lambda d: d["points"][2].update(seconds=0), "`points[2].seconds` must be above 0", None),
        (lambda d: d["points"][2].update(layers=5), "`points[2].layers` must be a whole number from 1 to 4", None),
        (lambda d: d["points"][2].update(held_out=1), "`points[2].held_out` must be true or false, not 1", None),
        (lambda d: d["points"][1].update(work=[[1]]), "`points[1].work[0]` must be two numbers", None),
        (lambda d: d["points"][1].update(work=[[0, 0]]), "`points[1].work[0][1]` must be a whole number from 1", None),
        (lambda d: d["points"][1].update(work={}), "`points[1].work` must be a list of 1 to 65,536 values", None),
        (lambda d: d.update(points=[]), "`points` must be a list of 1 to 10,000 values", '"points"'),
        (lambda d: d.update(points="[]"), "`points` must be a list", '"points"'),
    ],
)
def test_what_a_file_may_not_hold(
    tmp_path: Path, good: dict[str, Any], change: Callable[[dict[str, Any]], object], message: str, at: str | None
) -> None:
    document = copy.deepcopy(good)
    change(document)
    path = written(tmp_path, document)
    with pytest.raises(KvtoolError) as caught:
        load_calibration(path)
    assert message in caught.value.message
    assert caught.value.exit_code == 2
    place = caught.value.place
    assert place is not None
    assert place.path == path
    assert place.line is not None
    line = Path(path).read_text(encoding="utf-8").splitlines()[place.line - 1]
    assert place.excerpt == (line if len(line) <= 200 else None)
    assert at is None or at in line


def test_what_is_no_such_file(tmp_path: Path) -> None:
    for data, message, line in [
        (b"", "is empty", None),
        (b"\xff\xfe{\x00", "is UTF-16", None),
        (b'{"kind": "\xe9"}', "is not UTF-8", 1),
        (b'{\n"kind": \n}', "is not JSON: Expecting value", 3),
        (b"[" * 100_000, "is not JSON: nested too deeply", 1),
        (b"[1]", "not a JSON object", None),
        (b'{"kind": "kvtool-calibration", "version": ' + b"1" * 5000 + b"}", "is not JSON: Exceeds the limit", 1),
        (b'{"kind": "kvtool-calibration", "version": "\\u001b[31m"}', r'not "\u001b[31m"', 1),
    ]:
        path = tmp_path / "c.json"
        path.write_bytes(data)
        with pytest.raises(KvtoolError) as caught:
            load_calibration(str(path))
        assert message in caught.value.message
        assert (caught.value.place.line if caught.value.place is not None else None) == line


def test_files_that_are_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="no such file"):
        load_calibration(str(tmp_path / "nothing.json"))
    with pytest.raises(KvtoolError, match="is a directory"):
        load_calibration(str(tmp_path))
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(KvtoolError, match="is larger than 16 MiB"):
        load_calibration(str(large))


junk = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}), st.just([[]])
)


@given(st.data(), junk)
def test_any_value_may_be_junk(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, value: object) -> None:
    """It is read all the same, or refused; nothing else is raised."""
    document: Any = json.loads(calibration().dump())
    at = document
    key: Any = data.draw(st.sampled_from(sorted(at)))
    while isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
    at[key] = value
    path = written(tmp_path_factory.mktemp("junk"), document)
    try:
        read = load_calibration(path)
    except KvtoolError:
        return
    assert read.latency_model(LLAMA, kv_token_bytes=1e5).step_seconds([(0, 100)]) > 0


# Predictions

WORKLOAD = """\
version: 1
engine: {tokenizer: tokenizer.json}
groups:
  - name: one
    generate: {prefixes: 2, per_prefix: 4, prefix_tokens: 512, suffix_tokens: 64}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> Path:
    shutil.copy(bytes_json, tmp_path / "tokenizer.json")
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    (tmp_path / "c.json").write_bytes(calibration().dump())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def profiled(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert run(["profile", "w.yaml", "--dry-run", "--quiet", "--json", *flags]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_profile_predicts_for_the_machine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = profiled(capsys, "--calibration", "c.json", "--model", "llama-3.2-1b")
    config = document["config"]
    assert (config["accelerator"], config["calibration"]) == ("Some CPU, 4 threads", "c.json")
    assert (config["calibration_model"], config["calibration_dtype"]) == ("tiny", "float32")
    assert config["predicted_dtype"] == "bfloat16"
    geometry = find_geometry("llama-3.2-1b")
    model = LAPTOP.latency_model(geometry)
    assert document["ttft"]["predicted"]["off"]["p50"] == pytest.approx(model.prefill_seconds(576, 0, 8192))
    assert document["ttft"]["predicted"]["on"]["p50"] == pytest.approx(model.prefill_seconds(576, 512, 8192))


def test_without_one_nothing_changes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = profiled(capsys)
    assert document["config"]["calibration"] is None
    assert document["config"]["calibration_dtype"] is None
    predicted = LatencyModel(LLAMA, find_accelerator("h100")).prefill_seconds(576, 0, 8192)
    assert document["ttft"]["predicted"]["off"]["p50"] == pytest.approx(predicted)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("width", [60, 120])
def test_the_report_says_what_predictions_rest_on(
    folder: Path, capsys: pytest.CaptureFixture[str], dtype: str, width: int
) -> None:
    (folder / "c.json").write_bytes(calibration(dtype).dump())
    flags = ["--dry-run", "--quiet", "--width", str(width), "--calibration", "c.json"]
    assert run(["profile", "w.yaml", *flags]) == 0
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert "predicted: llama-3.1-8b (assumed), fitted on Some CPU, 4 threads" in text
    assert "roofline" not in text
    assert ("fitted with tiny in float32, predicted for bfloat16" in text) == (dtype == "float32")
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--accelerator", "h100"], "--calibration and --accelerator both say what the predictions are for"),
        (["--tensor-parallel", "2"], "a calibration covers one device, not a model shared by 2"),
    ],
)
def test_what_does_not_go_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert run(["profile", "w.yaml", "--dry-run", "--quiet", "--calibration", "c.json", *flags]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "  help: " in err


def test_a_bad_file_is_told_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "c.json").read_text(encoding="utf-8").replace('"flops_per_s": 120', '"flops_per_s": -120')
    (folder / "c.json").write_text(text, encoding="utf-8")
    assert run(["profile", "w.yaml", "--dry-run", "--quiet", "--calibration", "c.json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    line = next(number for number, row in enumerate(text.splitlines(), 1) if '"flops_per_s"' in row)
    assert err.startswith(f"error: c.json:{line}:")
    assert "`constants.flops_per_s` must be a number from 0 to 1e+24, not -120" in err
    assert "  help: kvtool bench -o FILE writes a new one" in err


def test_a_workload_may_name_an_accelerator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag wins over what the workload says."""
    text = (folder / "w.yaml").read_text(encoding="utf-8")
    (folder / "w.yaml").write_text(text.replace("engine: {", "engine: {accelerator: l4, "), encoding="utf-8")
    assert profiled(capsys)["config"]["accelerator"] == "l4"
    assert profiled(capsys, "--calibration", "c.json")["config"]["accelerator"] == "Some CPU, 4 threads"
