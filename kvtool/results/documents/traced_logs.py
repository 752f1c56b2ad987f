"""`kvtool trace --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.choices import TraceFormat
from kvtool.results.document_base import Count, Document, Model


class LogTrace(Model):
    """A log and its block trace."""

    log: str
    trace: str
    requests: Count
    blocks: Count
    """Of all its requests, answers included."""
    kept: bool
    """The trace was there before, of the same log and the same options."""
    notes: list[str]


class UntracedLog(Model):
    """A log that could not be read, and why."""

    log: str
    message: str


class ReplayFile(Model):
    """An anonymised trace of all logs."""

    path: str
    format: TraceFormat
    block_size: Count
    requests: Count
    distinct_blocks: Count
    notes: list[str]


class TraceDocument(Document):
    """The traces that are there now."""

    schema_: Literal["kvtool.trace/1"] = Field(default="kvtool.trace/1", alias="schema")
    output: str
    traces: list[LogTrace]
    failed: list[UntracedLog]
    alike: bool = True
    """The traces can be read as one: their blocks have one size and their times one clock."""
    replay: ReplayFile | None = None
    """With --export, in place of block traces."""
