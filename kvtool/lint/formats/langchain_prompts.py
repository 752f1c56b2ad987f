"""LangChain: prompts saved as JSON or YAML (`_type: prompt`), and objects as `dumps` writes them (`"lc": 1`)."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, Style, at, items, text_at, texts, word_at
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode

_STYLES: dict[str, Style] = {"": "format", "f-string": "format", "jinja2": "jinja", "mustache": "mustache"}
_DEEPEST = 8


def read_langchain(file: DataFile) -> HeldPrompts | None:
    """A saved prompt: `_type`, or names of its variables beside its template; or a serialized one."""
    root = file.mapping
    if root is None:
        return None
    if "lc" in root.values and "kwargs" in root.values:
        found = _texts(file, root, 0)
        return HeldPrompts((found,)) if found else None
    names = items(at(root, "input_variables"))
    declared = "input_variables" in root.values and all(isinstance(name, Scalar) for name in names)
    if word_at(root, "_type") not in ("prompt", "few_shot", "chat") and not declared:
        return None
    if not texts(root, "template", "prefix", "suffix") and "messages" not in root.values:
        return None
    return HeldPrompts((_texts(file, root, 0),))


def _texts(file: DataFile, node: YamlNode | None, depth: int) -> Prompt:
    """The templates of a prompt, or of the messages in it, in their order."""
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return ()
    if isinstance(inner := at(node, "kwargs"), Mapping):
        node = inner
    style = _STYLES.get(word_at(node, "template_format"), "format")
    found: list[Scalar] = texts(node, "prefix")
    if (template := text_at(node, "template")) is not None:
        found.append(template)
    own = tuple(file.part(scalar, style) for scalar in found)
    messages = items(at(node, "messages"))
    parts = [part for message in messages for part in _texts(file, message, depth + 1)]
    parts += _texts(file, at(node, "prompt"), depth + 1)
    return (*own, *parts, *(file.part(scalar, style) for scalar in texts(node, "suffix")))
