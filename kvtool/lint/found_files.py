"""Files that lay in a folder: which of them hold prompts. A file that somebody named is what they say that it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from kvtool.lint.python_evidence import Belief, Evidence, belief, file_says_prompt, name_says_prompt, reads_as
from kvtool.lint.skeleton import Node, leaves
from kvtool.lint.sources import TextInput
from kvtool.lint.templates import is_chat_template

_OF_TEXT = frozenset(
    ("md", "markdown", "txt", "text", "j2", "jinja", "jinja2", "tmpl", "prompt", "system", "user", "xml")
)
"""Suffixes of templates, and of what they make where that is a text: one of all others makes a file that is no prompt."""
_BUILD_FILES = frozenset(("makefile", "dockerfile", "jenkinsfile", "vagrantfile"))
_TEST_STARTS = ("test_", "conftest.")
_TEST_ENDS = ("_test", "_tests")


def is_test_module(path: str) -> bool:
    """Whether a Python file is one that pytest or unittest runs: what it builds is data for tests, and no requests share it."""
    name = PurePath(path)
    return name.suffix == ".py" and (name.name.startswith(_TEST_STARTS) or name.stem.endswith(_TEST_ENDS))


def template_belief(one: TextInput, prompts: Iterable[Iterable[Node]]) -> Belief:
    """Whether a template is one of a prompt, by its name and by how it reads: most templates make pages, files and settings."""
    if one.style == "jinja" and is_chat_template(one.text):
        return Belief.STRONG
    text = "".join(leaf for nodes in prompts for leaf in leaves(nodes) if isinstance(leaf, str))
    name, *suffixes = PurePath(one.path).name.lower().split(".")
    if file_says_prompt(one.path) or name_says_prompt(name.replace("-", "_")):
        return belief(Evidence.NAME, text)
    if not _OF_TEXT.issuperset(suffixes) or name in _BUILD_FILES:  # `page.html.j2` makes a page
        return belief(Evidence.NOTHING, text)
    return Belief.STRONG if reads_as(text) >= 0 else Belief.NO
