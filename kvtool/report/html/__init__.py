"""HTML: one file to send around, without a script and without any request to a network."""

from __future__ import annotations

from kvtool.report.html.page import write

__all__ = ["write"]
