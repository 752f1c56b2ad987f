"""Text files that no name says to be prompts, and that are prompts by what stands in them: chat marks, or who the reader is."""

from __future__ import annotations

import re

from kvtool.lint.placeholders import doubt_of
from kvtool.lint.python_evidence import reads_as
from kvtool.lint.skeleton import placeholders, style_of
from kvtool.lint.sources import MARKUP_SUFFIX

UNNAMED_SUFFIXES = (".txt", MARKUP_SUFFIX)
_MARKS = re.compile(
    r"<\|(?:im_start|start_header_id|begin_of_text|system|user|assistant)\|>|\[INST\]|<<SYS>>|<start_of_turn>"
)
_WHO, _ASKS = 3, 2
"""How a text reads that says who the reader is, and one that asks for something."""
_OF_MODELS = re.compile(
    r"\b(?:JSON|LLMs?|AI (?:assistant|model|agent|system)|language models?|step by step|verdicts?|given the|your task"
    r"|based on the (?:given|provided|following))\b",
    re.IGNORECASE,
)
"""What is said to models, not to people who get a letter."""
_SURE = 2
"""Different words of that kind, with which any placeholder will do."""
_JINJA = re.compile(r"\{\{-?\s{0,8}([A-Za-z_][\w.]{0,99})")


def is_prompt_text(text: str) -> bool:
    """Whether a text has a placeholder for what is asked, and marks of a chat, or says who the reader is and what to do."""
    style = style_of(text)
    if style == "jinja":
        names = {found[1] for found in _JINJA.finditer(text)}
    else:
        names = {name for _, _, name in placeholders(text, "marks" if style == "marks" else "format")}
    names = {name for name in names if not name.isdigit()}
    reads = reads_as(text)
    said: set[str] = (
        {found[0].lower() for found in _OF_MODELS.finditer(text)} if style == "jinja" and reads >= _ASKS else set()
    )
    if not any(doubt_of(name) == "use" for name in names):
        return bool(names) and len(said) >= _SURE
    if _MARKS.search(text) is not None or reads == _WHO:
        return True
    return bool(said)
