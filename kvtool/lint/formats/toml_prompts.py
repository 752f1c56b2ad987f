"""Prompts in TOML: strings of several lines under keys such as `system`, `user` or `prompt`, with Jinja or `{name}` in them.

Under any other key a text is one by itself where the key, its table or the file is named for prompts; a key with `_` in front is
one that is laid aside.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from kvtool.lint.formats.plain_strings import LEAST_WORDS, PROMPT_WORD, is_prompt
from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, PromptText, found_style

KEYS = ("system", "system_prompt", "instructions", "prompt", "user", "user_prompt", "template")
"""In the order in which a request has them."""
_TABLE = re.compile(r"^[ \t]{0,20}\[{1,2}([^\]\n]{1,200})\]", re.MULTILINE)
_STRING = re.compile(r"^[ \t]{0,20}\"?([A-Za-z][\w-]{0,80})\"?[ \t]{0,20}=[ \t]{0,20}(\"\"\"|''')", re.MULTILINE)


def read_toml_prompts(file: DataFile) -> HeldPrompts | None:
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
        if found[1] in KEYS:
            tables.setdefault(table, {})[found[1]] = one
        elif (
            named or PROMPT_WORD.search(found[1]) or (table and PROMPT_WORD.search(heads[table - 1][1]))
        ) and is_prompt(text, LEAST_WORDS, f"{found[1]} prompt"):
            others.append((one,))
    prompts: list[Prompt] = [
        tuple(texts[key] for key in KEYS if key in texts)
        for texts in tables.values()
        if any(text.style for text in texts.values())
    ]
    prompts += others
    return HeldPrompts(tuple(prompts)) if prompts else None
