"""Misses that a log with reported usage shows: parts of `kvtool.report/1`. Tokens are as the provider or server counts them."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model
from kvtool.results.money import Amount

MissCause = Literal[
    "first_use",
    "prompt_changed",
    "tools_changed",
    "system_changed",
    "history_edited",
    "compaction",
    "resumed",
    "wire_form",
    "expired",
    "setting_changed",
    "model_changed",
    "key_changed",
    "host_changed",
    "below_minimum",
    "lookback",
    "marks_limit",
    "not_marked",
    "replicas",
    "answer_not_kept",
    "provider",
    "unknown",
]
Certainty = Literal["proven", "consistent", "simulated", "excluded", "unknown"]
"""How a cause is known: by a fact of the log, by facts that fit, by a run that gives the same reads, by exclusion, or not."""

MISS_CAUSES: dict[MissCause, str] = {
    "first_use": "sent before the answer that stores it",
    "prompt_changed": "text changed before it",
    "tools_changed": "tools changed",
    "system_changed": "system prompt changed",
    "history_edited": "history edited",
    "compaction": "conversation compacted",
    "resumed": "conversation resumed",
    "wire_form": "same text in another form",
    "expired": "expired before reuse",
    "setting_changed": "setting changed",
    "model_changed": "model changed",
    "key_changed": "cache key changed",
    "host_changed": "host changed",
    "below_minimum": "below the provider's minimum",
    "lookback": "beyond the look-back of the marks",
    "marks_limit": "too many marks",
    "not_marked": "no mark stores it",
    "replicas": "sent to another replica",
    "answer_not_kept": "answers are not cached",
    "provider": "lost by the provider",
    "unknown": "unknown: the log does not hold the cause",
}
"""Labels of the causes."""


class MissEvent(Model):
    """Tokens of one request that an earlier request had cached and that were not read, for one cause.

    `time` is in seconds since the log began, `gap` since the earlier request. `tokens` were promised and not read; the request
    wrote `written` tokens to the cache again (None: not reported). `cost` is their price above that of a read. `place` is the
    record of the change, and the way to it in its request.
    """

    request: str
    session: str | None
    time: float | None
    gap: float | None
    cause: MissCause
    certainty: Certainty
    tokens: Count
    written: Count | None
    cost: Amount | None
    detail: str
    place: str | None = None


class MissSum(Model):
    """Sums of the misses of one cause. `cost` is None where no price is known of any."""

    events: Count
    tokens: Count
    written: Count
    cost: Amount | None


class ReportAgreement(Model):
    """Of `requests` whose whole prompt the log holds, the prediction of `agree` is the report, to a block or to rounding.

    `advises`: that is enough to advise changes by predictions.
    """

    requests: Count
    agree: Count
    advises: bool


class Hypothesis(Model):
    """What a rerun of all requests shows: under it `agree` of the `requests` read what was reported.

    Of the `misses` it gives `explained`. `routing` is None where no rule of the router is known.
    """

    cause: MissCause
    replicas: Count
    routing: str | None
    explained: Count
    misses: Count
    agree: Count
    requests: Count


class FieldSeparation(Model):
    """A field of the records that separates `misses` without a known cause from `hits`: so many of each have `value` in it.

    `value` is a word or a digest; None: it changed since the request before of the session. `chance` is that of a field that
    separates as well without any cause, corrected for the `tried` fields and values.
    """

    field: str
    value: str | None
    misses: Count
    misses_with: Count
    hits: Count
    hits_with: Count
    chance: float
    tried: Count


class CacheMisses(Model):
    """All misses of the `requests` with reported reads, which have `prompt_tokens`.

    Of `promised` tokens, which earlier requests had cached, `read` were read; the sums of the causes are the rest.

    `events` has the largest ones, in the order of their requests; `left_out` counts the others.
    """

    requests: Count
    prompt_tokens: Count
    promised: Count
    read: Count
    by_cause: dict[MissCause, MissSum]
    events: list[MissEvent]
    left_out: Count
    rule_contradictions: list[str]
    predictable: bool
    """Whether documented rules predict these requests: the log holds what the rules need, and no report contradicts them."""
    calibration: ReportAgreement
    unknown_fields: list[str]
    """Parts of requests that this log does not hold: what they were is unknown, not absent."""
    separation: FieldSeparation | None = None
    """The field that separates misses without a known cause best; None: no field does so better than chance."""
    hypothesis: Hypothesis | None = None
    """The hypothesis under which a rerun gives the reported reads; None: none was needed, or none does."""


def hypothesis_in_words(found: Hypothesis) -> str:
    """Name a hypothesis: `with 3 replicas in turn`, `without answers in the cache`."""
    if found.cause == "answer_not_kept":
        return "without answers in the cache"
    turns = " in turn" if found.routing == "round-robin" else ""
    return f"with {found.replicas} replicas{turns}"
