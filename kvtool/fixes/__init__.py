"""Fixes: proposed changes, the proof of what each may do, and the edits that make it."""
