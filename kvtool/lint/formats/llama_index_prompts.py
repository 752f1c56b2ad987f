"""LlamaIndex: prompt templates as its models write them to JSON, with `template_vars` and `{name}` in the text."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, at, items, nodes_below, text_at, texts
from kvtool.text.files.yaml_nodes import Mapping


def read_llama_index(file: DataFile) -> HeldPrompts | None:
    """Every template of the file that names its variables."""
    found: list[Prompt] = []
    for node in nodes_below(file.root):
        if isinstance(node, Mapping) and "template_vars" in node.values:
            messages = items(at(node, "message_templates"))
            parts = texts(node, "template")
            for message in messages:
                parts += texts(message, "content")
                parts += [
                    text for block in items(at(message, "blocks")) if (text := text_at(block, "text")) is not None
                ]
            if parts:
                found.append(tuple(file.part(part, "format") for part in parts))
    return HeldPrompts(tuple(found)) if found else None
