"""The line that fits a server's times to the first token, and the calibration for predictions.

seconds = a + b x computed + c x computed x context: an overhead, the work of each token, and what it attends to. None of the three
is below 0. Relative errors are made small, and one that something else disturbed decides little (Huber 1964).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import numpy.typing as npt

from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.sizing import block_bytes
from kvtool.measure.bench.calibration import Fitted, Point, fit
from kvtool.measure.bench.calibration_file import DTYPE_BYTES, SERVER, Calibration
from kvtool.results.documents.bench import Misses
from kvtool.results.documents.calibrated import Machine
from kvtool.results.documents.server_bench import FittedLine

_HUBER = 0.1  # of log(seconds), as in bench/calibration.py
_ROUNDS = 30  # of reweighting


@dataclass(frozen=True, slots=True)
class TimedPrefill:
    """Tokens of a prompt that were in the cache, those that were computed, and the seconds to its first token.

    `runs` are those of all prompts of the kind; `seconds` is their lower quartile, as what disturbs a run makes it longer.
    """

    cached: int
    computed: int
    seconds: float
    runs: tuple[float, ...]
    held_out: bool

    @property
    def terms(self) -> tuple[float, float, float]:
        """Return the factors of the three constants."""
        return 1.0, float(self.computed), self.computed * (self.cached + (self.computed + 1) / 2)


def fitted_line(points: Sequence[TimedPrefill]) -> FittedLine:
    """Fit a line to all points."""
    rows = np.array([np.array(point.terms) / point.seconds for point in points])
    weights = np.ones(len(points))
    found = np.zeros(3)
    for _ in range(_ROUNDS):
        found = _not_negative(rows, weights)
        errors = np.abs(rows @ found - 1)
        weights = np.minimum(1.0, _HUBER / np.maximum(errors, 1e-12))
    a, b, c = (float(value) for value in found)
    return FittedLine(a_s=a, b_s_per_token=b, c_s_per_token_pair=c)


def _not_negative(rows: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the least squares of rows x constants = 1 with no constant below 0: of three, every choice can be tried."""
    root = np.sqrt(weights)
    best, least = np.zeros(3), np.inf
    for count in (1, 2, 3):
        for chosen in map(list, combinations(range(3), count)):
            part, *_ = np.linalg.lstsq(rows[:, chosen] * root[:, None], root, rcond=None)
            if (part < 0).any():
                continue
            error = float((weights * (rows[:, chosen] @ part - 1) ** 2).sum())
            if error < least:
                least, best = error, np.zeros(3)
                best[chosen] = part
    return best


def fitted_seconds(line: FittedLine, point: TimedPrefill) -> float:
    """Return the seconds of a prompt on the line."""
    one, computed, pairs = point.terms
    return line.a_s * one + line.b_s_per_token * computed + line.c_s_per_token_pair * pairs


def line_misses(points: Sequence[TimedPrefill], *, held_out: bool) -> Misses:
    """Return how far the line is off, as parts of the measured times: of all points, or of each one with a line over the others."""
    whole = fitted_line(points)
    errors = []
    for at, point in enumerate(points):
        line = fitted_line([*points[:at], *points[at + 1 :]]) if held_out else whole
        errors.append(abs(fitted_seconds(line, point) / point.seconds - 1))
    return Misses(median=statistics.median(errors), worst=max(errors))


def server_calibration(
    points: Sequence[TimedPrefill], geometry: Geometry, *, server: str, dtype: str, kv_cache_dtype: str, block_size: int
) -> Calibration:
    """Return the constants of the latency model with which a model of that geometry takes these times."""
    steps = tuple(
        Point(((point.cached, point.computed),), geometry.num_layers, point.seconds, point.held_out) for point in points
    )
    bytes_per_token = block_bytes(geometry, 1, kv_cache_dtype)
    constants = fit(Fitted(geometry, DTYPE_BYTES[dtype], bytes_per_token), steps)
    machine = Machine(
        device=server, type=SERVER, memory=0, threads=1, kernels="of the server", python="not told", torch="not told"
    )
    return Calibration(
        machine=machine,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        geometry=geometry,
        dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
        block_size=block_size,
        kv_token_bytes=bytes_per_token,
        copy_bytes_per_s=constants.bandwidth,
        matmul_flops_per_s=constants.flops,
        constants=constants,
        points=steps,
    )
