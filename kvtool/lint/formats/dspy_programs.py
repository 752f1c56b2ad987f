"""DSPy: saved programs. Instructions and demos stand before the inputs of a request, so nothing of them varies."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, at, items, nodes_below, text_at
from kvtool.text.files.yaml_nodes import Mapping, Scalar


def read_dspy(file: DataFile) -> HeldPrompts | None:
    """The predictors of a program, each with its signature and demos."""
    found: list[Prompt] = []
    for node in nodes_below(file.root):
        signature = at(node, "signature")
        instructions = text_at(signature, "instructions")
        if instructions is None or not (
            {"demos", "traces", "train"} & set(_keys(node)) or "fields" in _keys(signature)
        ):
            continue
        demos = [
            value for demo in items(at(node, "demos")) if isinstance(demo, Mapping) for value in demo.values.values()
        ]
        texts = [instructions, *(demo for demo in demos if isinstance(demo, Scalar) and demo.kind == "str")]
        found.append(tuple(file.part(text, "") for text in texts))
    return HeldPrompts(tuple(found)) if found else None


def _keys(node: object) -> list[str]:
    return list(node.values) if isinstance(node, Mapping) else []
