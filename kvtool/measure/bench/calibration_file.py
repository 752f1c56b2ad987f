"""The file in which `kvtool bench` leaves what it fitted, for `--calibration` to read: JSON, checked value by value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.errors import KvtoolError, Place
from kvtool.measure.bench.calibration import Constants, Fitted, Point, residuals
from kvtool.results.documents.calibrated import (
    BothResiduals,
    CalibratedMachine,
    CalibratedModel,
    CalibrationDocument,
    CalibrationPoint,
    FittedConstants,
    Machine,
    Residuals,
)
from kvtool.text.files.json_file import json_of
from kvtool.text.files.json_position import line_and_column, nearest_start
from kvtool.text.files.text_files import read_text

KIND, VERSION = "kvtool-calibration", 1
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MOST_BYTES = 16 << 20  # a bound for hostile files, as are the next ones
_MOST_POINTS, _MOST_REQUESTS, _MOST_TOKENS = 10_000, 1 << 16, 1 << 31
_MOST_LAYERS, _MOST_WIDTH = 10_000, 1 << 30
_LEAST_RATE, _MOST_RATE, _MOST_SECONDS = 1.0, 1e24, 1e3
_EXCERPT = 200  # characters of a key that a message quotes
_SIZES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "intermediate_size", "vocab_size")
_AGAIN = "kvtool bench -o FILE writes a new one"


SERVER = "server"
"""The type of a machine of which only answers are known."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of the latency model for a machine, and everything that they were fitted to."""

    machine: Machine
    date: str
    """UTC, ISO 8601."""
    geometry: Geometry
    dtype: str
    kv_cache_dtype: str
    block_size: int
    kv_token_bytes: float
    copy_bytes_per_s: float
    matmul_flops_per_s: float
    constants: Constants
    points: tuple[Point, ...]

    @property
    def of_server(self) -> bool:
        """Return whether a server was timed: what it serves is what is predicted where nobody names another model."""
        return self.machine.type == SERVER

    @property
    def of(self) -> Fitted:
        """Return the model that the steps were timed on."""
        return Fitted(self.geometry, DTYPE_BYTES[self.dtype], self.kv_token_bytes)

    def residuals(self, *, held_out: bool) -> Residuals:
        """Return how far the predictions are off, of the points in the fit or of those held out."""
        return residuals(self.of, self.constants, [point for point in self.points if point.held_out == held_out])

    def latency_model(self, geometry: Geometry, *, kv_token_bytes: float) -> LatencyModel:
        """Return the latency model of any geometry on that machine."""
        machine = self.machine
        return self.constants.latency_model(
            geometry,
            device=machine.device,
            memory=machine.memory,
            kv_token_bytes=kv_token_bytes,
        )

    def document(self) -> CalibrationDocument:
        """Return the document; times in seconds."""
        constants = self.constants
        return CalibrationDocument(
            date=self.date,
            machine=CalibratedMachine(
                **dict(self.machine),
                copy_bytes_per_s=self.copy_bytes_per_s,
                matmul_flops_per_s=self.matmul_flops_per_s,
            ),
            model=CalibratedModel(
                name=self.geometry.name,
                **{name: getattr(self.geometry, name) for name in _SIZES},
                dtype=self.dtype,
                kv_cache_dtype=self.kv_cache_dtype,
                kv_bytes_per_token=self.kv_token_bytes,
                block_size=self.block_size,
            ),
            constants=FittedConstants(
                flops_per_s=constants.flops,
                bytes_per_s=constants.bandwidth,
                layer_overhead_s=constants.layer_overhead,
                request_overhead_s=constants.request_overhead,
                step_overhead_s=constants.step_overhead,
            ),
            residuals=BothResiduals(fit=self.residuals(held_out=False), held_out=self.residuals(held_out=True)),
            points=[self._point_document(point) for point in self.points],
        )

    def _point_document(self, point: Point) -> CalibrationPoint:
        return CalibrationPoint(
            work=list(point.work),
            layers=point.layers,
            held_out=point.held_out,
            seconds=point.seconds,
            predicted_s=self.of.predict(self.constants, point),
        )

    def dump(self) -> bytes:
        """Return the file."""
        data = self.document().model_dump(mode="json", by_alias=True)
        return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()


def load_calibration(path: str) -> Calibration:
    """Read and check a file; KvtoolError with the place of what cannot be."""
    read = _Reader(path)
    if read.value.get("kind") != KIND:
        raise read.error(f"`{path}` is not a calibration: its `kind` is not `{KIND}`", ("kind",))
    if (version := read.integer("version", most=1 << 31)) != VERSION:
        message = f"the calibration has version {version}; this kvtool reads version {VERSION}"
        raise read.error(
            message, ("version",), hint=f"a newer kvtool wrote it; {_AGAIN}" if version > VERSION else None
        )
    name = read.text("model", "name")
    sizes = {
        key: read.integer("model", key, most=_MOST_LAYERS if key == "num_layers" else _MOST_WIDTH) for key in _SIZES
    }
    geometry = Geometry(name=name, tied_embeddings=False, counted=None, **sizes)
    if geometry.num_heads % geometry.num_kv_heads:
        raise read.error("`model.num_heads` is not a multiple of `model.num_kv_heads`", ("model", "num_heads"))
    dtype = read.text("model", "dtype")
    if dtype not in DTYPE_BYTES:
        raise read.error(f"`model.dtype` must be one of {', '.join(DTYPE_BYTES)}", ("model", "dtype"))
    return Calibration(
        machine=_machine(read),
        date=read.text("date"),
        geometry=geometry,
        dtype=dtype,
        kv_cache_dtype=read.text("model", "kv_cache_dtype"),
        block_size=read.integer("model", "block_size", most=_MOST_TOKENS),
        kv_token_bytes=read.rate("model", "kv_bytes_per_token"),
        copy_bytes_per_s=read.rate("machine", "copy_bytes_per_s"),
        matmul_flops_per_s=read.rate("machine", "matmul_flops_per_s"),
        constants=Constants(
            flops=read.rate("constants", "flops_per_s"),
            bandwidth=read.rate("constants", "bytes_per_s"),
            layer_overhead=read.seconds("constants", "layer_overhead_s"),
            request_overhead=read.seconds("constants", "request_overhead_s"),
            step_overhead=read.seconds("constants", "step_overhead_s"),
        ),
        points=_points(read, geometry.num_layers),
    )


