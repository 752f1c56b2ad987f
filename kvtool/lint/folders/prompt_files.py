"""Templates that lay in a folder: which of them are prompts. One that somebody named is what they say that it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from kvtool.lint.evidence.prompt_evidence import Belief, Evidence, belief, file_says_prompt, name_says_prompt, reads_as
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.skeleton import Node, leaves
from kvtool.lint.template_files import is_chat_template

_SETTING = re.compile(r"^[ \t]{0,12}[\w.-]{1,60}[ \t]{0,20}=(?:[ \t]|$)", re.MULTILINE)
_SECTION = re.compile(r"^\[{1,2}[\w.\" -]{1,80}\]{1,2}[ \t]*$", re.MULTILINE)
_LEAST_SETTINGS = 3


def template_belief(one: TextInput, prompts: Iterable[Iterable[Node]]) -> Belief:
    """Whether a template is one of a prompt: one that reads like code, markup or settings is none: most templates make files."""
    if _makes_settings(one.text):
        return Belief.NO
    if one.style == "jinja" and is_chat_template(one.text):
        return Belief.STRONG
    text = "".join(leaf for nodes in prompts for leaf in leaves(nodes) if isinstance(leaf, str))
    name = PurePath(one.path).name.partition(".")[0]
    if file_says_prompt(one.path) or name_says_prompt(name.replace("-", "_")):
        return belief(Evidence.NAME, text)
    return Belief.STRONG if reads_as(text) >= 0 else Belief.NO


def _makes_settings(text: str) -> bool:
    """Whether a template makes a file of settings: half of its lines set something, in sections."""
    settings, sections = len(_SETTING.findall(text)), len(_SECTION.findall(text))
    lines = sum(1 for line in text.splitlines() if line.strip() and "{%" not in line)
    return bool(sections) and settings >= _LEAST_SETTINGS and 2 * (settings + sections) >= lines
