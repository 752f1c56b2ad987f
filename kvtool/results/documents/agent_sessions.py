"""`kvtool sessions --json`. Nothing quotes a prompt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model
from kvtool.results.misses import Compaction, MissRow, TtlCosts


class SessionFolder(Model):
    """A folder that was read. `agent` is null for a folder that was named."""

    agent: str | None
    path: str
    files: Count
    bytes: Count


class SessionRow(MissRow):
    """A session, and the newest of its files."""

    path: str


class SessionsDocument(Document):
    """Sessions of coding agents, the costliest misses first. All sums are of `sessions` and `subagents` together."""

    schema_: Literal["kvtool.sessions/1"] = Field(default="kvtool.sessions/1", alias="schema")
    folders: list[SessionFolder]
    partial: bool
    """Whether it was interrupted: then only the newest files were read."""
    files: Count
    known_files: Count
    """Of these, files whose sums were known from an earlier run, as they did not change."""
    files_without_usage: Count
    """Files without a request that reports its reads."""
    copied_calls: Count
    """Calls that another file has, too: they count once."""
    skipped: Count
    """Records that are damaged, or of an unknown type."""
    local_times: Count = 0
    """Requests whose time has no zone, taken as UTC; and (`zoned_times`) those whose time has one."""
    zoned_times: Count = 0
    wrong_usage: str | None = None
    """How many requests report usage that contradicts itself, with the place of the first."""
    left_out: dict[str, Count]
    """Records that are no requests, by kind."""
    failed: dict[str, str]
    """By path, why a file or a folder could not be read."""
    total: MissRow
    ttl: TtlCosts | None
    """The price of these sessions with marks for 5 minutes and for an hour; of whole files."""
    compactions: list[Compaction]
    sessions: list[SessionRow]
    subagents: list[SessionRow]
    """The same of conversations that an agent began with another one."""
