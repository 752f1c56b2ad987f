"""How much of a prompt may be shown."""

from __future__ import annotations

from typing import Literal

ShowText = Literal["none", "snippet", "full"]
"""`snippet`: the line that a finding is about, with keys and addresses blacked out; `full`: as it is, and edits as diffs."""
