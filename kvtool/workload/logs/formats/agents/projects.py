"""Projects of agents: the folders in which they work."""

from __future__ import annotations

import re


def project_of(folder: object) -> str | None:
    """Return the last name of a folder, of any system; None for what is no folder."""
    if not isinstance(folder, str):
        return None
    names = [name for name in re.split(r"[/\\]", folder) if name]
    return names[-1] if names else None
