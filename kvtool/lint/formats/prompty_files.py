"""Prompty (`.prompty`) and Dotprompt (`.prompt`): front matter in YAML, and below it the prompt with its roles."""

from __future__ import annotations

import re

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, PromptText, Style, found_style
from kvtool.lint.front_matter import front_matter

_MUSTACHE = re.compile(
    r"^\s{0,8}(?:template|type|format|templateFormat)[ \t]*:[ \t]*(?:mustache|handlebars)\b", re.MULTILINE
)


def read_prompty(file: DataFile) -> HeldPrompts | None:
    """What stands below the front matter: Jinja, unless it says otherwise."""
    front = front_matter(file.text)
    body = file.whole(front.end() if front is not None else 0)
    style: Style = "jinja"
    if file.suffix == ".prompt":
        style = "mustache" if front is not None else found_style(body)
    if front is not None and _MUSTACHE.search(front[1]):
        style = "mustache"
    return HeldPrompts(((PromptText(body, style, strict=file.suffix == ".prompty"),),))
