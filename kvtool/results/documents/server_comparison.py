"""`kvtool compare` of a server's counters with a report: predicted beside what was served."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.results.documents.watched import LoggedRate, ServerCounts

Reason = Literal[
    "configuration",
    "restart",
    "other traffic",
    "part of the workload",
    "other tokens",
    "warm start",
    "second tier",
    "preemptions",
    "unexplained",
]
"""Why the rates differ, as far as counters show it."""


class PredictedSums(Model):
    """Of all workloads of the report."""

    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    hit_rate: Ratio


class Explained(Model):
    """A reason with its figures, in words."""

    reason: Reason
    text: str


class BesideServer(Document):
    """Predicted beside served. `difference` is the server's hit rate less the predicted one; null where it looked nothing up."""

    schema_: Literal["kvtool.beside-server/1"] = Field(alias="schema")
    source: str
    report: str
    span: Literal["since its start", "between two scrapes"]
    server: str
    measured: bool
    predicted: PredictedSums
    served: ServerCounts
    difference: float | None
    agree: bool
    """Whether requests, tokens and hits are equal, one for one."""
    log: LoggedRate | None
    explained: list[Explained]
