"""Fixes that move text after what is shared, in whole units."""
