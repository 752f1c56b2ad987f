"""The block size of a trace that does not say its own; light to import, as options take it for their default."""

from __future__ import annotations

TRACE_BLOCK = 512
"""Tokens for each hash in Mooncake's traces."""
