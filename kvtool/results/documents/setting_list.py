"""`kvtool config --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model


class SettingRow(Model):
    """A setting, its value as it was written, and where that comes from."""

    name: str
    value: str | bool | int | float | list[str] | None
    from_: Literal["flag", "variable", "workload", "config", "default"] = Field(alias="from")
    said_by: str | None
    """The flag or the variable."""
    path: str | None
    line: Count | None


class SettingsDocument(Document):
    """Every setting."""

    schema_: Literal["kvtool.settings/1"] = Field(alias="schema")
    config: str | None
    """The configuration file that was read."""
    settings: list[SettingRow]
