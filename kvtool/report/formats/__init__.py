"""Formats that results are written in."""
