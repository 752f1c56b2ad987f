"""`kvtool probe --doctor --json`: the agents that kvtool has recipes for, and which of them are installed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Document, Model

SCHEMA: Literal["kvtool.agent-recipes/1"] = "kvtool.agent-recipes/1"


class InstalledAgent(Model):
    """An agent with a recipe. `version` is null where its program is not found, or does not say one."""

    name: str
    title: str
    install: str
    oldest: str
    newest: str
    """The recipe was tried with versions from `oldest` to `newest`."""
    version: str | None
    status: Literal["tried", "not tried", "unknown version", "not installed"]


class AgentRecipes(Document):
    """All recipes."""

    schema_: Literal["kvtool.agent-recipes/1"] = Field(default=SCHEMA, alias="schema")
    agents: list[InstalledAgent]
