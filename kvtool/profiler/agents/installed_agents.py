"""List the agents that have a recipe, with the versions that are installed."""

from __future__ import annotations

import shutil

from kvtool.profiler.agents.agent_commands import AgentCommand, Recipe, is_tested, recipes, version_of
from kvtool.profiler.agents.agent_run import AgentFolder
from kvtool.profiler.agents.circumstances import BASE
from kvtool.results.documents.agent_recipes import AgentRecipes, InstalledAgent

_NO_SERVER = "http://127.0.0.1:9"


def list_recipes() -> AgentRecipes:
    """Ask each program that is found for its version, in an empty home."""
    with AgentFolder(_NO_SERVER, AgentCommand("", ("true",))) as folder:
        folder.prepare(BASE)
        return AgentRecipes(agents=[_installed(each, folder) for each in recipes().values()])


def _installed(recipe: Recipe, folder: AgentFolder) -> InstalledAgent:
    path = shutil.which(recipe.program)
    version = None if path is None else version_of([path], folder.environment())
    oldest, newest = recipe.tested
    made = InstalledAgent(
        name=recipe.name,
        title=recipe.title,
        install=recipe.install,
        oldest=oldest,
        newest=newest,
        version=version,
        status="not installed" if path is None else "unknown version",
    )
    if version is None:
        return made
    return made.model_copy(update={"status": "tried" if is_tested(version, recipe.tested) else "not tried"})
