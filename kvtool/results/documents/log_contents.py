"""`kvtool logs --json`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model


class LogRow(Model):
    """A request as the log tells it; null where it does not."""

    id: str | None = None
    """Its own, where that is more than the number of its line."""
    messages: list[tuple[str, str]] | None = None
    """Role and text of each; only with `--show-text full`."""
    text: str | None = None
    tools: list[str] | None = None
    session: str | None = None
    turn: Count | None = None
    tenant: str | None = None
    time: float | None = None
    """Seconds since 1970, where the log's clock is that."""
    model: str | None = None
    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cache_write_5m_tokens: Count | None = None
    """Those of `cache_write_tokens` that are kept for 5 minutes."""
    cache_write_1h_tokens: Count | None = None
    cache_write_12h_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    """Those of `output_tokens` that are reasoning."""
    cost: float | None = None
    """US dollars, as the log reports it."""
    subagent: bool | None = None
    """True where another agent started the one that sent it."""
    incomplete: str | None = None
    """Why this is not the whole prompt."""


class LogExample(Model):
    """The first of its kind: a format of requests, or what was left out."""

    kind: str
    is_request: bool
    count: Count
    path: str
    line: Count | None
    says: str
    """What it holds, without any text of it."""


class LogsDocument(Document):
    """What is in logs. Counts are of requests, where they do not say of what."""

    schema_: Literal["kvtool.logs/1"] = Field(alias="schema")
    format: str
    """The names of the formats, between commas."""
    files: dict[str, str]
    """By path, the formats found in it."""
    records: Count
    requests: Count
    left_out: dict[str, Count]
    """By kind, in the plural, what is no request; `other spans` are those of all kinds."""
    left_out_kinds: dict[str, Count]
    """The same, in the singular, each kind of span by itself."""
    skipped: Count
    """Records that could not be read."""
    repeated: Count
    """Calls that were logged once more, and are counted once."""
    sessions: Count
    tenants: Count
    models: dict[str, Count]
    first_time: float | None
    last_time: float | None
    usage: dict[str, Count]
    """By what servers report, how many requests say it."""
    incomplete: dict[str, Count]
    """By why, prompts that are not whole in the log."""
    not_text: dict[str, Count]
    """By kind, parts of prompts that are no text, and not counted."""
    examples: list[LogExample]
    notes: list[str]
    rows: list[LogRow] | None = None

    def data(self) -> dict[str, Any]:
        """As plain data; what a request does not say is left out of its row."""
        data = super().data()
        if self.rows is None:
            del data["rows"]
        else:
            data["rows"] = [row.model_dump(mode="json", exclude_none=True) for row in self.rows]
        return data
