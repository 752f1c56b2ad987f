"""Sphinx: sphinx-build -W -n --keep-going docs docs/_build, in the root of the repository."""

from __future__ import annotations

import re
from typing import Any

from kvtool.version import __version__

project = "kvtool"
author = "the kvtool authors"
version = release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"kvtool {version}"
smartquotes = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"

_OUTSIDE = {"benchmarks": ("../benchmarks/RESULTS.md", "results"), "security": ("../SECURITY.md", "what-it-executes")}
"""Pages that end with a file outside of `docs`: that file, and the heading in it that a link to it leads to."""
_LISTED = re.compile(r"<!-- pages( \"[^\"]*\")? -->\n(.*?)<!-- /pages -->", re.DOTALL)
_LINK = re.compile(r"^- \[[^\]]*\]\(([^)#]*)\.md\)", re.MULTILINE)


def _read(_app: Any, name: str, source: list[str]) -> None:
    """Two things that a code host does by itself: following a link out of `docs`, and showing a list as a list.

    Files that stand outside become the end of their pages. A list between `<!-- pages -->` and
    `<!-- /pages -->` becomes a table of contents for the side bar as well; a code host would show a toctree as a block of code.
    """

    def with_contents(found: re.Match[str]) -> str:
        caption = f":caption: {found[1].strip()[1:-1]}\n" if found[1] else ""
        entries = "\n".join(_LINK.findall(found[2]))
        return f"{found[2]}\n```{{toctree}}\n:hidden:\n{caption}\n{entries}\n```\n"

    text = source[0]
    for page, (path, heading) in _OUTSIDE.items():
        text = text.replace(f"({path})", f"({page}.md#{heading})")
    if name in _OUTSIDE:
        text += f"\n```{{include}} {_OUTSIDE[name][0]}\n:heading-offset: 1\n```\n"
    source[0] = _LISTED.sub(with_contents, text)


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("source-read", _read)
