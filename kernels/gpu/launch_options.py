"""Options for compiling every kernel."""

from __future__ import annotations

from typing import Final

OPTIONS: Final = {"enable_fp_fusion": True}
"""A product and a sum become one instruction, which is quicker and rounds once. Triton does so by default up to 3.9, where it warns
that it soon will not."""
