"""Prompts as frameworks keep them in files: a function for each format."""

from __future__ import annotations

import re
from pathlib import Path

from kvtool.lint.formats.prompt_data import (
    DataFile,
    FilePrompts,
    Prompt,
    PromptText,
    Style,
    at,
    chat,
    found_style,
    items,
    nodes_below,
    text_at,
    texts,
    word_at,
)
from kvtool.lint.front_matter import front_matter
from kvtool.text.files.yaml_nodes import Mapping, Scalar, YamlNode

_LANGCHAIN_STYLES: dict[str, Style] = {"": "format", "f-string": "format", "jinja2": "jinja", "mustache": "mustache"}
_DEEPEST_MESSAGE = 8


def read_langchain(file: DataFile) -> FilePrompts | None:
    """A saved prompt: `_type`, or names of its variables beside its template; or a serialized one."""
    root = file.mapping
    if root is None:
        return None
    if "lc" in root.values and "kwargs" in root.values:
        found = _langchain_texts(file, root, 0)
        return FilePrompts((found,)) if found else None
    names = items(at(root, "input_variables"))
    declared = "input_variables" in root.values and all(isinstance(name, Scalar) for name in names)
    if word_at(root, "_type") not in ("prompt", "few_shot", "chat") and not declared:
        return None
    if not texts(root, "template", "prefix", "suffix") and "messages" not in root.values:
        return None
    return FilePrompts((_langchain_texts(file, root, 0),))


def _langchain_texts(file: DataFile, node: YamlNode | None, depth: int) -> Prompt:
    """The templates of a prompt, or of the messages in it, in their order."""
    if not isinstance(node, Mapping) or depth > _DEEPEST_MESSAGE:
        return ()
    if isinstance(inner := at(node, "kwargs"), Mapping):
        node = inner
    style = _LANGCHAIN_STYLES.get(word_at(node, "template_format"), "format")
    found: list[Scalar] = texts(node, "prefix")
    if (template := text_at(node, "template")) is not None:
        found.append(template)
    own = tuple(file.part(scalar, style) for scalar in found)
    messages = items(at(node, "messages"))
    parts = [part for message in messages for part in _langchain_texts(file, message, depth + 1)]
    parts += _langchain_texts(file, at(node, "prompt"), depth + 1)
    return (*own, *parts, *(file.part(scalar, style) for scalar in texts(node, "suffix")))


def read_llama_index(file: DataFile) -> FilePrompts | None:
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
    return FilePrompts(tuple(found)) if found else None


def read_dspy(file: DataFile) -> FilePrompts | None:
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
    return FilePrompts(tuple(found)) if found else None


def _keys(node: object) -> list[str]:
    return list(node.values) if isinstance(node, Mapping) else []


_KERNEL_STYLES: dict[str, Style] = {
    "": "mustache",
    "semantic-kernel": "mustache",
    "handlebars": "mustache",
    "liquid": "jinja",
    "jinja2": "jinja",
}


def read_semantic_kernel(file: DataFile) -> FilePrompts | None:
    """A prompt function: a template beside its format, its settings or its typed variables."""
    root = file.mapping
    template = text_at(root, "template")
    if root is None or template is None:
        return None
    typed = any(isinstance(variable, Mapping) for variable in items(at(root, "input_variables")))
    named = word_at(root, "template_format") in _KERNEL_STYLES and "template_format" in root.values
    if not (typed or named or "execution_settings" in root.values) or "_type" in root.values:
        return None
    style = _KERNEL_STYLES.get(word_at(root, "template_format"), "mustache")
    return FilePrompts(((file.part(template, style, strict=False),),))


_FILE_URL = "file://"
_FILE_SUFFIXES = (".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml")
_PROMPTFOO_KEYS = frozenset(("providers", "targets", "tests", "defaultTest", "scenarios"))


