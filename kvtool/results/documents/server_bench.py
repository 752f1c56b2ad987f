"""`kvtool bench --server --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Seconds
from kvtool.results.documents.bench import Misses


class TimedPrompt(Model):
    """A kind of prompt, sent alone: seconds to the first token, the lower quartile of its runs, and what the fitted line says."""

    prompt_tokens: Count
    cached_tokens: Count
    seconds: Seconds
    fastest_s: Seconds
    slowest_s: Seconds
    fitted_s: float


class FittedLine(Model):
    """seconds = a + b x computed + c x computed x context, where context is what a computed token attends to on average."""

    a_s: Seconds
    b_s_per_token: float
    c_s_per_token_pair: float


class ServerBench(Document):
    """Seconds to the first token of one server. Misses are parts of the measured times."""

    schema_: Literal["kvtool.server-bench/1"] = Field(alias="schema")
    source: str
    version: str | None
    model: str
    requests: Count
    tokens: Count
    points: list[TimedPrompt]
    fitted: FittedLine
    fit: Misses
    held_out: Misses
    """Each point beside the line that is fitted to the others."""
    calibration_held_out: Misses | None
    """Of the file that was written, whose constants are those of the latency model: over two points that are not in its fit."""
