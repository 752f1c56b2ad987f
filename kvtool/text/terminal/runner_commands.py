"""Text that CI runners would obey if a file of ours is printed into their log: made harmless, without loss where a format can.

GitHub's runner obeys lines that begin with `::` after spaces, and `##[command]` anywhere; Azure's obeys `##vso[`, and TeamCity
`##teamcity[`.
"""

from __future__ import annotations

import re

_ANYWHERE = re.compile(r"##(?=\[|vso\[|teamcity\[)")
_AT_START = re.compile(r"^([ \t]*+):(?=:)", re.MULTILINE)


def blunt(text: str) -> str:
    """Plain text with a space within each of the signs."""
    return _AT_START.sub(r"\1: ", _ANYWHERE.sub("# #", text))


def sign_places(text: str) -> list[int]:
    """Return the offsets at which `blunt` puts spaces."""
    return [
        *(match.start() + 1 for match in _ANYWHERE.finditer(text)),
        *(match.end() for match in _AT_START.finditer(text)),
    ]


def blunt_json(text: str) -> str:
    """A JSON document that says the same: the signs only occur in strings, and never at the start of a line."""
    return _ANYWHERE.sub(r"#\\u0023", text)


def blunt_xml(text: str) -> str:
    """An XML document that says the same."""
    return _AT_START.sub(r"\1&#58;", _ANYWHERE.sub("#&#35;", text))