def _machine(read: _Reader) -> Machine:
    return Machine(
        device=read.text("machine", "device"),
        type=read.text("machine", "type"),
        memory=read.integer("machine", "memory_bytes", least=0, most=1 << 62),
        threads=read.integer("machine", "threads", most=1 << 20),
        kernels=read.text("machine", "kernels"),
        python=read.text("machine", "python"),
        torch=read.text("machine", "torch"),
        triton=read.text_or_none("machine", "triton"),
        driver=read.text_or_none("machine", "driver"),
    )


def _points(read: _Reader, most_layers: int) -> tuple[Point, ...]:
    points = []
    for index in range(read.length("points", most=_MOST_POINTS)):
        at = ("points", index)
        work = []
        for request in range(read.length(*at, "work", most=_MOST_REQUESTS)):
            where = (*at, "work", request)
            if read.length(*where, most=2) != 2:
                raise read.error(f"{_named(where)} must be two numbers: tokens before, and tokens now", where)
            before = read.integer(*where, 0, least=0, most=_MOST_TOKENS)
            work.append((before, read.integer(*where, 1, most=_MOST_TOKENS)))
        seconds = read.number(*at, "seconds", most=_MOST_SECONDS)
        if seconds <= 0:
            raise read.error(f"{_named((*at, 'seconds'))} must be above 0", (*at, "seconds"))
        layers = read.integer(*at, "layers", most=most_layers)
        points.append(Point(tuple(work), layers, seconds, read.flag(*at, "held_out")))
    return tuple(points)


def _named(pointer: tuple[str | int, ...]) -> str:
    """Return a path as `points[3].seconds`."""
    parts = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in pointer)
    return f"`{parts.removeprefix('.')}`"


class _Reader:
    """A JSON file whose values are asked for one by one; what is wrong is said with line and column."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._text = read_text(Path(path), shown=path, limit=_MOST_BYTES)
        value = json_of(self._text, shown=path, broken=f"`{path}` is not JSON: {{}}".format, hint=_AGAIN)
        if not isinstance(value, dict):
            raise KvtoolError(f"`{path}` is not a calibration: not a JSON object", hint=_AGAIN, place=Place(path))
        self.value: dict[str, object] = value

    def _place(self, line: int, column: int) -> Place:
        lines = self._text.splitlines()
        excerpt = lines[line - 1] if line <= len(lines) else ""
        return Place(self._path, line, column, excerpt if len(excerpt) <= _EXCERPT else None)

    def error(self, message: str, pointer: tuple[str | int, ...], *, hint: str | None = _AGAIN) -> KvtoolError:
        """Return a mistake at a value, or at what is around it where it is missing."""
        index = nearest_start(self._text, pointer)
        return KvtoolError(message, hint=hint, place=self._place(*line_and_column(self._text, index, 1, 1)))

    def _at(self, pointer: tuple[str | int, ...]) -> object:
        found: object = self.value
        for key in pointer:
            try:
                found = found[key]  # type: ignore[index]  # of anything else, it is a TypeError
            except (LookupError, TypeError):
                raise self.error(f"{_named(pointer)} is missing", pointer) from None
        return found

    def _wrong(self, pointer: tuple[str | int, ...], kind: str) -> KvtoolError:
        shown = json.dumps(self._at(pointer))  # escapes what a terminal would obey
        return self.error(
            f"{_named(pointer)} must be {kind}, not {shown if len(shown) <= 60 else shown[:57] + '...'}", pointer
        )

    def text(self, *pointer: str | int) -> str:
        value = self._at(pointer)
        if not isinstance(value, str) or not 0 < len(value) <= _EXCERPT:
            raise self._wrong(pointer, f"a text of 1 to {_EXCERPT} characters")
        return value

    def text_or_none(self, *pointer: str | int) -> str | None:
        return None if self._at(pointer) is None else self.text(*pointer)

    def flag(self, *pointer: str | int) -> bool:
        value = self._at(pointer)
        if not isinstance(value, bool):
            raise self._wrong(pointer, "true or false")
        return value

    def integer(self, *pointer: str | int, least: int = 1, most: int) -> int:
        value = self._at(pointer)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(pointer, f"a whole number from {least:,} to {most:,}")
        return value

    def number(self, *pointer: str | int, most: float) -> float:
        value = self._at(pointer)
        if (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most
        ):  # NaN is not, either
            raise self._wrong(pointer, f"a number from 0 to {most:g}")
        return float(value)

    def rate(self, *pointer: str | int) -> float:
        """Return the divisor."""
        value = self.number(*pointer, most=_MOST_RATE)
        if value < _LEAST_RATE:
            raise self._wrong(pointer, f"a number of at least {_LEAST_RATE:g}")
        return value

    def seconds(self, *pointer: str | int) -> float:
        return self.number(*pointer, most=_MOST_SECONDS)

    def length(self, *pointer: str | int, most: int) -> int:
        value = self._at(pointer)
        if not isinstance(value, list) or not 0 < len(value) <= most:
            raise self._wrong(pointer, f"a list of 1 to {most:,} values")
        return len(value)
