"""Misses of a log with reported usage: prompt tokens that were cached and not read, each with its cause."""
