"""Text files that no name says to be prompts, and that are prompts by what is in them: chat marks, or who the reader is."""

from __future__ import annotations

import re
from pathlib import PurePath

from kvtool.lint.evidence.placeholders import doubt_of
from kvtool.lint.evidence.prompt_evidence import reads_as
from kvtool.lint.front_matter import body_start
from kvtool.lint.lint_inputs import MARKUP_SUFFIX
from kvtool.lint.skeleton import placeholders, style_of

_PROMPT_NAME = re.compile(r"prompt|instruction", re.IGNORECASE)
_SYSTEM_NAME = re.compile(r"system(?:[_-]message)?")
"""How a text is named for the message that it is."""
_DOCUMENT_SUFFIX = ".md"
UNNAMED_SUFFIXES = (".txt", _DOCUMENT_SUFFIX, MARKUP_SUFFIX)
_MARKS = re.compile(
    r"<\|(?:im_start|start_header_id|begin_of_text|system|user|assistant)\|>|\[INST\]|<<SYS>>|<start_of_turn>"
)
_TAGS = re.compile(
    r"</?(?:\w{1,20}_)?(?:prompt|instructions?|task|rules|guidelines|context|examples?|question|documents?|output_format)>"
)
"""Tags around the parts of a prompt."""
_WHO, _ASKS = 3, 2
"""How a text reads that says who the reader is, and one that asks for something."""
_OF_MODELS = re.compile(
    r"\b(?:JSON|LLMs?|AI (?:assistant|model|agent|system)|language models?|step by step|verdicts?|given the|your task"
    r"|(?:return|respond|answer|reply|output)\b[^.\n]{0,40}\b(?:JSON|YAML)"
    r"|based on the (?:given|provided|following))\b",
    re.IGNORECASE,
)
"""What is said to models, not to people who get a letter."""
_SURE = 2
"""Different words of that kind, with which any placeholder will do."""
_JINJA = re.compile(r"\{\{-?\s{0,8}([A-Za-z_][\w.]{0,99})")


_FENCED = re.compile(r"^[ \t]{0,12}(`{3,9}|~{3,9})[^`]*?^[ \t]{0,12}\1|`[^`\n]{1,200}`", re.MULTILINE)
_FIRST = 600
"""Characters at the beginning of a document, within which a prompt says who its reader is."""


_ROLE = re.compile(r"[_.-](?:system|user)(?:[_.-](?:message|msg|content))?$", re.IGNORECASE)
"""How a text's name ends that is one of the messages of a request."""


def is_named_prompt(path: str) -> bool:
    """Return whether a text, or a folder that it is in, is named for a prompt."""
    stem = PurePath(path).stem.lower()
    return _PROMPT_NAME.search(path) is not None or _SYSTEM_NAME.fullmatch(stem) is not None


def is_unnamed_prompt(name: str, text: str) -> bool:
    """Return whether a file that no name says to be a prompt is one. A document shows code, and says who its reader is at once."""
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix}".lower() != _DOCUMENT_SUFFIX:
        return is_prompt_text(text, of_a_role=_ROLE.search(stem) is not None)
    sent = text[body_start(text) :]
    return reads_as(sent[:_FIRST]) == _WHO and is_prompt_text(_FENCED.sub("", sent))


def is_prompt_text(text: str, *, of_a_role: bool = False) -> bool:
    """Return whether a text has a placeholder for what is asked, and marks of a chat, or says who the reader is and what to do.

    `of_a_role`: its name is one of a message; then it has only to ask for something.
    """
    style = style_of(text)
    if style == "jinja":
        names = {found[1] for found in _JINJA.finditer(text)}
    else:
        names = {name for _, _, name in placeholders(text, "marks" if style == "marks" else "format")}
    names = {name for name in names if not name.isdigit()}
    reads = reads_as(_TAGS.sub("\n", text))
    said: set[str] = (
        {found[0].lower() for found in _OF_MODELS.finditer(text)} if style == "jinja" and reads >= _ASKS else set()
    )
    if not any(doubt_of(name) == "use" for name in names):
        return bool(names) and len(said) >= _SURE
    marked = of_a_role or _TAGS.search(text) is not None
    if _MARKS.search(text) is not None or reads == _WHO or (reads == _ASKS and marked):
        return True
    return bool(said)
