"""Every test in this folder runs kernels in Triton's interpreter, with what that gets wrong put right."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("triton") is None:  # it has no wheels but for Linux
    collect_ignore_glob = ["test_*.py"]
else:
    from tests.kernels.interpreter import corrected

    @pytest.fixture(scope="module", autouse=True)
    def _corrected_interpreter() -> Iterator[None]:
        with corrected():
            yield
