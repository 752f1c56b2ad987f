"""promptfoo: the `prompts` of its configuration, written there or named as `file://…`; Nunjucks placeholders, as Jinja's."""

from __future__ import annotations

from pathlib import Path

from kvtool.lint.formats.message_lists import chat
from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, at, items, texts
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode

_FILE = "file://"
_READ = (".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml")
_BESIDE = frozenset(("providers", "targets", "tests", "defaultTest", "scenarios"))


def read_promptfoo(file: DataFile) -> HeldPrompts | None:
    """The prompts of a configuration, and the files that it names."""
    root = file.mapping
    if root is None or "prompts" not in root.values or not _BESIDE & set(root.values):
        return None
    prompts: list[Prompt] = []
    files: list[str] = []
    listed = root.values["prompts"]
    for item in items(listed) or [listed]:
        for text in [item] if isinstance(item, Scalar) else texts(item, "raw", "id"):
            name = _file_of(text)
            if name:
                files.append(name)
            elif text.kind == "str" and (isinstance(item, Scalar) or text is at(item, "raw")):
                prompts.append((file.part(text, "jinja"),))
        prompts += [found for found in [chat(file, _messages(item))] if found]
    return HeldPrompts(tuple(prompts), tuple(files))


def _messages(item: YamlNode) -> list[YamlNode]:
    return items(item) or items(at(item, "messages")) if isinstance(item, Mapping) or items(item) else []


def _file_of(text: Scalar) -> str:
    """The name of a file that is text, as configurations write it; empty where it is none."""
    name = text.value.strip()
    named = name.removeprefix(_FILE)
    if "\n" in named or "*" in named or Path(named).suffix.lower() not in _READ:
        return ""
    return named if name.startswith(_FILE) or " " not in named else ""
