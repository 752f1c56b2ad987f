"""`kvtool doctor --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Document, Model


class DoctorRow(Model):
    """One thing that was looked at: what was found, and what to do about it where there is something to do."""

    section: str
    name: str
    value: str
    status: Literal["ok", "note", "missing", "broken"]
    help: str


class DoctorDocument(Document):
    """Everything that was looked at."""

    schema_: Literal["kvtool.doctor/1"] = Field(alias="schema")
    ok: bool
    """Whether nothing is broken that kvtool needs."""
    items: list[DoctorRow]
