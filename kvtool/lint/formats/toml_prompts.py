"""Prompts in TOML: strings of several lines under keys such as `system`, `user` or `prompt`, with Jinja or `{name}` in them."""

from __future__ import annotations

import re

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, PromptText, found_style

KEYS = ("system", "system_prompt", "instructions", "prompt", "user", "user_prompt", "template")
"""In the order in which a request has them."""
_TABLE = re.compile(r"^[ \t]{0,20}\[{1,2}[^\]\n]{1,200}\]", re.MULTILINE)
_STRING = re.compile(rf"^[ \t]{{0,20}}({'|'.join(KEYS)})[ \t]{{0,20}}=[ \t]{{0,20}}(\"\"\"|''')", re.MULTILINE)


def read_toml_prompts(file: DataFile) -> HeldPrompts | None:
    """A prompt for each table that has such strings; None where none of them holds a placeholder, or the file is no TOML."""
    import tomllib

    try:
        tomllib.loads(file.text)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return None
    tables: dict[int, dict[str, PromptText]] = {}
    starts = [table.start() for table in _TABLE.finditer(file.text)]
    at = 0
    while (found := _STRING.search(file.text, at)) is not None:
        stop = file.text.find(found[2], found.end())
        if stop < 0:
            break
        at = stop + len(found[2])
        style = found_style(file.text[found.end() : stop])
        table = sum(start <= found.start() for start in starts)
        tables.setdefault(table, {})[found[1]] = PromptText(file.whole(found.end(), stop), style, strict=False)
    prompts: list[Prompt] = [
        tuple(texts[key] for key in KEYS if key in texts)
        for texts in tables.values()
        if any(text.style for text in texts.values())
    ]
    return HeldPrompts(tuple(prompts)) if prompts else None
