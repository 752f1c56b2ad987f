"""BAML: the prompts of functions, `prompt #"…"#`, in which Jinja is written."""

from __future__ import annotations

import re

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, PromptText

_OPENING = re.compile(r"\bprompt\s{1,80}(#{1,8})\"|\bprompt\s{1,80}\"(?=[^\"\n])")


def read_baml(file: DataFile) -> HeldPrompts | None:
    """Each prompt of the file."""
    whole = file.whole()
    found: list[Prompt] = []
    at = 0
    while (opening := _OPENING.search(file.text, at)) is not None:
        end = file.text.find('"' + (opening[1] or ""), opening.end())
        if end < 0:
            break
        found.append((PromptText(whole[opening.end() : end], "jinja", strict=False),))
        at = end + 1
    return HeldPrompts(tuple(found))
