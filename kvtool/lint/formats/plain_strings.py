"""Long texts in natural language that hold placeholders, in YAML or JSON of no known form."""

from __future__ import annotations

import re

from kvtool.lint.formats.declared_texts import declared_texts
from kvtool.lint.formats.message_lists import chat
from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, found_style
from kvtool.lint.formats.role_sections import role_sections
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode

PROMPT_WORD = re.compile(r"prompt|instruction|persona|backstory", re.IGNORECASE)
_INSTRUCTIONS = re.compile(r"prompt|instructions?$", re.IGNORECASE)
_TEMPLATE_WORD = re.compile(r"template|message|system|task|goal|content", re.IGNORECASE)
_SCRIPT_KEYS = frozenset(
    ("run", "script", "command", "cmd", "args", "shell", "query", "sql", "url", "path", "if", "when")
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_VERSION = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?|v?\d{1,4}(?:[._]\d{1,4}){0,3}|default|latest")
"""Keys of the versions of one text, by language or by number: the key above says what it is."""
_WRITTEN_TIGHT = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that need few of them, and few spaces."""
_CODE = re.compile(
    r"^\s{0,80}(?:#!|\$ |set -|export |if \[|for \w+ in |SELECT |def |import |function |const |let )", re.MULTILINE
)
LEAST_WORDS = 30
_SURE_WORDS = 60


def read_plain_strings(file: DataFile) -> HeldPrompts | None:
    """Each such text whose key or file is named so, whose variables are declared, or that is long enough to be nothing else."""
    found: list[Prompt] = []
    named = PROMPT_WORD.search(file.path) is not None
    waiting: list[tuple[YamlNode, str, bool]] = [(file.root, "", False)]
    seen: set[int] = set()
    while waiting:
        node, key, below = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            below = below or PROMPT_WORD.search(key) is not None
            sections = role_sections(node)
            if sections and _are_prompt(sections, key):
                found.append(tuple(file.part(one, None) for one in sections))
                continue
            declared = declared_texts(node)
            waiting += reversed(
                [
                    (value, key if _VERSION.fullmatch(name) else name, below or name in declared)
                    for name, value in node.values.items()
                ]
            )
        elif isinstance(node, Sequence):
            messages = chat(file, node.items)
            words = LEAST_WORDS if named or below or PROMPT_WORD.search(key) else _SURE_WORDS
            if messages and is_prompt("\n".join(str(one.text) for one in messages), words, f"{key} message"):
                found.append(messages)
                continue
            waiting += reversed([(item, key, below) for item in node.items])
        elif isinstance(node, Scalar) and node.kind == "str":
            words = LEAST_WORDS if named or below or PROMPT_WORD.search(key) else _SURE_WORDS
            if key.lower() not in _SCRIPT_KEYS and is_prompt(node.value, words, key):
                found.append((file.part(node, None),))
    return HeldPrompts(tuple(found)) if found else None


def _are_prompt(sections: list[Scalar], key: str) -> bool:
    """Whether the sections of a request, one of them with a placeholder, are natural language."""
    return is_prompt("\n".join(one.value for one in sections), LEAST_WORDS, f"{key} prompt")


def is_prompt(text: str, words: int, key: str) -> bool:
    """Natural language of so many words with a placeholder in it, and no code. Elsewhere its key has to fit, too."""
    code = _CODE.match(text) if _INSTRUCTIONS.search(key) else _CODE.search(text)  # what instructs may show code
    tight = len(_WRITTEN_TIGHT.findall(text))
    if not found_style(text) or code or text.count("\n") + 1 > 4 * (text.count(" ") + tight // 4):
        return False
    if words == _SURE_WORDS and not _TEMPLATE_WORD.search(key):
        return False
    found = sum(1 for _ in _WORD.finditer(text))
    letters = sum(map(str.isalpha, text))
    return (found >= words or letters + 2 * tight >= 6 * words) and letters >= 0.55 * len(text)
