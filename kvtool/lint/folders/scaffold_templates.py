"""Templates that other files are made of: a folder with the skeleton of a new project holds Python and YAML that do not parse."""

from __future__ import annotations

import re

from kvtool.errors import KvtoolError

_PLACEHOLDER = re.compile(r"\{\{[^{}/]+\}\}")
_TAG = re.compile(r"\{%[-+]?\s*\w")


def makes_a_file(path: str, error: KvtoolError) -> bool:
    """Whether a file with this error is such a template: its name or that of a folder holds a placeholder, or the line that
    cannot be read has a tag of Jinja."""
    excerpt = error.place.excerpt if error.place is not None else None
    return _PLACEHOLDER.search(path) is not None or _TAG.search(excerpt or "") is not None
