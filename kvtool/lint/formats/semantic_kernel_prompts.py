"""Semantic Kernel: prompt functions in YAML (`template`, `template_format`); `skprompt.txt` is a text."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Style, at, items, text_at, word_at
from kvtool.text.files.yaml_nodes import Mapping

_STYLES: dict[str, Style] = {
    "": "mustache",
    "semantic-kernel": "mustache",
    "handlebars": "mustache",
    "liquid": "jinja",
    "jinja2": "jinja",
}


def read_semantic_kernel(file: DataFile) -> HeldPrompts | None:
    """A prompt function: a template beside its format, its settings or its typed variables."""
    root = file.mapping
    template = text_at(root, "template")
    if root is None or template is None:
        return None
    typed = any(isinstance(variable, Mapping) for variable in items(at(root, "input_variables")))
    named = word_at(root, "template_format") in _STYLES and "template_format" in root.values
    if not (typed or named or "execution_settings" in root.values) or "_type" in root.values:
        return None
    style = _STYLES.get(word_at(root, "template_format"), "mustache")
    return HeldPrompts(((file.part(template, style, strict=False),),))
