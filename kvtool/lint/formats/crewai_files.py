"""CrewAI: `agents.yaml` with role, goal and backstory, and `tasks.yaml` with what is expected; `{name}` is filled in."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, texts
from kvtool.text.files.yaml_nodes import Mapping

_AGENT = ("role", "backstory", "goal")
"""In the order in which an agent is told who it is."""
_TASK = ("description", "expected_output")


def read_crewai(file: DataFile) -> HeldPrompts | None:
    """The agents or tasks of a file, each a prompt."""
    root = file.mapping
    found: list[Prompt] = []
    for node in root.values.values() if root is not None else ():
        for keys in (_AGENT, _TASK):
            parts = texts(node, *keys)
            if isinstance(node, Mapping) and len(parts) == len(keys):
                found.append(tuple(file.part(part, "format") for part in parts))
    return HeldPrompts(tuple(found)) if found else None
