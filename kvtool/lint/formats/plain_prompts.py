"""Long texts in natural language that hold placeholders, in YAML or JSON of no known form."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from kvtool.lint.formats.prompt_data import DataFile, FilePrompts, Prompt, PromptText, chat, found_style
from kvtool.lint.skeleton import JINJA_MARK
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


def read_plain_strings(file: DataFile) -> FilePrompts | None:
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
    return FilePrompts(tuple(found)) if found else None


def _are_prompt(sections: list[Scalar], key: str) -> bool:
    """Return whether the sections of a request, one of them with a placeholder, are natural language."""
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


_DECLARES = frozenset(
    (
        "parameters",
        "params",
        "variables",
        "input_variables",
        "inputs",
        "placeholders",
        "arguments",
        "required_variables",
        "fields",
    )
)
_ABOUT = frozenset(
    ("description", "summary", "title", "name", "comment", "comments", "notes", "help", "doc", "example", "source")
)
"""Keys of texts that tell people of the prompt."""
_NAMES = frozenset(("name", "id", "key"))


def declared_texts(node: Mapping) -> frozenset[str]:
    """The keys of its texts that hold a placeholder of a variable that it declares."""
    names = {name for key, value in node.values.items() if key.lower() in _DECLARES for name in _names(value)}
    if not names:
        return frozenset()
    held = re.compile(rf"\{{{{?[-~]?\s{{0,8}}(?:{'|'.join(map(re.escape, sorted(names)))})\s{{0,8}}[}}|.!:\[]")
    return frozenset(
        key
        for key, value in node.values.items()
        if key.lower() not in _ABOUT | _DECLARES
        and isinstance(value, Scalar)
        and value.kind == "str"
        and (held.search(value.value) is not None or _has_condition(value.value, names))
    )


def _has_condition(text: str, names: set[str]) -> bool:
    """Return whether a tag of Jinja asks for one of the names."""
    return JINJA_MARK.search(text) is not None and any(
        re.search(rf"\{{%[^%\n]{{0,80}}\b{re.escape(name)}\b", text) for name in names
    )


def _names(node: YamlNode) -> list[str]:
    """The names that a list or a mapping of variables holds."""
    if isinstance(node, Mapping):
        return [name for name in node.values if name.isidentifier()]
    found: list[str] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Scalar):
            found.append(item.value)
        elif isinstance(item, Mapping):
            found += [one.value for key, one in item.values.items() if key in _NAMES and isinstance(one, Scalar)]
    return [name for name in found if name.isidentifier()]


_SYSTEM = ("system", "system_prompt", "system_message", "developer")
_USER = ("user", "user_prompt", "user_message", "human")
_PARTS_ALONE = frozenset(
    (
        "introduction",
        "intro",
        "preamble",
        "principles",
        "guidelines",
        "rules",
        "constraints",
        "examples",
        "demonstrations",
    )
)
"""What is no request alone."""
_WHOLES = frozenset(
    ("system", "system_prompt", "task", "instruction", "instructions", "generation", "context", "input", "question")
)
"""What the parts are beside."""
_LEAST_PARTS = 2
_MOST_DEEP = 4


def role_sections(node: Mapping) -> list[Scalar]:
    """Its texts in the order in which a request has them, the system's before the user's; none where it is no such mapping."""
    system, user = _under(node, _SYSTEM), _under(node, _USER)
    if not system or not user:
        return _part_texts(node)
    return [*system, *user]


def _part_texts(node: Mapping) -> list[Scalar]:
    """The parts of a request and what they are beside, where a mapping holds several parts."""
    found = [
        value
        for key, value in node.values.items()
        if key.lower() in _PARTS_ALONE | _WHOLES and isinstance(value, Scalar) and value.kind == "str" and value.value
    ]
    named = {key.lower() for key in node.values}
    return found if len(named & _PARTS_ALONE) >= _LEAST_PARTS and named & _WHOLES else []


def _under(node: Mapping, keys: tuple[str, ...]) -> list[Scalar]:
    return [text for key in keys if key in node.values for text in _texts(node.values[key], _MOST_DEEP)]


def _texts(node: YamlNode, deep: int) -> Iterator[Scalar]:
    """The texts of an entry, in the order of the file."""
    if isinstance(node, Scalar):
        if node.kind == "str" and node.value:
            yield node
    elif deep:
        below = node.values.values() if isinstance(node, Mapping) else node.items if isinstance(node, Sequence) else ()
        for one in below:
            yield from _texts(one, deep - 1)


TOML_KEYS = ("system", "system_prompt", "instructions", "prompt", "user", "user_prompt", "template")
"""In the order in which a request has them."""
_TABLE = re.compile(r"^[ \t]{0,20}\[{1,2}([^\]\n]{1,200})\]", re.MULTILINE)
_STRING = re.compile(r"^[ \t]{0,20}\"?([A-Za-z][\w-]{0,80})\"?[ \t]{0,20}=[ \t]{0,20}(\"\"\"|''')", re.MULTILINE)


def read_toml_prompts(file: DataFile) -> FilePrompts | None:
    """A prompt for each table that has such strings; None where none of them holds a placeholder, or the file is no TOML."""
    import tomllib

    try:
        tomllib.loads(file.text)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return None
    tables: dict[int, dict[str, PromptText]] = {}
    heads = list(_TABLE.finditer(file.text))
    named = PROMPT_WORD.search(file.path) is not None
    others: list[Prompt] = []
    at = 0
    while (found := _STRING.search(file.text, at)) is not None:
        stop = file.text.find(found[2], found.end())
        if stop < 0:
            break
        at = stop + len(found[2])
        text = file.text[found.end() : stop]
        one = PromptText(file.whole(found.end(), stop), found_style(text), strict=False)
        table = bisect_right(heads, found.start(), key=lambda head: head.start())
        if found[1] in TOML_KEYS:
            tables.setdefault(table, {})[found[1]] = one
        elif (
            named or PROMPT_WORD.search(found[1]) or (table and PROMPT_WORD.search(heads[table - 1][1]))
        ) and is_prompt(text, LEAST_WORDS, f"{found[1]} prompt"):
            others.append((one,))
    prompts: list[Prompt] = [
        tuple(texts[key] for key in TOML_KEYS if key in texts)
        for texts in tables.values()
        if any(text.style for text in texts.values())
    ]
    prompts += others
    return FilePrompts(tuple(prompts)) if prompts else None
