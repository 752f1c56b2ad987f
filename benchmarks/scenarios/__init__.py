"""Prompts with a planted cause of lost hits, its best fix, and the units that no fix may tear: one file for each kind."""
