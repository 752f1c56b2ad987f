"""Front matter: YAML between two lines of dashes at the beginning of a text, which says a program something, not a model."""

from __future__ import annotations

import re

_FRONT = re.compile(r"\A\ufeff?\s{0,80}---[ \t]*\r?\n(.{0,20000}?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"^[A-Za-z_][\w-]{0,60}[ \t]*:", re.MULTILINE)


def front_matter(text: str) -> re.Match[str] | None:
    """The front matter of a text, its group the YAML; None where there is none."""
    found = _FRONT.match(text)
    return found if found is not None and (_KEY.search(found[1]) or not found[1].strip()) else None


def body_start(text: str) -> int:
    """Return the offset after the front matter."""
    found = front_matter(text)
    return 0 if found is None else found.end()
