"""The formats of prompts in files: which there are, by what they are known, and in which order they are tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.errors import KvtoolError
from kvtool.lint.formats.framework_files import (
    read_agent_templates,
    read_baml,
    read_crewai,
    read_dspy,
    read_langchain,
    read_llama_index,
    read_promptfoo,
    read_prompty,
    read_semantic_kernel,
)
from kvtool.lint.formats.jinja_prompts import jinja_template
from kvtool.lint.formats.mustache import mustache_nodes
from kvtool.lint.formats.plain_prompts import read_plain_strings, read_toml_prompts
from kvtool.lint.formats.prompt_data import DataFile, FilePrompts, Prompt, PromptText, Reader, read_messages
from kvtool.lint.formats.text_placeholders import traced_template
from kvtool.lint.skeleton import MARKED, Node

_YAML = (".yaml", ".yml")
_DATA = (*_YAML, ".json")


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """A format: its name, its suffixes, what of a text shows that it may be one, and a small example for the docs."""

    name: str
    suffixes: tuple[str, ...]
    evidence: re.Pattern[str]
    read: Reader
    example: str

    @property
    def language(self) -> str:
        """The language of the example, for a page that shows it. There `yaml` is a workload."""
        return "json" if self.example.startswith("{") else "text"


def _keys(*names: str) -> re.Pattern[str]:
    """Any of these keys, in YAML or JSON."""
    return re.compile(rf"[\"']?\b(?:{'|'.join(names)})[\"']?\s{{0,8}}:")


_ANY = re.compile("")
_HELD = r"\{\{|\{%|\{[A-Za-z_]\w{0,99}[}:!.\[]"
"""How placeholders in braces begin."""
FORMATS: tuple[PromptFormat, ...] = (
    PromptFormat(
        "Prompty",
        (".prompty", ".prompt"),
        _ANY,
        read_prompty,
        "---\nname: Support\n---\nsystem:\nYou help with {{ product }}.",
    ),
    PromptFormat(
        "BAML",
        (".baml",),
        re.compile(r"\bprompt\s{1,80}#{0,8}\""),
        read_baml,
        'prompt #"\n  {{ _.role("system") }} …\n"#',
    ),
    PromptFormat(
        "LangChain",
        _DATA,
        _keys("_type", "input_variables", "lc"),
        read_langchain,
        "_type: prompt\ninput_variables: [question]\ntemplate: 'Answer {question} …'",
    ),
    PromptFormat(
        "LlamaIndex",
        _DATA,
        _keys("template_vars"),
        read_llama_index,
        '{"template_vars": ["query_str"], "template": "{query_str} …"}',
    ),
    PromptFormat(
        "DSPy",
        (".json",),
        _keys("signature"),
        read_dspy,
        '{"predict": {"signature": {"instructions": "…"}, "demos": []}}',
    ),
    PromptFormat(
        "Semantic Kernel",
        _DATA,
        _keys("template"),
        read_semantic_kernel,
        "template_format: handlebars\ntemplate: 'Tell of {{topic}} …'",
    ),
    PromptFormat(
        "promptfoo",
        _DATA,
        _keys("prompts"),
        read_promptfoo,
        "prompts:\n  - file://prompts/answer.txt\n  - 'Translate {{text}} …'\nproviders: [echo]",
    ),
    PromptFormat(
        "agent templates",
        _YAML,
        _keys("system_template", "instance_template", "system_prompt"),
        read_agent_templates,
        "agent:\n  system_template: …\n  instance_template: 'Solve {{task}} …'",
    ),
    PromptFormat(
        "CrewAI",
        _YAML,
        _keys("backstory", "expected_output"),
        read_crewai,
        "researcher:\n  role: '{topic} researcher'\n  goal: …\n  backstory: …",
    ),
    PromptFormat(
        "messages",
        _DATA,
        _keys("role"),
        read_messages,
        "messages:\n  - {role: system, content: 'You help {name} …'}",
    ),
    PromptFormat(
        "TOML",
        (".toml",),
        re.compile(r"\b[\w-]{1,80}\"?[ \t]{0,20}=[ \t]{0,20}(?:\"\"\"|\'\'\')"),
        read_toml_prompts,
        '[review]\nsystem = """You review code …"""\nuser = """{{ diff }} …"""',
    ),
    PromptFormat(
        "texts with placeholders",
        _DATA,
        re.compile(f"{_HELD}|{MARKED}"),
        read_plain_strings,
        "prompts:\n  summary: |\n    Summarize {document} in the way that …",
    ),
)
"""In the order in which they are tried: the first that finds prompts is what a file is."""
FORMAT_SUFFIXES = tuple(dict.fromkeys(suffix for each in FORMATS for suffix in each.suffixes))
_PLACEHOLDER = re.compile(f"{_HELD}|{MARKED}|file://")
_VERB = re.compile(
    r"prompt|instruction|template|message|role|backstory|expected_output|input_variables|\blc\b|system|few_?shot"
    r"|parameters|variables|inputs",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReadPrompts:
    """The format of a file, the prompts in it, and the files that it names."""

    format: str
    prompts: tuple[Prompt, ...]
    files: tuple[str, ...]


def may_hold_prompts(path_suffix: str, text: str, *, named: bool = False) -> bool:
    """Return whether an unparsed text shows a format of this suffix. `named`: its path says that it is a prompt."""
    if path_suffix in _DATA and not (_PLACEHOLDER.search(text) and (named or _VERB.search(text))):
        return False
    return any(path_suffix in each.suffixes and each.evidence.search(text) for each in FORMATS)


def read_prompts(path: str, text: str) -> ReadPrompts | None:
    """The prompts of a file; None where it is of no format. KvtoolError, with the place, where it cannot be read."""
    file = DataFile(path, text)
    for each in FORMATS:
        if file.suffix in each.suffixes and each.evidence.search(text):
            found: FilePrompts | None = each.read(file)
            if found is not None:
                return ReadPrompts(each.name, found.prompts, found.files)
    return None


def prompt_nodes(prompt: Sequence[PromptText], *, sent: bool = False) -> list[Node]:
    """The texts of a prompt as nodes, one after the other; `sent`: as they are sent, also with values that never change."""
    return [node for part in prompt for node in _nodes(part, sent=sent)]


def _nodes(part: PromptText, *, sent: bool) -> list[Node]:
    if not part.text:
        return []
    if part.style == "jinja":
        try:
            return jinja_template(part.text)
        except KvtoolError:
            if part.strict:
                raise
            return mustache_nodes(part.text)
    if part.style == "mustache":
        return mustache_nodes(part.text)
    return traced_template(part.text, part.style, sent=sent)
