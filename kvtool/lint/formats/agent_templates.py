"""Agents' templates in YAML: mini-swe-agent and SWE-agent (`system_template`), smolagents (`system_prompt` and its parts)."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, at, nodes_below, texts
from kvtool.text.files.yaml_nodes import Mapping, Scalar

_FIRST_TURN = ("system_template", "demonstration_template", "instance_template")
"""What a task begins with. What later turns add stands at the end of all."""
_PARTS = ("planning", "managed_agent", "final_answer")


def read_agent_templates(file: DataFile) -> HeldPrompts | None:
    """Of each agent the first request of a task; of smolagents each prompt."""
    found: list[Prompt] = [
        tuple(file.part(text, "jinja") for text in texts(node, *_FIRST_TURN))
        for node in nodes_below(file.root)
        if texts(node, "system_template", "instance_template")
    ]
    root = file.mapping
    if (
        root is not None
        and texts(root, "system_prompt")
        and any(isinstance(at(root, part), Mapping) for part in _PARTS)
    ):
        found += [(file.part(text, "jinja"),) for text in texts(root, "system_prompt")]
        for name in _PARTS:
            part = at(root, name)
            for text in part.values.values() if isinstance(part, Mapping) else ():
                if isinstance(text, Scalar) and text.kind == "str":
                    found.append((file.part(text, "jinja"),))
    return HeldPrompts(tuple(found)) if found else None
