"""HTML: one self-contained file."""

from __future__ import annotations

from kvtool.report.html.page import write

__all__ = ["write"]
