"""`kvtool schema --json`."""

from __future__ import annotations

from pydantic import RootModel


class SchemaList(RootModel[dict[str, str]]):
    """What each schema is of, by its name."""
