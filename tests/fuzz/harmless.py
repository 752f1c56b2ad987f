"""Whether outputs hold anything that their readers would obey: elements, handlers, links, commands, markup."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import kvtool.report.html

_ELSEWHERE = re.compile(r"evil\.example|alert\(1\)", re.IGNORECASE)
_COMMAND = re.compile(r"(?m)^[ \t]*::([\w-]+)( [^\n]*?)?::(.*)$")
_OURS = {"error", "warning", "notice", "group", "endgroup"}
_SCRIPT = Path(kvtool.report.html.__file__).with_name("script.js.jinja").read_text(encoding="utf-8")
_PARAMETER = re.compile(r"(file|line|endLine|col|endColumn|title)=[^\n]*")


def harm(name: str, text: str, arguments: Sequence[str]) -> Iterator[str]:
    """What is harmful in an output of that name (`stdout`, or a file)."""
    if name.endswith(".html"):
        yield from _html(text)
    elif name.endswith(".svg"):
        yield from _svg(text)
    elif name.endswith(".md"):
        yield from _markdown(text)
    elif name.endswith(".csv"):
        yield from _csv(text)
    elif name == "stdout" and "github" in arguments:
        yield from _annotations(text)
    elif (name == "stdout" or name.endswith(".txt")) and "--json" not in arguments:
        if "bold red" in text and "[bold red" not in text:
            yield "markup was obeyed"
        if "a\x1b[31mred" in text:
            yield "a style of the input"


class _Elements(HTMLParser):
    """Elements and attributes that do something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag in ("iframe", "object", "embed", "base", "form", "link", "img"):
            self.found.append(f"<{tag}>")
        for key, value in attrs:
            if key.startswith("on"):
                self.found.append(f"{tag} {key}=")
            if key in ("href", "src", "xlink:href", "action") and (
                _ELSEWHERE.search(value or "") or "script:" in (value or "")
            ):
                self.found.append(f"{tag} {key}={value}")


def _html(text: str) -> Iterator[str]:
    parser = _Elements()
    parser.feed(text)
    parser.close()
    yield from parser.found[:3]
    if parser.scripts != text.count(f"<script>{_SCRIPT}</script>"):
        yield "a script that is not ours"


def _svg(text: str) -> Iterator[str]:
    for element in ET.fromstring(text).iter():
        if element.tag.rsplit("}", 1)[-1] in ("script", "foreignObject", "image", "a"):
            yield f"element {element.tag}"
        for key in element.attrib:
            if key.rsplit("}", 1)[-1].startswith("on"):
                yield f"attribute {key}"


def _csv(text: str) -> Iterator[str]:
    for row in csv.reader(StringIO(text, newline=""), strict=True):
        for cell in row:
            if cell.lstrip().startswith(("=", "+", "-", "@")):
                yield f"formula {cell[:60]}"


def _markdown(text: str) -> Iterator[str]:
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        for each in (token, *(token.children or ())):
            if each.type in ("html_block", "html_inline"):
                yield from _html(each.content)
            if each.type == "image" or (each.type == "link_open" and _ELSEWHERE.search(str(each.attrGet("href")))):
                yield f"{each.type} {each.attrs}"


def _annotations(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if not line.lstrip().startswith("::"):
            continue
        match = _COMMAND.match(line)
        if match is None or match.group(1) not in _OURS:
            yield f"command {line[:60]}"
        elif match.group(2) and not _PARAMETER.fullmatch(match.group(2).strip()):
            yield f"parameters {match.group(2)[:60]}"
        elif line.startswith("::error file=a::boom"):
            yield "a command of the input"
    if re.search(r"\r|\u2028", text):
        yield "a line end in a line"
