"""Fixes carried out in the user's files, and where breakpoints and requests go."""
