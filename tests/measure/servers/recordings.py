"""The recorded sessions with a real server, which hold prompts of others and are no part of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

_RECORDINGS = Path(__file__).resolve().parents[4] / "shared/data/live-vllm-0.32"


_CHECKED = _RECORDINGS.parent / "truth/live"
"""Sessions that a later reading of kvtool was held against."""


def recording(name: str) -> Path:
    """The folder of a session; the test is skipped where it is not here."""
    folder = next((each / name for each in (_RECORDINGS, _CHECKED) if (each / name).is_dir()), _RECORDINGS / name)
    if not folder.is_dir():
        pytest.skip("the recorded sessions with a server are not here")
    return folder
