"""Blocks of the terminal report of a profile."""