def read_promptfoo(file: DataFile) -> FilePrompts | None:
    """The prompts of a configuration, and the files that it names."""
    root = file.mapping
    if root is None or "prompts" not in root.values or not _PROMPTFOO_KEYS & set(root.values):
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
    return FilePrompts(tuple(prompts), tuple(files))


def _messages(item: YamlNode) -> list[YamlNode]:
    return items(item) or items(at(item, "messages")) if isinstance(item, Mapping) or items(item) else []


def _file_of(text: Scalar) -> str:
    """The name of a file that is text, as configurations write it; empty where it is none."""
    name = text.value.strip()
    named = name.removeprefix(_FILE_URL)
    if "\n" in named or "*" in named or Path(named).suffix.lower() not in _FILE_SUFFIXES:
        return ""
    return named if name.startswith(_FILE_URL) or " " not in named else ""


_FIRST_TURN = ("system_template", "demonstration_template", "instance_template")
"""What a task begins with. What later turns add is at the end of all."""
_SMOLAGENTS_PARTS = ("planning", "managed_agent", "final_answer")


def read_agent_templates(file: DataFile) -> FilePrompts | None:
    """Return the first request of a task for each agent; for smolagents each prompt."""
    found: list[Prompt] = [
        tuple(file.part(text, "jinja") for text in texts(node, *_FIRST_TURN))
        for node in nodes_below(file.root)
        if texts(node, "system_template", "instance_template")
    ]
    root = file.mapping
    if (
        root is not None
        and texts(root, "system_prompt")
        and any(isinstance(at(root, part), Mapping) for part in _SMOLAGENTS_PARTS)
    ):
        found += [(file.part(text, "jinja"),) for text in texts(root, "system_prompt")]
        for name in _SMOLAGENTS_PARTS:
            part = at(root, name)
            for text in part.values.values() if isinstance(part, Mapping) else ():
                if isinstance(text, Scalar) and text.kind == "str":
                    found.append((file.part(text, "jinja"),))
    return FilePrompts(tuple(found)) if found else None


_CREWAI_AGENT = ("role", "backstory", "goal")
"""In the order in which an agent is reported who it is."""
_CREWAI_TASK = ("description", "expected_output")


def read_crewai(file: DataFile) -> FilePrompts | None:
    """The agents or tasks of a file, each a prompt."""
    root = file.mapping
    found: list[Prompt] = []
    for node in root.values.values() if root is not None else ():
        for keys in (_CREWAI_AGENT, _CREWAI_TASK):
            parts = texts(node, *keys)
            if isinstance(node, Mapping) and len(parts) == len(keys):
                found.append(tuple(file.part(part, "format") for part in parts))
    return FilePrompts(tuple(found)) if found else None


_IS_MUSTACHE = re.compile(
    r"^\s{0,8}(?:template|type|format|templateFormat)[ \t]*:[ \t]*(?:mustache|handlebars)\b", re.MULTILINE
)


def read_prompty(file: DataFile) -> FilePrompts | None:
    """Return the text after the front matter: Jinja, unless the front matter names another format."""
    front = front_matter(file.text)
    body = file.whole(front.end() if front is not None else 0)
    style: Style = "jinja"
    if file.suffix == ".prompt":
        style = "mustache" if front is not None else found_style(body)
    if front is not None and _IS_MUSTACHE.search(front[1]):
        style = "mustache"
    return FilePrompts(((PromptText(body, style, strict=file.suffix == ".prompty"),),))


_BAML_PROMPT = re.compile(r"\bprompt\s{1,80}(#{1,8})\"|\bprompt\s{1,80}\"(?=[^\"\n])")


def read_baml(file: DataFile) -> FilePrompts | None:
    """Each prompt of the file."""
    whole = file.whole()
    found: list[Prompt] = []
    at = 0
    while (opening := _BAML_PROMPT.search(file.text, at)) is not None:
        end = file.text.find('"' + (opening[1] or ""), opening.end())
        if end < 0:
            break
        found.append((PromptText(whole[opening.end() : end], "jinja", strict=False),))
        at = end + 1
    return FilePrompts(tuple(found))
