"""Templates that lay in a folder: which of them are prompts. One that somebody named is what they say that it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from kvtool.lint.python_evidence import Belief, Evidence, belief, file_says_prompt, name_says_prompt, reads_as
from kvtool.lint.skeleton import Node, leaves
from kvtool.lint.sources import TextInput
from kvtool.lint.templates import is_chat_template


def template_belief(one: TextInput, prompts: Iterable[Iterable[Node]]) -> Belief:
    """Whether a template is one of a prompt: one that reads like code or markup is none, for most templates make files."""
    if one.style == "jinja" and is_chat_template(one.text):
        return Belief.STRONG
    text = "".join(leaf for nodes in prompts for leaf in leaves(nodes) if isinstance(leaf, str))
    name = PurePath(one.path).name.partition(".")[0]
    if file_says_prompt(one.path) or name_says_prompt(name.replace("-", "_")):
        return belief(Evidence.NAME, text)
    return Belief.STRONG if reads_as(text) >= 0 else Belief.NO
