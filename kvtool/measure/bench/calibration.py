"""The constants of the latency model that fit the steps a machine was seen to run.

With five constants the model is not linear: a kernel that computes and moves bytes takes the root of the sum of both squares. So
the constants' logarithms, which also keeps them positive, are found by least squares of log(predicted / measured) with damped
Gauss-Newton steps (Levenberg 1944, Marquardt 1963). An error counts with its square up to `_HUBER` and beyond with its size
(Huber 1964), so that a step that something else disturbed decides little.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.accelerators import Accelerator
from kvtool.engine.prediction.latency import LatencyModel

if TYPE_CHECKING:
    from kvtool.results.documents.calibrated import (
        Residuals,  # pydantic, which machines for kernels alone need not have
    )

Floats = npt.NDArray[np.float64]
Work = tuple[tuple[int, int], ...]
"""For each request of a step, the tokens computed before and those computed now."""

LEAST_POINTS = 8  # points that a fit needs: more than it has constants
_HUBER = 0.1  # of log(seconds): points that are more than 10 % off count linearly
_NOTHING = 1e-9  # seconds: an overhead that a fit has pushed below is none
_RATES = (
    0.1,
    100.0,
)  # of what the points show to be reached: a rate that none of them is limited by would grow without end
_OVERHEADS = (1e-12, 1e3)  # seconds
_ROUNDS = 200  # steps of a descent at most


@dataclass(frozen=True, slots=True)
class Constants:
    """Rates that a machine reaches, and the fixed time of a step; FLOP/s, B/s and seconds."""

    flops: float
    bandwidth: float
    layer_overhead: float = 0.0
    request_overhead: float = 0.0
    step_overhead: float = 0.0

    def latency_model(
        self,
        geometry: Geometry,
        *,
        device: str = "",
        memory: int = 0,
        dtype_bytes: int = 2,
        kv_token_bytes: float | None = None,
    ) -> LatencyModel:
        """Return the embedded engine's times with a model of that geometry, on the machine that the constants are of."""
        return LatencyModel(
            geometry,
            Accelerator(device, self.flops, self.bandwidth, memory, "fitted by kvtool bench", compute_efficiency=1.0),
            dtype_bytes=dtype_bytes,
            bandwidth_efficiency=1.0,
            step_overhead=self.step_overhead,
            layer_overhead=self.layer_overhead,
            request_overhead=self.request_overhead,
            kv_token_bytes=kv_token_bytes,
            whole_last_layer=False,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A step that was timed, on the model with so many of its layers. Those held out have no part in the fit, but check it."""

    work: Work
    layers: int
    seconds: float
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Fitted:
    """The model that steps were timed on."""

    geometry: Geometry
    dtype_bytes: int
    kv_token_bytes: float
    """Keys and values of a token in all layers, as the cache stores them."""

    def predict(self, constants: Constants, point: Point) -> float:
        """Return seconds of the point's step."""
        return self.latency_model(constants, point.layers).step_seconds(point.work)

    def latency_model(self, constants: Constants, layers: int) -> LatencyModel:
        """Return the latency model of the model with so many of its layers."""
        return constants.latency_model(
            replace(self.geometry, num_layers=layers),
            dtype_bytes=self.dtype_bytes,
            kv_token_bytes=self.kv_token_bytes * layers / self.geometry.num_layers,
        )


def misses(predicted: Sequence[float], points: Sequence[Point]) -> Residuals:
    """Return how far predictions of the points are off."""
    from kvtool.results.documents.calibrated import Residuals

    errors = [abs(guess / point.seconds - 1) for guess, point in zip(predicted, points, strict=True)]
    if not errors:
        return Residuals(points=0, median=0.0, worst=0.0)
    return Residuals(points=len(errors), median=statistics.median(errors), worst=max(errors))


def residuals(of: Fitted, constants: Constants, points: Sequence[Point]) -> Residuals:
    """Return how far the constants' predictions of the points are off."""
    return misses([of.predict(constants, point) for point in points], points)


def fit(of: Fitted, points: Sequence[Point], *, most_flops: float = inf, most_bandwidth: float = inf) -> Constants:
    """Return the constants that predict the points best, those held out left aside; EngineError where there are fewer than
    LEAST_POINTS.

    What a layer takes and what a step takes can be distinguished only where the points have models of different depth. Of a
    rate that
    no point is limited by, nothing is known but how much the machine can do at `most`.
    """
    kept = [point for point in points if not point.held_out]
    if len(kept) < LEAST_POINTS:
        raise EngineError(f"{len(kept)} steps are too few to fit five constants; {LEAST_POINTS} are needed")
    start = _start(of, kept)
    faster = start + np.log([10.0, 10.0, 1.0, 1.0, 1.0])  # a way down from one side may end early
    low, high = (start + np.log([rate, rate, 1.0, 1.0, 1.0]) for rate in _RATES)
    low[2:], high[2:] = np.log(_OVERHEADS)
    high[:2] = np.maximum(np.minimum(high[:2], np.log([most_flops, most_bandwidth])), low[:2])
    fits = [_descend(of, kept, logs, low, high) for logs in (start, faster)]
    best = min(fits, key=lambda found: found[0])[1]
    flops, bandwidth, *overheads = (float(value) for value in np.exp(best))
    return Constants(flops, bandwidth, *(value if value >= _NOTHING else 0.0 for value in overheads))


def _start(of: Fitted, points: Sequence[Point]) -> Floats:
    """Return logarithms of the rates that the busiest points show to be reached, and of overheads that fill the shortest step."""
    flops = max(of.predict(Constants(1.0, inf), point) / point.seconds for point in points)
    bandwidth = max(of.predict(Constants(inf, 1.0), point) / point.seconds for point in points)
    shortest = min(points, key=lambda point: point.seconds)
    part = shortest.seconds / 3
    layer = part / shortest.layers
    return np.log([flops, bandwidth, layer, layer / len(shortest.work), part])


def _errors(of: Fitted, points: Sequence[Point], logs: Floats) -> Floats:
    """Return log(predicted / measured) of each point."""
    constants = Constants(*(float(value) for value in np.exp(logs)))
    models = {layers: of.latency_model(constants, layers) for layers in {point.layers for point in points}}
    return np.log([models[point.layers].step_seconds(point.work) / point.seconds for point in points])


def _loss(errors: Floats) -> float:
    size = np.abs(errors)
    return float(np.where(size < _HUBER, errors**2 / 2, _HUBER * (size - _HUBER / 2)).sum())


def _descend(of: Fitted, points: Sequence[Point], logs: Floats, low: Floats, high: Floats) -> tuple[float, Floats]:
    """Return loss and logarithms of the constants at the end of the way down from a start."""
    damping, step = 1e-2, 1e-5
    logs = np.clip(logs, low, high)
    errors = _errors(of, points, logs)
    loss = _loss(errors)
    for _ in range(_ROUNDS):
        slopes = np.stack([(_errors(of, points, logs + step * unit) - errors) / step for unit in np.eye(len(logs))], 1)
        weights = np.minimum(1.0, _HUBER / np.maximum(np.abs(errors), 1e-12))
        curvature, gradient = slopes.T @ (weights[:, None] * slopes), slopes.T @ (weights * errors)
        before = loss
        while damping < 1e9:
            damped = curvature + damping * np.diag(np.diag(curvature) + 1e-9)
            moved = np.clip(logs - np.clip(np.linalg.solve(damped, gradient), -1.0, 1.0), low, high)
            found = _errors(of, points, moved)
            if _loss(found) < loss:
                logs, errors, loss = moved, found, _loss(found)
                damping /= 4
                break
            damping *= 4
        if before - loss <= 1e-9 * before:
            break
    return loss, logs
