"""Metrics of a server, read and compared over time."""
