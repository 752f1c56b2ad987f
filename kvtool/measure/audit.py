"""Does reuse change what the model says: the logits of one runner against another's, token by token.

The runners differ in one thing: whether prefixes are reused (then nothing may flip, in fp32 with the native KV cache), or the type
in which keys and values are kept (then the difference is the price of the smaller type).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

from kvtool.results.run_times import Flip, Logits

if TYPE_CHECKING:
    import torch

    from kvtool.engine.model.model_runner import OnLogits
    from kvtool.engine.request import Request


@dataclass(slots=True)
class AuditResult:
    """Result of the comparison. A logit that is not a number differs by infinity."""

    requests: int = 0
    tokens: int = 0
    """Rows of logits that were compared."""
    max_difference: float = 0.0
    flips: list[Flip] = field(default_factory=list)
    least_margin: float = inf
    """The smallest lead of a greedy token over the next one, in the reference."""
    squared_difference: float = 0.0
    squared_spread: float = 0.0

    @property
    def relative_error(self) -> float:
        """Return the root mean square of the differences, as a part of the spread (standard deviation) of the reference's
        logits."""
        if not self.squared_difference:
            return 0.0
        if not (isfinite(self.squared_spread) and self.squared_spread):
            return inf
        return sqrt(self.squared_difference / self.squared_spread)

    def logits(self) -> Logits:
        """Return the audit as reports have it; what is infinite or unknown is None."""
        return Logits(
            requests=self.requests,
            tokens=self.tokens,
            max_difference=_finite(self.max_difference),
            relative_error=_finite(self.relative_error),
            least_margin=_finite(self.least_margin),
            flips=self.flips,
        )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


class Audit:
    """Takes the logits of two runners as they come and compares them request by request.

    `reference` and `candidate` are for `ModelRunner.on_logits`; they only keep a copy, so that timed runs are not slowed down.
    `settle`, after each request that both runners have finished, compares where both had the same tokens before: everywhere if
    outputs are forced, and up to the first flip if they are free.
    """

    def __init__(self) -> None:
        self.result = AuditResult()
        self._reference: dict[str, list[_Row]] = {}
        self._candidate: dict[str, list[_Row]] = {}

    def reference(self, request: Request, logits: torch.Tensor) -> None:
        """Receive the logits that are right."""
        self._reference.setdefault(request.id, []).append(_Row.of(request, logits))

    def candidate(self, request: Request, logits: torch.Tensor) -> None:
        """Receive the logits in question."""
        self._candidate.setdefault(request.id, []).append(_Row.of(request, logits))

    def drop(self, name: str) -> None:
        """Forget the logits of a candidate's run that only filled its cache."""
        self._candidate.pop(name, None)

    def settle(self) -> None:
        """Compare what both runners have said since the last time, request by request, and forget all of it."""
        for name, rows in self._reference.items():
            expected = {row.position: row for row in rows}
            compared = 0
            for row in self._candidate.get(name, ()):
                other = expected.get(row.position)
                if other is not None and other.outputs == row.outputs:
                    self._compare(name, other, row)
                    compared += 1
            self.result.requests += compared > 0
        self._reference.clear()
        self._candidate.clear()

    def _compare(self, name: str, reference: _Row, candidate: _Row) -> None:
        import torch

        expected, actual = (row.logits.to("cpu", torch.float64) for row in (reference, candidate))
        differences = (actual - expected).abs().masked_fill(actual == expected, 0.0).nan_to_num(nan=inf, posinf=inf)
        first, second = expected.topk(2).values.tolist() if len(expected) > 1 else (inf, 0.0)
        margin = first - second if isfinite(second) else inf
        difference = float(differences.max())
        result = self.result
        result.tokens += 1
        result.max_difference = max(result.max_difference, difference)
        result.least_margin = min(result.least_margin, margin)
        result.squared_difference += float(differences.square().mean())
        result.squared_spread += float(expected.var(correction=0))
        token, wanted = int(actual.argmax()), int(expected.argmax())
        if token != wanted:
            flip = Flip(
                request=name,
                position=reference.position,
                expected=wanted,
                actual=token,
                margin=_finite(margin),
                difference=_finite(difference),
            )
            result.flips.append(flip)


@dataclass(frozen=True, slots=True)
class _Row:
    """The logits after `outputs`, which are the request's so far; `position` tokens come before the one they are for."""

    position: int
    outputs: tuple[int, ...]
    logits: torch.Tensor

    @classmethod
    def of(cls, request: Request, logits: torch.Tensor) -> _Row:
        return cls(request.num_tokens, tuple(request.outputs), logits.clone())


def to_all(*hooks: OnLogits) -> OnLogits:
    """Return one hook that calls several: a run may be the candidate of one audit and the reference of another."""

    def call(request: Request, logits: torch.Tensor) -> None:
        for hook in hooks:
            hook(request, logits)

    return call
