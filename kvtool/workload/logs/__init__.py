"""Logs, traces and prompt files, read as streams; a function for each format of a record."""

TRACE_BLOCK = 512
"""Tokens for each hash in Mooncake's traces: the block size of a trace that reports none. Here, as options import little."""
