"""Find the model that the address of a request names: of Gemini, Vertex, Bedrock and Azure."""

from __future__ import annotations

import re
from urllib.parse import unquote

_NAMED = re.compile(
    r"/models/(?P<google>[^/?#:]+):[A-Za-z]+"
    r"|/model/(?:arn:[^?#]+/)?(?P<bedrock>[^/?#]+)/(?:invoke|converse)"
    r"|/deployments/(?P<azure>[^/?#]+)/"
)
_ADDRESS = re.compile(r"(?:[A-Z]+ )?(?:https?://|/)", re.IGNORECASE)
_LONGEST = 2_000
"""Characters of an address that are looked at."""


def model_in_address(address: object) -> str | None:
    """Return the model of an address or of its path; None where it names none."""
    if not isinstance(address, str) or _ADDRESS.match(address) is None:
        return None
    found = _NAMED.search(unquote(address[:_LONGEST]))
    return None if found is None else next(each for each in found.groups() if each is not None)
