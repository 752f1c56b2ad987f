"""Explain why a provider read more or less of a request than its rules predict: one cause for each token."""

from __future__ import annotations

from kvtool.accounting.caches.cache_rules import Prediction
from kvtool.workload.call import Call

_NEAR = 1.05
"""A prefix is about as short as the minimum where it is at most so many times as long."""


def difference_of(prediction: Prediction, reported: int, call: Call) -> list[tuple[str, int]]:
    """Return causes with their tokens; those of one sign only (`results.money`), and their sum is the whole difference."""
    delta = prediction.cached - reported
    if delta > 0:
        return [(_less(prediction), delta)]
    return _more(prediction, -delta, call) if delta else []


def _less(prediction: Prediction) -> str:
    """Explain why less was read than predicted: the first cause that applies."""
    rules = prediction.rules
    if rules is None:
        return "not_explained"
    if prediction.cached < max(
        _NEAR * rules.minimum, rules.minimum + (rules.step if rules.step < rules.minimum else 0)
    ):
        return "below_minimum"
    if prediction.other_settings:
        return "setting_changed"
    if rules.usual is not None and prediction.age is not None and prediction.age > rules.usual:
        return "expired"
    if prediction.unanswered:
        return "parallel"
    if rules.most_a_minute and prediction.in_a_minute > rules.most_a_minute:
        return "over_15_a_minute"
    return "not_explained"


def _more(prediction: Prediction, tokens: int, call: Call) -> list[tuple[str, int]]:
    """Explain why more was read: expired tokens, tokens never sent, and the rest."""
    found: list[tuple[str, int]] = []
    step = 1 if prediction.rules is None else prediction.rules.step
    kept = min(max(prediction.kept - prediction.cached, 0), tokens)
    if kept:
        found.append(("kept_longer", kept))
    left = tokens - kept
    reported = prediction.cached + tokens
    unknown = min(max(reported - prediction.known, 0), left)
    rounded = min(left, max(step, reported // 64))
    if left and left <= rounded and prediction.known > 0:
        return [*found, ("tokenizer", left)]
    if unknown:
        cut = call.incomplete is not None or call.uncounted
        found.append(("text_not_in_the_log" if cut else "warm_before_the_log", unknown))
    if left > unknown:
        found.append(("text_not_in_the_log", left - unknown))
    merged: dict[str, int] = {}
    for cause, count in found:
        merged[cause] = merged.get(cause, 0) + count
    return list(merged.items())
