"""How a notebook shows a document.

Documents do not know what draws them: `kvtool.api`, through which programs get them, registers that here.
"""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def notebook_html(document: object) -> str | None:
    """Return a fragment of HTML; None where there is none for this kind, and a notebook shows its text."""
    del document
    return None
