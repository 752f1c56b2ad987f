"""Findings in templates, comments that ignore them, and fixes in files."""
