"""Text files that no name says to be prompts, and that are prompts by what stands in them: chat marks, or who the reader is."""

from __future__ import annotations

import re

from kvtool.lint.placeholders import doubt_of
from kvtool.lint.python_evidence import reads_as
from kvtool.lint.skeleton import placeholders, style_of

UNNAMED_SUFFIX = ".txt"
_MARKS = re.compile(
    r"<\|(?:im_start|start_header_id|begin_of_text|system|user|assistant)\|>|\[INST\]|<<SYS>>|<start_of_turn>"
)
_WHO = 3


def is_prompt_text(text: str) -> bool:
    """Whether a text has a placeholder for what is asked, and marks of a chat, or says who the reader is and what to do."""
    style = "marks" if style_of(text) == "marks" else "format"
    if not any(doubt_of(name) == "use" for _, _, name in placeholders(text, style) if not name.isdigit()):
        return False
    return _MARKS.search(text) is not None or reads_as(text) == _WHO
