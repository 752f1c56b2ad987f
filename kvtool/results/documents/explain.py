"""`kvtool explain --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Document, Model


class Remedy(Model):
    """Something to do, and the proof that kvtool can give for it."""

    what: str
    tier: str | None


class Entry(Model):
    """A diagnostic code."""

    code: str
    name: str
    what: str
    why: str
    before: str
    after: str
    fixes: list[Remedy]
    ignore_when: str
    severity: str
    """What decides how severe its findings are; empty for codes of gates."""


class ExplainDocument(Document):
    """What codes mean."""

    schema_: Literal["kvtool.explain/1"] = Field(alias="schema")
    entries: list[Entry]
